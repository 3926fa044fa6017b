"""Findings provoked on a real host: told of the run that was spoilt, and not of its neighbours on the same disks.

What spoils a run is real: a clock that is set, writes beside the tool's, a check of an array, blocks that nothing ever
wrote, a disk that is quicker at first, a stripe that its load does not meet evenly. What is told of the pace of a run
goes by a disk with a pace of its own (paced.py), and not by what else this machine does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from benchlab.analysis.finding import HISTORY_LABELS
from benchlab.campaigns.models import Campaign, Workload
from benchlab.engine import tasks as engine
from benchlab.engine.new_runs import create_campaign
from benchlab.findings.models import Finding
from benchlab.hosts.models import Device, Host
from benchlab.practice import DiskSpec, SlowDisk, UmlHost
from benchlab.runs.models import Attempt, Series
from benchlab.topologies.services import create_topology
from benchlab.verdicts import set_ups
from tests.rig import paced
from tests.rig.stacks import layer
from tests.rig.test_article_shapes import lab
from tests.runs import drive

pytestmark = [pytest.mark.rig, pytest.mark.django_db(transaction=True)]

KIB, MIB = 1 << 10, 1 << 20
FAST, SLOW, STRIPE = ["ubdb", "ubdc", "ubdd"], "nbd0", ["nbd1", "nbd2", "nbd3", "nbd4"]
Workloads = Mapping[str, tuple[str, Mapping[str, Any]]]  # name -> tool and its options
Wanted = Mapping[str, Mapping[str, str]]  # workload -> {kind: what its sentence says}
Measure = Callable[..., Campaign]


@pytest.fixture(scope="module")
def rig(make_rig_host) -> UmlHost:
    """Three fast disks, one that takes 10 ms for each request, four of 4 ms for a stripe.

    No slower: whoever looks at the host's disks reads a hundred blocks of each.
    """
    fast = [DiskSpec(64, serial=f"F{n}") for n, _ in enumerate(FAST)]
    slow = [SlowDisk(64, delay_ms=10, serial="P0")]
    stripe = [SlowDisk(64, delay_ms=4, serial=f"S{n}") for n, _ in enumerate(STRIPE)]
    host: UmlHost = make_rig_host(fast, [*slow, *stripe])
    return host


@pytest.fixture
def measure(team, user, rig, monkeypatch) -> Measure:
    """Workloads one after the other; `meanwhile`: what is done to the host as soon as one of them runs."""
    monkeypatch.setattr(engine, "BUDGET_S", 0.0)  # one thing a step: something can be done then

    def run(
        host: Host,
        stacks: Mapping[str, list[dict[str, Any]]],
        workloads: Workloads,
        meanwhile: Mapping[str, str] | None = None,
    ) -> Campaign:
        topologies = [
            create_topology(team=team, user=user, name=name, stack=stack)
            for name, stack in stacks.items()
        ]
        rows = [
            Workload.objects.create(team=team, name=name, tool=tool, options=options)
            for name, (tool, options) in workloads.items()
        ]
        campaign = create_campaign(
            team=team, user=user, name="provoked", question="", hosts=[host], topologies=topologies,
            workloads=rows, repeats=1, order="as_written", seed=1,
        )  # fmt: skip
        drive.plan_and_start(campaign)
        for name, script in (meanwhile or {}).items():
            runs = Attempt.objects.filter(run__campaign=campaign, run__workload__name=name)
            drive.until(campaign, runs.filter(phase="running").exists)
            rig.ssh("sh", "-c", script.format(name=campaign.layouts.get().name))
        drive.to_the_end(campaign)
        for attempt in Attempt.objects.filter(run__campaign=campaign):
            assert attempt.outcome == "succeeded", attempt.reason_text
        set_ups.sweep_campaigns([campaign.pk])
        return campaign

    return run


def told(campaign: Campaign) -> dict[str, dict[str, str]]:
    """Of each run by its workload's name: {kind: sentence}."""
    found: dict[str, dict[str, str]] = {one.workload.name: {} for one in campaign.runs.all()}
    rows = Finding.objects.filter(campaign=campaign, attempt__isnull=False)
    for row in rows.exclude(kind__in=list(HISTORY_LABELS)).select_related("attempt__run__workload"):
        assert row.attempt
        found[row.attempt.run.workload.name][row.kind] = row.says
        print(f"{row.attempt.run.workload.name}: {row.kind}: {row.says}")
    return found


def assert_told(
    campaign: Campaign, wanted: Wanted, beside: Mapping[str, set[str]] | None = None
) -> None:
    """Each kind that is provoked is told of just those runs. `beside`: what may come of the same, or may not."""
    found, kinds = told(campaign), {kind for of_run in wanted.values() for kind in of_run}
    assert found.keys() == wanted.keys()
    for name, sentences in wanted.items():
        of_run = {kind: says for kind, says in found[name].items() if kind in kinds}
        missing = sentences.keys() - of_run.keys()
        assert not missing, (name, missing, found[name])
        more = of_run.keys() - sentences.keys() - (beside or {}).get(name, set())
        assert not more, (name, {kind: of_run[kind] for kind in more})
        for kind, says in sentences.items():
            assert re.search(says, of_run[kind]), (name, kind, of_run[kind])


def fio(**options: Any) -> tuple[str, dict[str, Any]]:
    return "fio", {"rw": "randread", "block_size": 4 * KIB, "size": 8 * MIB, **options}


PACED, PACE = 5, 6_400_000  # nbd5, and B/s: a hundred requests of 64 KiB


def test_a_disk_that_is_quicker_at_first_is_told_and_a_steady_one_is_not(measure, rig, team, user):
    """As a disk does that writes to its SLC first, or a cloud's that had credits: quick for two seconds of ten."""
    host = lab(rig, team, user, paced=[paced.add(rig, PACED)])
    reads = fio(block_size=64 * KIB, runtime_s=10, log_avg_msec=200)
    # What the disk may make up for after a rest (BURST_S) is over before it is measured, however slowly it is asked.
    warm = fio(block_size=64 * KIB, runtime_s=10, log_avg_msec=200, ramp_s=4)
    paced.slow_down_once_fio_reads(rig, PACED, 1.5, PACE)
    campaign = measure(
        host,
        {"disk": [layer("raw", {}, data=("paced", 1))]},
        {"from the beginning": reads, "once it is steady": warm},
    )
    told_of = r"at [1-5] s of 10 s the IOPS fell from .* and stayed"
    wanted: Wanted = {"from the beginning": {"not_steady": told_of}, "once it is steady": {}}
    assert_told(campaign, wanted)
    # This host has no cpufreq, no thermal_throttle and no quota: of all that nothing is stored, and nothing said.
    series = Series.objects.filter(attempt__run__campaign=campaign)
    assert set(series.values_list("sampler", flat=True)) == {"cpu", "diskstats", "fio"}
    assert not Finding.objects.filter(campaign=campaign, kind="cpu_slowed").exists()


# fio forgets the cache each time that it went over all of it, unless it is told not to
BUFFERED = {"ioengine": "psync", "direct": False, "extra": ["invalidate=0"]}
LARGE = {"block_size": 64 * KIB, "runtime_s": 7}
RATED = 8_000_000  # B/s: above what 10 ms for each request leave, below what a busy machine reads from memory
ON_ONE_DISK: Workloads = {
    "never written": fio(runtime_s=2, size=4 * MIB),
    "written": fio(rw="write", block_size=64 * KIB, runtime_s=0, time_based=False),
    "calm": fio(**LARGE),
    "in memory": fio(**BUFFERED, size=16 * KIB, runtime_s=4),
    # fio fills its queue again only when it is nearly empty
    "half as deep": fio(iodepth=16, runtime_s=4, extra=["iodepth_low=1"]),
    "beside others": fio(**LARGE),
}
OTHERS = f"timeout 9 dd if=/dev/zero of=/dev/{SLOW} bs=128k seek=128 oflag=direct </dev/null >/dev/null 2>&1 &"


def test_a_run_on_one_disk_is_told_what_spoilt_it(measure, rig, team, user):
    host = lab(rig, team, user, slow=[SLOW])
    Device.objects.filter(host=host, name=SLOW).update(rated_bandwidth=RATED)
    meanwhile = {"beside others": OTHERS}
    campaign = measure(host, {"disk": [layer("raw", {}, data=("slow", 1))]}, ON_ONE_DISK, meanwhile)
    wanted: Wanted = {
        "never written": {"unwritten_blocks": "nothing was written"},
        "written": {},
        "calm": {},
        "in memory": {
            "cached_read": r"(9\d|100) % of what it read came from (a|the page) cache",
            "cpu_bound": "busy",
            "above_ceiling": "more than the 8.00 MB/s that its disks are rated for",
        },
        "half as deep": {"depth_not_reached": "of the 16 requested, so the depth was not reached"},
        "beside others": {"other_io": f"were written on {SLOW} while the tool only read"},
    }
    # How much of its time fio itself takes where no disk is waited for is this machine's.
    assert_told(campaign, wanted, {"in memory": {"depth_not_reached"}})


@pytest.mark.night
def test_a_clock_that_is_set_is_told(measure, rig, team, user):
    """By night: between its looks at the two clocks a busy host may lose a quarter of a second, as much as is told."""
    host = lab(rig, team, user, slow=[SLOW])
    campaign = measure(
        host,
        {"disk": [layer("raw", {}, data=("slow", 1))]},
        {"left alone": fio(runtime_s=7), "clock set": fio(runtime_s=7)},
        {"clock set": "sleep 1; date -s '+5 sec'"},
    )
    told_of = r"set forward by (4\.[7-9]|5\.[0-3])\d s"
    assert_told(campaign, {"left alone": {}, "clock set": {"clock_jumped": told_of}})


CHECK = """
md=$(basename "$(readlink -f /dev/md/{name})")
echo 2000 >/sys/block/$md/md/sync_speed_max
echo check >/sys/block/$md/md/sync_action
"""


def test_an_array_that_is_checked_meanwhile_and_one_that_reads_to_write(measure, rig, team, user):
    host = lab(rig, team, user, fast=FAST)
    reads = {"block_size": 64 * KIB, "runtime_s": 5}
    array = layer("md", {"chunk": 64 * KIB, "assume_clean": True}, data=("fast", 3))
    campaign = measure(
        host,
        {"array": [array]},
        {
            "small writes": fio(rw="randwrite", block_size=16 * KIB, iodepth=4, runtime_s=5),
            "at rest": fio(**reads),
            "checked": fio(**reads),
        },
        {"checked": CHECK},
    )
    wanted: Wanted = {
        "small writes": {"raid5_read_modify_write": "bytes on the members of RAID 5"},
        "at rest": {},
        "checked": {"resync_meanwhile": r"md\d+ was resynced, reshaped or checked at"},
    }
    assert_told(campaign, wanted)


def test_a_stripe_that_few_of_its_disks_carry_and_one_that_is_uneven(measure, rig, team, user):
    """Article 000's stripe of 4 KiB: 8 kB, written and fsynced again and again, are two of its disks."""
    host = lab(rig, team, user, stripe=STRIPE)
    stripe = layer("lvm", {"type": "striped", "stripe_size": 4 * KIB}, data=("stripe", 4))
    # Ten samples tell, if some are late
    writes = {
        "rw": "randwrite",
        "iodepth": 4,
        "runtime_s": 14,
    }
    synced = {"rw": "write", "block_size": 8 * KIB, "size": 8 * KIB, "ioengine": "sync", "fsync": 1}
    campaign = measure(
        host,
        {"stripe": [stripe]},
        {
            "all of it": fio(**writes, size=MIB),
            "6 blocks": fio(**writes, size=24 * KIB),  # two of two disks, one of the others
            "synced": fio(**synced, direct=False, runtime_s=8),
        },
    )
    wanted: Wanted = {
        "all of it": {},
        "6 blocks": {"uneven_members": "where 25 % each would be even"},
        "synced": {"few_members": r"^2 of 4 disks .* (9\d|100) % of the bytes written"},
    }
    assert_told(campaign, wanted)


def test_a_scheduler_that_differs_is_told_of_the_set_ups(measure, rig, team, user):
    roles = ("one", "two")
    host = lab(rig, team, user, **{role: [disk] for role, disk in zip(roles, FAST, strict=False)})
    queue = f"/sys/block/{FAST[1]}/queue/scheduler"
    before = re.findall(r"\[(.+)\]", rig.ssh("cat", queue).stdout)[0]
    other = "none" if before != "none" else "mq-deadline"
    rig.ssh("sh", "-c", f"echo {other} >{queue}")
    try:
        campaign = measure(
            host,
            {role: [layer("raw", {}, data=(role, 1))] for role in roles},
            {"a little": ("dd", {"block_size": 64 * KIB, "count": 64, "oflag": ["direct"]})},
        )
    finally:
        rig.ssh("sh", "-c", f"echo {before} >{queue}")
    found = Finding.objects.filter(campaign=campaign, kind="conditions_differ")
    [says] = [one.says for one in found]
    assert says.startswith("scheduler") and f"{before} with one, {other} with two" in says, says
