"""Evidence of what is stored: layers and disks as planned, what the tool asked, series with what is unknown."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

from benchlab.analysis import evidence
from benchlab.analysis.evidence import Access, Layer, Track, Window
from benchlab.findings import stored_runs
from benchlab.hosts.models import Device
from benchlab.runs.attempt_meta import DISKS as DISKS_TOLD
from benchlab.runs.attempt_meta import RATED
from benchlab.runs.models import Attempt, Measurement, Series
from tests.charts import made
from tests.findings.conftest import DISKS

pytestmark = pytest.mark.django_db


def one(attempt: Attempt):
    [found] = stored_runs.read_runs([attempt.pk])
    return found


def test_a_run_has_its_layers_disks_and_access(lab):
    run = one(lab.attempt)
    assert (run.tool, run.run, run.attempt, run.ours) == ("fio", lab.run.pk, lab.attempt.pk, True)
    lvm, fs = run.layers
    assert lvm.kind == "lvm" and lvm.uses == {"data": DISKS} and fs.uses == {}
    assert lvm.options["stripe_size"], "with what its driver does by itself"
    assert run.layout_disks == DISKS
    assert run.devices["sdc"] == evidence.Device(
        "sdc", size=run.devices["sdc"].size, rotational=run.devices["sdc"].rotational, logical_block=512,
        physical_block=run.devices["sdc"].physical_block, scheduler=run.devices["sdc"].scheduler,
        model="WDC WD40",
    )  # fmt: skip
    assert set(run.devices) == set(DISKS), "and no other of the host's"
    assert run.access.reads is True and run.access.outstanding == 1 and run.access.size == 1 << 30
    assert run.memory == 8 << 30 and run.conditions == {"kernel": "6.1.0"}
    assert run.figures["read.bandwidth"] == 400e6 and run.unwritten == "", "files are laid out"
    assert run.total_rate("read.bandwidth", DISKS) == 40e6


def test_what_a_disk_is_rated_for_goes_by_who_it_is(lab):
    facts = lab.attempt.layout.facts_ready.facts
    serial = next(one["serial"] for one in facts["devices"] if one["name"] == "sdc")
    rows = [(lab.host, 500, None), (made.host(lab.team, "another"), 9, 9)]
    for host, iops, bandwidth in rows:
        Device.objects.create(
            host=host, identity=f"serial:{serial}", name="sdz", size=1, rated_iops=iops, rated_bandwidth=bandwidth
        )  # fmt: skip
    disks = one(lab.attempt).devices
    assert (disks["sdc"].rated_iops, disks["sdc"].rated_bandwidth) == (500, None)
    assert disks["sdb"].rated_iops is None


def test_what_a_link_carries_is_as_its_host_told(lab):
    snapshot = lab.attempt.layout.facts_ready
    sdc = next(one for one in snapshot.facts["devices"] if one["name"] == "sdc")
    sdc["link_bandwidth"] = 600_000_000
    snapshot.save()
    disks = one(lab.attempt).devices
    assert (disks["sdc"].link, disks["sdb"].link) == (600e6, None)


def test_what_a_source_says_that_its_disks_are_rated_for(lab):
    """Of a cloud's disks, say, on a host that nobody ever asked."""
    layout, attempt = lab.attempt.layout, lab.attempt
    layout.plan = layout.facts_ready = attempt.facts = None
    layout.save()
    attempt.meta[DISKS_TOLD] = {"hdd": ["S30", "S31", "S32", "S33"]}
    attempt.save()
    assert one(attempt).devices == {}
    attempt.meta[RATED] = {"hdd": {"iops": 500}, "ssd": {"bandwidth": 200e6}}
    attempt.save()
    run = one(attempt)
    assert run.devices.keys() == set(run.layout_disks)
    assert run.devices["S31"] == evidence.Device("S31", rated_iops=500)


def test_figures_with_labels_are_apart_and_what_is_unknown_stays_so(lab):
    attempt = lab.attempt
    Measurement.objects.create(attempt=attempt, name="odd", value=None, unit="s")
    Measurement.objects.create(
        attempt=attempt, name="ops", value=3.0, unit="op/s", labels={"m": "x"}
    )
    Series.objects.create(
        attempt=attempt, sampler="diskstats", device="sdc", metric="await", unit="s",
        times=[1.0, 2.0], values=[math.nan, 0.5],
    )  # fmt: skip
    attempt.windows, attempt.degraded = made.WINDOWS, [{"says": "sdc is gone", "seen": "before"}]
    attempt.meta["clock_step"] = 4.0
    attempt.save()
    run = one(attempt)
    assert "odd" not in run.figures and run.labelled[0].labels == {"m": "x"}
    [track] = [track for track in run.tracks if track.metric == "await"]
    assert math.isnan(track.values[0]) and track.mean() == 0.5
    assert run.windows[2] == Window("measured", 22.0, 58.0, True)
    assert run.degraded == ("sdc is gone",) and run.meta["clock_step"] == 4.0


def test_a_tools_own_series_is_left_out_where_it_is_on_another_clock(lab):
    Series.objects.create(
        attempt=lab.attempt, sampler="fio", device="", metric="read.iops", unit="op/s", times=[1.0], values=[5.0]
    )  # fmt: skip
    own = Track("", "read.iops", "op/s", (1.0,), (5.0,))
    assert own not in one(lab.attempt).tracks
    lab.attempt.windows = made.WINDOWS
    lab.attempt.save()
    assert own in one(lab.attempt).tracks


def test_without_disks_only_the_hosts_own_tracks_are_read(lab):
    [run] = stored_runs.read_runs([lab.attempt.pk], of_disks=False)
    assert run.tracks == () and run.figures


def test_a_result_from_elsewhere_is_known_as_far_as_it_was_told(lab):
    lab.campaign.source = "import"
    lab.campaign.save()
    lab.run.options = {"rw": "randwrite", "block_size": 8192, "not ours": 1}
    lab.run.save()
    lab.attempt.layout.plan, lab.attempt.layout.stack = (
        None,
        [{"kind": "zpool", "options": {"a": 1}}],
    )
    lab.attempt.layout.save()
    lab.attempt.facts = None
    lab.attempt.save()
    run = one(lab.attempt)
    assert run.access == Access(reads=False, writes=True, random=True, block=8192, outstanding=1)
    assert run.layers == (Layer("zpool", {"a": 1}),) and not run.ours and run.unwritten == ""


@pytest.mark.parametrize("options", [{"rw": "sideways"}, {"bs": "4k"}])
def test_options_that_cannot_be_read_tell_nothing(lab, options):
    lab.run.options = options
    lab.run.save()
    assert one(lab.attempt).access == Access(outstanding=1)


def test_a_tool_that_is_no_more(lab):
    lab.run.tool = "gone"
    lab.run.save()
    assert one(lab.attempt).access == Access(outstanding=1)


def test_reading_a_volume_tells_nothing_of_what_is_on_it(lab):
    layout = lab.attempt.layout
    assert one(lab.attempt).access.compressible is False
    plan = layout.plan
    plan["layers"] = plan["layers"][:1]
    layout.plan, layout.stack = plan, layout.stack[:1]
    layout.save()
    run = one(lab.attempt)
    assert run.access.compressible is None and "nothing was written" in run.unwritten


@pytest.mark.parametrize(
    ("tool", "options", "moved", "doubted"),
    [
        ("fio", {"rw": "write", "size": 1 << 30}, 1 << 30, False),
        ("dd", {"count": 1024}, 1 << 30, False),
        ("fio", {"rw": "write", "size": 0, "runtime_s": 0}, 5 << 30, False),
        ("fio", {"rw": "write", "size": 0, "runtime_s": 60}, 5 << 30, True),
        ("fio", {"rw": "write", "size": 1 << 30}, 1 << 29, True),
        ("fio", {"rw": "write", "size": 1 << 29}, 1 << 30, True),
        ("fio", {"rw": "randwrite", "size": 1 << 30}, 9 << 30, True),
        ("fio", {"rw": "write", "size": 1 << 30, "extra": ["offset=1m"]}, 9 << 30, True),
        ("gone", {}, 9 << 30, True),
    ],
)
def test_what_a_run_before_it_wrote_is_no_unwritten_block(lab, tool, options, moved, doubted):
    """The advice was followed: write all of it first, by a workload before this one."""
    filled, reads = lab.attempts[:2]
    layout = reads.layout
    layout.plan = {**layout.plan, "layers": layout.plan["layers"][:1]}
    layout.stack = layout.stack[:1]
    layout.save()
    filled.run.tool, filled.run.options = tool, options
    filled.run.save()
    name = "bytes" if tool == "dd" else "write.bytes"
    Measurement.objects.create(attempt=filled, name=name, value=moved, unit="B")
    reads.started_at = filled.ended_at + timedelta(seconds=1)
    reads.save()
    assert bool(one(reads).unwritten) is doubted
    trims = lab.attempts[2]
    Attempt.objects.filter(pk=trims.pk).update(layout=layout, ended_at=reads.started_at)
    Measurement.objects.create(attempt=trims, name="trim.bytes", value=4096, unit="B")
    assert one(reads).unwritten, "discarded since"
    reads.started_at = filled.ended_at - timedelta(seconds=1)
    reads.save()
    assert one(reads).unwritten, "it began before"


def test_without_disks_what_each_core_waited_is_read_too(lab):
    """Idle alone takes a core that waits for a disk for a full one."""
    for metric in ("cpu.idle", "cpu.iowait", "cpu.user"):
        lab.attempt.series.create(
            sampler="cpu", device="cpu0", metric=metric, unit="1", times=[1.0], values=[0.1]
        )
    [run] = stored_runs.read_runs([lab.attempt.pk], of_disks=False)
    cores = {track.metric for track in run.tracks if track.device == "cpu0"}
    assert cores == {"cpu.idle", "cpu.iowait"}
    assert not {track.device for track in run.tracks} & {"sdb", "sdc"}


def test_the_queries_are_few(lab, django_assert_num_queries):
    wanted = [attempt.pk for attempt in lab.attempts]
    with django_assert_num_queries(5):  # and the series', which Django does not see
        assert len(list(stored_runs.read_runs(wanted))) == len(wanted)
    assert next(stored_runs.read_runs([0, *wanted[:1]])).attempt == wanted[0]
