"""The studies' findings, in small: the shapes of their results on disks that serve one request at a time.

Absolute figures are this machine's; the relations are the storage's.
"""

from __future__ import annotations

import pytest

from benchlab.analysis.devices import Balance, Spread
from benchlab.campaigns.models import Campaign, Workload
from benchlab.charts.device_stacks import plan_layers
from benchlab.charts.device_work import disk_work
from benchlab.charts.sampled_tracks import measured_parts, read_tracks, read_windows
from benchlab.engine.new_runs import create_campaign
from benchlab.hosts import spare_disks
from benchlab.hosts.models import Device, Host
from benchlab.practice import DiskSpec, PracticeHost, SlowDisk
from benchlab.runs.models import Attempt, Layout
from benchlab.topologies.models import Topology
from benchlab.topologies.services import create_topology
from benchlab.verdicts import set_ups
from tests.rig.stacks import fs, layer
from tests.rig.test_campaigns import register
from tests.runs import drive

pytestmark = [pytest.mark.rig, pytest.mark.alone, pytest.mark.django_db(transaction=True)]

MIB = 1 << 20
# The same 8 kB written and fsynced again and again, as pg_test_fsync does it.
FSYNC = {"rw": "write", "block_size": 8192, "size": 8192, "runtime_s": 6, "ioengine": "sync",
         "fsync": 1, "direct": False, "time_based": True}  # fmt: skip
# Without the journal's own writes for the time stamps: PostgreSQL's default on Linux.
FDATASYNC = {**FSYNC, "fsync": 0, "fdatasync": 1}
RANDOM = {"rw": "randread", "block_size": 8192, "size": 96 * MIB, "runtime_s": 10, "iodepth": 16,
          "ioengine": "libaio", "direct": True, "time_based": True}  # fmt: skip
SSD = [layer("raw", {}, data=("ssd", 1)), fs("xfs")]
STRIPE = layer("lvm", {"type": "striped", "stripe_size": 4096}, data=("hdd", 4))


def lab(rig: PracticeHost, team, user, **roles: list[str]) -> Host:
    host = register(rig, team, "root")
    for role, names in roles.items():
        for name in names:
            device = Device.objects.get(host=host, name=name)
            spare_disks.mark_spare(device, user, device.confirmation, role)
    return host


def run(host: Host, team, user, topologies: list[Topology], options: dict) -> Campaign:
    work = Workload.objects.create(
        team=team, name=f"w{Workload.objects.count()}", tool="fio", options=options
    )
    campaign = create_campaign(
        team=team, user=user, name="shape", question="", hosts=[host], topologies=topologies,
        workloads=[work], repeats=1, order="as_written", seed=1,
    )  # fmt: skip
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign, 600)
    for attempt in Attempt.objects.filter(run__campaign=campaign):
        assert attempt.outcome == "succeeded", attempt.reason_text
    assert set(campaign.layouts.values_list("phase", flat=True)) == {"done"}
    set_ups.sweep_campaigns([campaign.pk])
    return campaign


def attempts(campaign: Campaign) -> dict[str, Attempt]:
    """By the topology's name, and the moment of its run."""
    rows = Attempt.objects.filter(run__campaign=campaign).select_related("run__topology", "layout")
    return {f"{row.run.topology}{row.run.stage and ' ' + row.run.stage}": row for row in rows}


def iops(attempt: Attempt) -> float:
    value = attempt.measurements.get(name="iops", labels={}).value
    assert value
    return value


def findings(attempt: Attempt) -> set[str]:
    return set(attempt.findings.values_list("kind", flat=True))


def write_balance(layout: Layout, attempt: Attempt) -> Balance:
    from agents.plans import applied_part

    plan = applied_part.from_json(layout.plan)
    tracks, windows = read_tracks(attempt), read_windows(attempt)
    assert [one.name for one in windows if one.measured] == ["measured"]
    [one] = [
        row
        for row in disk_work(plan_layers(plan.layers), measured_parts(tracks, windows), {})
        if row.use.use == "data"
    ]
    assert one.written is not None
    return one.written


def test_a_stripe_loads_few_disks_and_a_cache_lies_between(make_rig_host, team, user):
    """Study 000: fsync of 8 kB, SSD > LVM cache > stripe of 4 KiB, which meets two of its disks."""
    rig = make_rig_host(
        [DiskSpec(512, serial="FAST")], [SlowDisk(256, serial=f"S{n}") for n in range(4)]
    )
    host = lab(rig, team, user, ssd=["ubdb"], hdd=["nbd0", "nbd1", "nbd2", "nbd3"])
    cached = [STRIPE, layer("lvm_cache", {"mode": "writeback"}, cache=("ssd", 1)), fs("xfs")]
    made = [
        create_topology(team=team, user=user, name=name, stack=stack)
        for name, stack in (("ssd", SSD), ("stripe", [STRIPE, fs("xfs")]), ("cache", cached))
    ]
    found = attempts(run(host, team, user, made, FSYNC))
    rates = {name: iops(attempt) for name, attempt in found.items()}
    print({name: round(rate) for name, rate in rates.items()})
    assert rates["ssd"] > rates["cache"] > rates["stripe"]
    synced = attempts(run(host, team, user, [made[1]], FDATASYNC))["stripe"]
    uneven = write_balance(synced.layout, synced)
    print(f"balance of the stripe: {uneven}")
    assert uneven.spread == Spread.FEW and len(uneven.doers) == 2
    assert synced.findings.get(kind="few_members").says.startswith("2 of 4 disks (lvm, data)")


def test_a_stripe_of_two_doubles_iops_and_extending_it_does_not(make_rig_host, team, user):
    """Study 002: what was written stays on the first two disks."""
    # Three times as slow as usual: the one CPU that all of them share must not be what limits two.
    slow = [SlowDisk(256, delay_ms=3, serial=f"C{n}") for n in range(3)]
    rig = make_rig_host([DiskSpec(64)], slow)
    host = lab(rig, team, user, ssd=["nbd0", "nbd1", "nbd2"])
    one = create_topology(
        team=team, user=user, name="one", stack=[layer("raw", {}, data=("ssd", 1))]
    )
    two = create_topology(
        team=team, user=user, name="two", stack=[layer("lvm", {"type": "striped"}, data=("ssd", 2))],
        stages=[{"layer": 1, "options": {}, "devices": [{"use": "data", "role": "ssd", "count": 1}]}],
    )  # fmt: skip
    found = attempts(run(host, team, user, [one, two], RANDOM))
    rates = {name: iops(attempt) for name, attempt in found.items()}
    print({name: round(rate) for name, rate in rates.items()})
    assert 1.7 < rates["two"] / rates["one"] < 2.3
    assert 0.85 < rates["two after-1"] / rates["two"] < 1.15
    assert "extended_not_restriped" in findings(found["two after-1"]) - findings(found["two"])


def test_zfs_spreads_writes_and_pays_for_honest_fsyncs(make_zfs_host, team, user):
    """Studies 000 and 001: a pool loads its disks evenly; sync=disabled is at least five times as fast."""
    rig = make_zfs_host([DiskSpec(256, serial=f"Z{n}", iops=2000) for n in range(4)])
    host = lab(rig, team, user, hdd=["vdb", "vdc", "vdd", "vde"])
    pool = layer("zpool", {"ashift": 12}, data=("hdd", 4))
    made = [
        create_topology(team=team, user=user, name=sync, stack=[pool, layer("zfs", {"sync": sync})])
        for sync in ("standard", "disabled")
    ]
    found = attempts(run(host, team, user, made, FSYNC))
    rates = {name: iops(attempt) for name, attempt in found.items()}
    even = write_balance(found["standard"].layout, found["standard"])
    print({name: round(rate) for name, rate in rates.items()}, even)
    assert rates["disabled"] > 5 * rates["standard"]
    assert even.variation < 0.25
