"""The running system may stand on ZFS, whose mounts name a dataset and no device: its pool's disks are the system."""

from __future__ import annotations

import pytest

from agents.facts.device_uses import system_devices, unknown_system_reasons
from agents.facts.graph import Graph
from agents.safety.guard import refusals
from agents.safety.name_places import Mentions
from tests.agents.made_up import LAYOUT, disk, host, spare, wiping

LINUX = [{"source": "rpool/ROOT/debian", "target": "/", "fstype": "zfs", "majmin": "0:27"}]
FREEBSD = [{"source": "zroot/ROOT/default", "target": "/", "fstype": "zfs", "majmin": ""}]


def whole(name: str, **given):
    """A disk of FreeBSD, which numbers no device."""
    return disk(name, majmin="", **given)


@pytest.mark.parametrize(("mounts", "pool"), [(LINUX, "rpool"), (FREEBSD, "zroot")])
def test_the_pool_under_the_root_is_the_system(mounts, pool):
    part = disk("mfid0p3", 3, type="part", majmin="", serial="", parents=["mfid0"])
    facts = host(whole("mfid0", holders=["mfid0p3"]), part, whole("mfid1"), whole("mfid2"),
                 mounts=mounts, members={"mfid0p3": f"zpool {pool}", "mfid2": "zpool tank"})  # fmt: skip
    graph = Graph(facts)
    assert system_devices(graph) >= {"mfid0", "mfid0p3"}
    assert not system_devices(graph) & {"mfid1", "mfid2"}
    assert unknown_system_reasons(graph) == []
    mfid0, mfid1 = graph.devices["mfid0"], graph.devices["mfid1"]
    said = "; ".join(refusals(wiping(mfid0), facts, spare(mfid0), LAYOUT))
    assert "the running system is on it" in said
    assert refusals(wiping(mfid1), facts, spare(mfid1), LAYOUT) == []


@pytest.mark.parametrize("mounts", [LINUX, FREEBSD])
@pytest.mark.parametrize("members", [{}, {"sdc": "zpool tank"}, {"sdc": "zpool"}])
def test_a_root_on_a_pool_that_nobody_knows_refuses_every_disk(mounts, members):
    sdb = whole("sdb")
    facts = host(sdb, whole("sdc"), mounts=mounts, members=members)
    said = "; ".join(refusals(wiping(sdb), facts, spare(sdb), LAYOUT))
    assert "which is not a pool in the facts" in said


def test_any_part_of_the_system_on_an_unknown_pool_refuses():
    sdb = disk("sdb")
    mounts = [
        {"source": "/dev/sda2", "target": "/", "fstype": "ext4", "majmin": "8:2"},
        {"source": "tank/var", "target": "/var", "fstype": "zfs"},
    ]
    facts = host(sdb, mounts=mounts)
    assert "/var is on tank/var" in "; ".join(refusals(wiping(sdb), facts, spare(sdb), LAYOUT))
    data = [mounts[0], {"source": "tank/data", "target": "/data", "fstype": "zfs"}]
    assert refusals(wiping(sdb), host(sdb, mounts=data), spare(sdb), LAYOUT) == []


def test_devices_without_numbers_are_not_one_another():
    """A mount without a device's number (ZFS, tmpfs on FreeBSD) is not a mount of every unnumbered disk."""
    mounts = [
        {"source": "/dev/mfid0p2", "target": "/", "fstype": "ufs"},
        {"source": "tmpfs", "target": "/var/run", "fstype": "tmpfs"},
    ]
    part = disk("mfid0p2", 3, type="part", majmin="", serial="", parents=["mfid0"])
    facts = host(whole("mfid0"), part, whole("mfid1"), mounts=mounts)
    graph = Graph(facts)
    assert system_devices(graph) & {"mfid0", "mfid0p2", "mfid1"} == {"mfid0", "mfid0p2"}
    assert unknown_system_reasons(graph) == []
    elsewhere = host(whole("mfid1"), mounts=[mounts[0] | {"source": "/dev/ada9p2"}])
    assert "/ is on /dev/ada9p2" in unknown_system_reasons(Graph(elsewhere))[0]
    named, foreign = Mentions(graph).find_devices("newfs  -U /dev/mfid1 ")
    assert (named, foreign) == ({"mfid1"}, [])
