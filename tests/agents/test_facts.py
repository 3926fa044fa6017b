"""Printed by hosts, and read as facts. tests/cases/facts/ holds real readings (.out) and the facts in them
(.json); what no host at hand prints is made up below, section by section, from the manuals."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from agents.facts import reading, stacks
from agents.safety.guard import refusals
from tests.agents import made_up
from tests.agents.linux_host import device, extra, output, pairs
from tests.agents.made_up import LAYOUT, spare, wiping

CASES = Path(__file__).parents[1] / "cases" / "facts"
REAL = sorted(CASES.glob("*.out"))


def _subset(facts: reading.HostFacts, device) -> dict:
    found = {key: getattr(device, key) for key in device.__dataclass_fields__}
    found["signatures"] = [[s.type, s.offset, s.label] for s in device.signatures]
    return json.loads(json.dumps(found))


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_real_reading(path):
    facts = reading.parse_linux_facts(path.read_bytes())
    wanted = json.loads(path.with_suffix(".json").read_text())
    devices = wanted.pop("devices")
    assert {d.name for d in facts.devices} == devices.keys()
    for one in facts.devices:
        found = _subset(facts, one)
        said = devices[one.name]
        silent = {key: found[key] for key in ("serial", "mounts", "holders", "signatures", "swap")}
        assert {key: found[key] for key in said} == said
        assert all(not value for key, value in silent.items() if key not in said), one.name
    for key, value in wanted.items():
        assert json.loads(json.dumps(getattr(facts, key))) == value, key


def test_a_volume_tells_the_group_as_pvs_does():
    """So the script need not ask pvs, which takes a third of a reading."""
    printed = (CASES / "debian12_stacks.out").read_bytes()
    quiet = re.sub(rb"=(\w+) begin pvs\n.*?=\1 done\n", b"", printed, flags=re.S)
    assert quiet != printed
    asked, told = reading.parse_linux_facts(printed), reading.parse_linux_facts(quiet)
    assert told.lvm_pvs == asked.lvm_pvs == ("/dev/ubdc",)
    assert told.members == asked.members and told.members["ubdc"] == "lvm vg0"


@pytest.mark.parametrize(
    ("volume", "group"),
    [("vg0-lv0", "vg0"), ("my--vg-my--lv", "my-vg"), ("bl17-data_corig", "bl17"), ("a----b-c", "a--b")],
)  # fmt: skip
def test_the_group_in_a_volumes_name(volume, group):
    disk = made_up.disk(
        "sdb", holders=["dm-0"], signatures=[{"type": "LVM2_member", "offset": 536}]
    )
    held = made_up.disk("dm-0", 2, path=f"/dev/mapper/{volume}", type="lvm")
    assert stacks.lvm_groups([disk, held]) == [("/dev/sdb", group)]
    crypt = made_up.disk("dm-0", 2, path=f"/dev/mapper/{volume}", type="crypt")
    assert stacks.lvm_groups([disk, crypt]) == []


def test_the_made_up_host_reads():
    facts = reading.parse_linux_facts(output())
    assert [d.name for d in facts.devices] == ["sda", "sda2"]
    assert facts.unknown == () and facts.find_device("sda2").mounts == ("/",)
    assert facts.find_device("sda").signatures[0].type == "PMBR" and facts.memory == 1048576


@pytest.mark.parametrize(
    ("printed", "meant"),
    [
        ("WD\\x20Red\\x20\\x20", "WD Red"),
        ("a\\x22b\\x5cc\\x24(x)\\x60y\\x60;'", "a\"b\\c$(x)`y`;'"),
        ("caf\\xc3\\xa9", "café"),
        ("bad\\xff\\x00", "bad\\xff\\x00"),
        ("\udcff", "\\xff"),
    ],
)
def test_odd_serials_survive_as_text(printed, meant):
    found = device("sdb", **extra("sdb", "8:16", {"SERIAL": printed, "MODEL": printed}))
    assert (found.serial, found.model) == (meant, meant)
    assert found.identity == f"serial:{meant}"


def test_old_and_new_column_names_are_one():
    """util-linux 2.37 wrote MAJ_MIN and LOG_SEC for MAJ:MIN and LOG-SEC."""
    row = pairs("sda", "8:0").replace("MAJ:MIN", "MAJ_MIN")
    assert device("sda", lsblk=row).majmin == "8:0"


def test_util_linux_2_23_reads_each_device_alone():
    """CentOS 7: no -O for wipefs, and a heading when it finds something."""
    alone = "# offset,uuid,label,type\n0x218,Gx,,LVM2_member\n0x438,u,a\\x2cb,ext4"
    printed = output(signatures=None, wipefs__sda=alone, wipefs__sda2="", pvs="  /dev/sda|vg0")
    found = reading.parse_linux_facts(printed)
    assert [(s.type, s.label) for s in found.find_device("sda").signatures] == [
        ("LVM2_member", ""), ("ext4", "a,b"),
    ]  # fmt: skip
    assert found.find_device("sda2").signatures_known and found.members == {"sda": "lvm vg0"}


def test_a_zvol_that_nobody_reads_is_not_known_beside_what_was_read_together():
    """Its pool waits for a disk that was pulled out, and wipefs would wait with it."""
    found = reading.parse_linux_facts(
        output(signatures="", wipefs__sda2=("", 1, "its pool waits for a disk"))
    )
    assert (
        not found.find_device("sda2").signatures_known and found.find_device("sda").signatures_known
    )


def test_a_device_that_wipefs_cannot_open_is_not_known():
    found = device("sda", signatures=None, wipefs__sda=("", 1, "wipefs: No medium found"))
    assert not found.signatures_known


def test_a_comma_in_a_label_does_not_hide_the_type():
    assert device("sda", signatures="sda,0x0,u,x,swap,swap").signatures[0].label == "x,swap"


def test_serial_and_wwn_fall_back_on_sysfs():
    """No udev (a container's host, busybox mdev): lsblk has neither."""
    found = device("sdb", **extra("sdb", "8:16", None, **{"device/wwid": "naa.5000c500a1b2c3d4"}))
    assert found.wwn == "0x5000c500a1b2c3d4"
    found = device("sdb", **extra("sdb", "8:16", None, **{"wwid": "t10.ATA  X", "serial": "S1\t"}))
    assert found.identity == "serial:S1"


@pytest.mark.parametrize("name", ["rev", "firmware_rev"])
def test_firmware_is_what_sysfs_says(name):
    """SCSI and ATA say `rev`, NVMe `firmware_rev`; a virtio disk neither."""
    told = {f"device/{name}": "HPG0"}
    assert device("sdb", **extra("sdb", "8:16", None, **told)).firmware == "HPG0"
    assert device("sdb", **extra("sdb", "8:16", None)).firmware == ""


SCSI = "device/../../.."
NVME = "device/device/current_link"
PATHS = [f"device/nvme{n}/device/current_link" for n in range(2)]


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        ({f"{SCSI}/link1/ata_link/link1/sata_spd": "6.0 Gbps"}, 600e6),
        ({f"{SCSI}/link{n}/ata_link/link{n}/sata_spd": "3.0 Gbps" for n in ("1", "1.0")}, 300e6),
        ({f"{SCSI}/link1/ata_link/link1/sata_spd": "<unknown>"}, 0),
        ({f"{SCSI}/phy-0:4/sas_phy/phy-0:4/negotiated_linkrate": "12.0 Gbit"}, 1200e6),
        ({f"{SCSI}/phy-0:1:4/sas_phy/phy-0:1:4/negotiated_linkrate": "22.5 Gbit"}, 2400e6),
        ({f"{NVME}_speed": "8.0 GT/s PCIe", f"{NVME}_width": "4"}, 3_938_461_538),
        ({f"{NVME}_speed": "5 GT/s", f"{NVME}_width": "2"}, 1000e6),
        ({f"{NVME}_speed": "8.0 GT/s PCIe"}, 0),
        (
            {f"{path}_{what}": told for path in PATHS for what, told in (("speed", "5.0 GT/s PCIe"), ("width", "1"))},
            1000e6,
        ),
        ({f"{SCSI}/../speed": "480"}, 60e6),
        ({f"{SCSI}/../speed": "5000"}, 500e6),
        ({}, 0),
    ],
)  # fmt: skip
def test_a_link_carries_what_its_bus_negotiated(told, wanted):
    """As the kernel's buses write it: libata, SAS, PCI Express (two paths to one namespace), USB."""
    assert device("sdb", **extra("sdb", "8:16", None, **told)).link_bandwidth == wanted


@pytest.mark.parametrize("nothing", ["_null_", "(null)", "0000000000", "None", "N/A"])
def test_a_placeholder_is_no_serial(nothing):
    assert device("sdb", **extra("sdb", "8:16", {"SERIAL": nothing})).weak


def test_a_partition_has_no_identity_of_its_disk():
    rows = pairs("sda", "8:0", WWN="0xA") + "\n" + pairs("sda2", "8:2", "part", WWN="0xA")
    facts = reading.parse_linux_facts(output(lsblk=rows))
    assert facts.find_device("sda").identity == "wwn:0xA" and facts.find_device("sda2").weak


def test_two_paths_to_one_disk_keep_one_identity_each():
    more = extra("sdb", "8:16", {"WWN": "0xB"})
    second = extra("sdc", "8:32", {"WWN": "0xB"})
    both = {key: more[key] + "\n" + second[key][1:] for key in more}
    found = reading.parse_linux_facts(output(**both))
    assert [d.name for d in found.devices if d.identity == "wwn:0xB"] == ["sdb", "sdc"]


def test_names_with_a_slash_are_nodes_in_a_directory():
    found = device("cciss!c0d0", **extra("cciss!c0d0", "104:0"), signatures="c0d0,0x0,,,ext4")
    assert found.path == "/dev/cciss/c0d0" and found.signatures[0].type == "ext4"


def test_a_hidden_path_of_nvme_multipath_is_no_second_disk():
    """nvme0c0n1 is in /sys with the same WWN, and without a node: nobody can write to it."""
    head = extra("nvme0n1", "259:0", {"WWN": "eui.00a0"}, wwid="eui.00a0")
    hidden = "\n".join(
        f"/sys/class/block/nvme0c0n1/{said}" for said in ("size:2097152", "wwid:eui.00a0", "ro:0")
    )
    found = reading.parse_linux_facts(output(**{**head, "files": f"{head['files']}\n{hidden}"}))
    assert [d.name for d in found.devices] == ["nvme0n1", "sda", "sda2"]
    disk = found.find_device("nvme0n1")
    assert refusals(wiping(disk), replace(found, unknown=()), spare(disk), LAYOUT) == []


def test_tunables_are_read_by_name():
    cpus = "/sys/devices/system/cpu/cpufreq"
    files = [
        f"{cpus}/policy0/scaling_governor:powersave",
        f"{cpus}/policy0/scaling_available_governors:performance powersave",
        f"{cpus}/policy4/scaling_governor:schedutil",
        f"{cpus}/policy4/scaling_available_governors:schedutil performance",
        "/proc/sys/vm/dirty_ratio:20",
        "/proc/sys/fs/xfs/xfssyncd_centisecs:3000",
        "/proc/sys/dev/raid/speed_limit_max:200000",
    ]
    modules = "/m/block/bfq.ko.xz\n/m/block/kyber-iosched.ko\n/m/block/null_blk.ko"
    facts = reading.parse_linux_facts(output(files="+" + "\n".join(files), schedulers=modules))
    assert facts.governors == {"policy0": "powersave", "policy4": "schedutil"}
    assert facts.governor_choices == ("performance", "powersave", "schedutil")
    assert facts.sysctls == {
        "vm.dirty_ratio": "20",
        "fs.xfs.xfssyncd_centisecs": "3000",
        "dev.raid.speed_limit_max": "200000",
    }
    assert facts.scheduler_modules == ("bfq", "kyber")
