# SPDX-License-Identifier: Apache-2.0
"""Every driver held to the Protocols that it follows, for mypy: nothing imports this.

Written from the scan: `pytest tests/agents/test_typed_drivers.py --accept` writes it anew.
"""

from agents.drivers import protocols
from agents.layers import _template as layer_template
from agents.layers import bcache as layer_bcache
from agents.layers import directory as layer_directory
from agents.layers import dm_crypt as layer_dm_crypt
from agents.layers import filesystem as layer_filesystem
from agents.layers import flashcache as layer_flashcache
from agents.layers import lvm as layer_lvm
from agents.layers import lvm_cache as layer_lvm_cache
from agents.layers import manual as layer_manual
from agents.layers import md as layer_md
from agents.layers import partition as layer_partition
from agents.layers import raw as layer_raw
from agents.layers import reported as layer_reported
from agents.layers import tuning as layer_tuning
from agents.layers import zfs as layer_zfs
from agents.layers import zpool as layer_zpool
from agents.layers import zvol as layer_zvol
from agents.readers import bonnie as reader_bonnie
from agents.readers import ceph as reader_ceph
from agents.readers import dd as reader_dd
from agents.readers import disk_marks as reader_disk_marks
from agents.readers import diskspd as reader_diskspd
from agents.readers import elbencho as reader_elbencho
from agents.readers import figures as reader_figures
from agents.readers import fio as reader_fio
from agents.readers import fio_log as reader_fio_log
from agents.readers import fio_scripts as reader_fio_scripts
from agents.readers import icf as reader_icf
from agents.readers import iometer as reader_iometer
from agents.readers import iostat as reader_iostat
from agents.readers import iozone as reader_iozone
from agents.readers import pg_test_fsync as reader_pg_test_fsync
from agents.readers import quick_checks as reader_quick_checks
from agents.readers import sysbench as reader_sysbench
from agents.readers import vdbench as reader_vdbench
from agents.readers import zpool_iostat as reader_zpool_iostat
from agents.samplers import _template as sampler_template
from agents.samplers import arcstat as sampler_arcstat
from agents.samplers import bcache as sampler_bcache
from agents.samplers import cpu as sampler_cpu
from agents.samplers import cpu_throttling as sampler_cpu_throttling
from agents.samplers import diskstats as sampler_diskstats
from agents.samplers import dm_cache as sampler_dm_cache
from agents.samplers import freebsd_iostat as sampler_freebsd_iostat
from agents.samplers import gstat as sampler_gstat
from agents.samplers import mdstat as sampler_mdstat
from agents.samplers import zpool as sampler_zpool
from agents.tools import _template as tool_template
from agents.tools import bonnie as tool_bonnie
from agents.tools import command as tool_command
from agents.tools import dd as tool_dd
from agents.tools import dynamo as tool_dynamo
from agents.tools import fio as tool_fio
from agents.tools import pg_test_fsync as tool_pg_test_fsync
from agents.tools import sysbench as tool_sysbench

of_layer_template: protocols.Layer[layer_template.Options] = layer_template
of_layer_bcache: protocols.Layer[layer_bcache.Options] = layer_bcache
of_layer_bcache_healthcheck: protocols.HealthCheck[layer_bcache.Options] = layer_bcache
of_layer_directory: protocols.Layer[layer_directory.Options] = layer_directory
of_layer_dm_crypt: protocols.Layer[layer_dm_crypt.Options] = layer_dm_crypt
of_layer_dm_crypt_healthcheck: protocols.HealthCheck[layer_dm_crypt.Options] = layer_dm_crypt
of_layer_dm_crypt_layercommands: protocols.LayerCommands[layer_dm_crypt.Options] = layer_dm_crypt
of_layer_dm_crypt_layerscripts: protocols.LayerScripts[layer_dm_crypt.Options] = layer_dm_crypt
of_layer_filesystem: protocols.Layer[layer_filesystem.Options] = layer_filesystem
of_layer_filesystem_expandable: protocols.Expandable[layer_filesystem.Options] = layer_filesystem
of_layer_filesystem_healthcheck: protocols.HealthCheck[layer_filesystem.Options] = layer_filesystem
of_layer_flashcache: protocols.Layer[layer_flashcache.Options] = layer_flashcache
of_layer_lvm: protocols.Layer[layer_lvm.Options] = layer_lvm
of_layer_lvm_growable: protocols.Growable[layer_lvm.Options, layer_lvm.Grow] = layer_lvm
of_layer_lvm_expandable: protocols.Expandable[layer_lvm.Options] = layer_lvm
of_layer_lvm_backgroundwork: protocols.BackgroundWork[layer_lvm.Options] = layer_lvm
of_layer_lvm_initialresync: protocols.InitialResync[layer_lvm.Options] = layer_lvm
of_layer_lvm_healthcheck: protocols.HealthCheck[layer_lvm.Options] = layer_lvm
of_layer_lvm_cache: protocols.Layer[layer_lvm_cache.Options] = layer_lvm_cache
of_layer_lvm_cache_healthcheck: protocols.HealthCheck[layer_lvm_cache.Options] = layer_lvm_cache
of_layer_manual: protocols.Layer[layer_manual.Options] = layer_manual
of_layer_manual_manualstep: protocols.ManualStep[layer_manual.Options] = layer_manual
of_layer_md: protocols.Layer[layer_md.Options] = layer_md
of_layer_md_growable: protocols.Growable[layer_md.Options, layer_md.Grow] = layer_md
of_layer_md_expandable: protocols.Expandable[layer_md.Options] = layer_md
of_layer_md_backgroundwork: protocols.BackgroundWork[layer_md.Options] = layer_md
of_layer_md_initialresync: protocols.InitialResync[layer_md.Options] = layer_md
of_layer_md_healthcheck: protocols.HealthCheck[layer_md.Options] = layer_md
of_layer_partition: protocols.Layer[layer_partition.Options] = layer_partition
of_layer_raw: protocols.Layer[layer_raw.Options] = layer_raw
of_layer_reported: protocols.Layer[layer_reported.Options] = layer_reported
of_layer_tuning: protocols.Layer[layer_tuning.Options] = layer_tuning
of_layer_tuning_expandable: protocols.Expandable[layer_tuning.Options] = layer_tuning
of_layer_tuning_restoressettings: protocols.RestoresSettings[layer_tuning.Options] = layer_tuning
of_layer_zfs: protocols.Layer[layer_zfs.Options] = layer_zfs
of_layer_zpool: protocols.Layer[layer_zpool.Options] = layer_zpool
of_layer_zpool_healthcheck: protocols.HealthCheck[layer_zpool.Options] = layer_zpool
of_layer_zvol: protocols.Layer[layer_zvol.Options] = layer_zvol
of_tool_template: protocols.Tool[tool_template.Options] = tool_template
of_tool_template_toolscripts: protocols.ToolScripts[tool_template.Options] = tool_template
of_tool_bonnie: protocols.Tool[tool_bonnie.Options] = tool_bonnie
of_tool_bonnie_unprivileged: protocols.Unprivileged[tool_bonnie.Options] = tool_bonnie
of_tool_bonnie_sizedtarget: protocols.SizedTarget[tool_bonnie.Options] = tool_bonnie
of_tool_bonnie_describesio: protocols.DescribesIO[tool_bonnie.Options] = tool_bonnie
of_tool_bonnie_comparablework: protocols.ComparableWork[tool_bonnie.Options] = tool_bonnie
of_tool_bonnie_measuredwindows: protocols.MeasuredWindows[tool_bonnie.Options] = tool_bonnie
of_tool_bonnie_toolscripts: protocols.ToolScripts[tool_bonnie.Options] = tool_bonnie
of_tool_command: protocols.Tool[tool_command.Options] = tool_command
of_tool_command_runsusercode: protocols.RunsUserCode[tool_command.Options] = tool_command
of_tool_command_unprivileged: protocols.Unprivileged[tool_command.Options] = tool_command
of_tool_command_describesio: protocols.DescribesIO[tool_command.Options] = tool_command
of_tool_command_partialresults: protocols.PartialResults[tool_command.Options] = tool_command
of_tool_dd: protocols.Tool[tool_dd.Options] = tool_dd
of_tool_dd_unprivileged: protocols.Unprivileged[tool_dd.Options] = tool_dd
of_tool_dd_sizedtarget: protocols.SizedTarget[tool_dd.Options] = tool_dd
of_tool_dd_describesio: protocols.DescribesIO[tool_dd.Options] = tool_dd
of_tool_dd_comparablework: protocols.ComparableWork[tool_dd.Options] = tool_dd
of_tool_dd_measuredwindows: protocols.MeasuredWindows[tool_dd.Options] = tool_dd
of_tool_dd_knownclock: protocols.KnownClock[tool_dd.Options] = tool_dd
of_tool_dd_toolscripts: protocols.ToolScripts[tool_dd.Options] = tool_dd
of_tool_dynamo: protocols.Tool[tool_dynamo.Options] = tool_dynamo
of_tool_dynamo_requiresprograms: protocols.RequiresPrograms[tool_dynamo.Options] = tool_dynamo
of_tool_dynamo_namesprograms: protocols.NamesPrograms[tool_dynamo.Options] = tool_dynamo
of_tool_dynamo_liveoutput: protocols.LiveOutput[tool_dynamo.Options] = tool_dynamo
of_tool_dynamo_sizedtarget: protocols.SizedTarget[tool_dynamo.Options] = tool_dynamo
of_tool_dynamo_describesio: protocols.DescribesIO[tool_dynamo.Options] = tool_dynamo
of_tool_dynamo_comparablework: protocols.ComparableWork[tool_dynamo.Options] = tool_dynamo
of_tool_dynamo_optionaliases: protocols.OptionAliases[tool_dynamo.Options] = tool_dynamo
of_tool_dynamo_recordsseries: protocols.RecordsSeries[tool_dynamo.Options] = tool_dynamo
of_tool_dynamo_measuredwindows: protocols.MeasuredWindows[tool_dynamo.Options] = tool_dynamo
of_tool_dynamo_knownclock: protocols.KnownClock[tool_dynamo.Options] = tool_dynamo
of_tool_fio: protocols.Tool[tool_fio.Options] = tool_fio
of_tool_fio_unprivileged: protocols.Unprivileged[tool_fio.Options] = tool_fio
of_tool_fio_sizedtarget: protocols.SizedTarget[tool_fio.Options] = tool_fio
of_tool_fio_describesio: protocols.DescribesIO[tool_fio.Options] = tool_fio
of_tool_fio_comparablework: protocols.ComparableWork[tool_fio.Options] = tool_fio
of_tool_fio_recordsseries: protocols.RecordsSeries[tool_fio.Options] = tool_fio
of_tool_fio_latencyhistogram: protocols.LatencyHistogram[tool_fio.Options] = tool_fio
of_tool_fio_measuredwindows: protocols.MeasuredWindows[tool_fio.Options] = tool_fio
of_tool_fio_knownclock: protocols.KnownClock[tool_fio.Options] = tool_fio
of_tool_fio_printsversion: protocols.PrintsVersion[tool_fio.Options] = tool_fio
of_tool_fio_toolscripts: protocols.ToolScripts[tool_fio.Options] = tool_fio
of_tool_pg_test_fsync: protocols.Tool[tool_pg_test_fsync.Options] = tool_pg_test_fsync
of_tool_pg_test_fsync_requiresprograms: protocols.RequiresPrograms[tool_pg_test_fsync.Options] = (
    tool_pg_test_fsync
)
of_tool_pg_test_fsync_namesprograms: protocols.NamesPrograms[tool_pg_test_fsync.Options] = (
    tool_pg_test_fsync
)
of_tool_pg_test_fsync_unprivileged: protocols.Unprivileged[tool_pg_test_fsync.Options] = (
    tool_pg_test_fsync
)
of_tool_pg_test_fsync_describesio: protocols.DescribesIO[tool_pg_test_fsync.Options] = (
    tool_pg_test_fsync
)
of_tool_pg_test_fsync_comparablework: protocols.ComparableWork[tool_pg_test_fsync.Options] = (
    tool_pg_test_fsync
)
of_tool_pg_test_fsync_measuredwindows: protocols.MeasuredWindows[tool_pg_test_fsync.Options] = (
    tool_pg_test_fsync
)
of_tool_pg_test_fsync_partialresults: protocols.PartialResults[tool_pg_test_fsync.Options] = (
    tool_pg_test_fsync
)
of_tool_pg_test_fsync_toolscripts: protocols.ToolScripts[tool_pg_test_fsync.Options] = (
    tool_pg_test_fsync
)
of_tool_sysbench: protocols.Tool[tool_sysbench.Options] = tool_sysbench
of_tool_sysbench_unprivileged: protocols.Unprivileged[tool_sysbench.Options] = tool_sysbench
of_tool_sysbench_sizedtarget: protocols.SizedTarget[tool_sysbench.Options] = tool_sysbench
of_tool_sysbench_describesio: protocols.DescribesIO[tool_sysbench.Options] = tool_sysbench
of_tool_sysbench_recordsseries: protocols.RecordsSeries[tool_sysbench.Options] = tool_sysbench
of_tool_sysbench_measuredwindows: protocols.MeasuredWindows[tool_sysbench.Options] = tool_sysbench
of_tool_sysbench_toolscripts: protocols.ToolScripts[tool_sysbench.Options] = tool_sysbench
of_sampler_template: protocols.Sampler = sampler_template
of_sampler_arcstat: protocols.Sampler = sampler_arcstat
of_sampler_bcache: protocols.Sampler = sampler_bcache
of_sampler_cpu: protocols.Sampler = sampler_cpu
of_sampler_cpu_throttling: protocols.Sampler = sampler_cpu_throttling
of_sampler_diskstats: protocols.Sampler = sampler_diskstats
of_sampler_dm_cache: protocols.Sampler = sampler_dm_cache
of_sampler_freebsd_iostat: protocols.Sampler = sampler_freebsd_iostat
of_sampler_gstat: protocols.Sampler = sampler_gstat
of_sampler_mdstat: protocols.Sampler = sampler_mdstat
of_sampler_zpool: protocols.Sampler = sampler_zpool
of_reader_bonnie: protocols.Reader = reader_bonnie
of_reader_ceph_osd_bench: protocols.Reader = reader_ceph.DRIVERS["ceph_osd_bench"]
of_reader_rados_bench: protocols.Reader = reader_ceph.DRIVERS["rados_bench"]
of_reader_dd: protocols.Reader = reader_dd
of_reader_crystaldiskmark: protocols.Reader = reader_disk_marks.DRIVERS["crystaldiskmark"]
of_reader_kdiskmark: protocols.Reader = reader_disk_marks.DRIVERS["kdiskmark"]
of_reader_diskspd: protocols.Reader = reader_diskspd.DRIVERS["diskspd"]
of_reader_elbencho: protocols.Reader = reader_elbencho.DRIVERS["elbencho"]
of_reader_figures: protocols.Reader = reader_figures
of_reader_fio: protocols.Reader = reader_fio
of_reader_fio_knownstart: protocols.KnownStart = reader_fio
of_reader_fio_log: protocols.Reader = reader_fio_log
of_reader_fio_log_joinstexts: protocols.JoinsTexts = reader_fio_log
of_reader_yabs: protocols.Reader = reader_fio_scripts.DRIVERS["yabs"]
of_reader_kbench: protocols.Reader = reader_fio_scripts.DRIVERS["kbench"]
of_reader_kubestr: protocols.Reader = reader_fio_scripts.DRIVERS["kubestr"]
of_reader_icf: protocols.Reader = reader_icf
of_reader_iometer: protocols.Reader = reader_iometer
of_reader_iostat: protocols.Reader = reader_iostat
of_reader_iozone: protocols.Reader = reader_iozone.DRIVERS["iozone"]
of_reader_pg_test_fsync: protocols.Reader = reader_pg_test_fsync
of_reader_hdparm: protocols.Reader = reader_quick_checks.DRIVERS["hdparm"]
of_reader_ioping: protocols.Reader = reader_quick_checks.DRIVERS["ioping"]
of_reader_pveperf: protocols.Reader = reader_quick_checks.DRIVERS["pveperf"]
of_reader_gnome_disks: protocols.Reader = reader_quick_checks.DRIVERS["gnome_disks"]
of_reader_etcd_metrics: protocols.Reader = reader_quick_checks.DRIVERS["etcd_metrics"]
of_reader_sysbench: protocols.Reader = reader_sysbench
of_reader_vdbench: protocols.Reader = reader_vdbench.DRIVERS["vdbench"]
of_reader_zpool_iostat: protocols.Reader = reader_zpool_iostat
