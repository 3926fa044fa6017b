"""The same (test_interrupted.py) for layouts with ZFS, after every command that may change a disk.

A boot costs ten seconds here and a command up to one, so those that change no disk are not counted. By day a stack
is drawn, and each kind of layer in it is met once, while it is built or taken down.
"""

from __future__ import annotations

import pytest

from benchlab.practice import DiskSpec, QemuHost
from benchlab.testing import profiles
from tests.rig.bench import filesystem, shell_on
from tests.rig.blank import storage_state
from tests.rig.lanes import Grows, Lanes
from tests.rig.moments import Moments
from tests.rig.test_interrupted import (
    KILLED_WORKER,
    PARTS,
    POWER_LOSS,
    Proof,
    drawn,
    kill_worker,
    layer,
    lived,
    lose_power,
)

STACKS = (
    Grows((layer("partition", {"use": "log", "size": 64 << 20}, data=1), layer("zpool", data=2), layer("zfs"))),
    Grows((layer("zpool", {"layout": "mirror"}, data=2), layer("zvol"), filesystem("ext4"))),
    Grows((layer("zpool", {"layout": "raidz1"}, data=3), layer("zfs"))),
)  # fmt: skip
DISKS = tuple(f"vd{letter}" for letter in "bcdefghi")


@pytest.fixture(scope="module")
def host(make_zfs_host) -> QemuHost:
    return make_zfs_host([DiskSpec(128, serial=f"LANE-{name}") for name in DISKS])


@pytest.fixture(scope="module")
def lanes(host) -> Lanes:
    numbers = profiles.drawn("stacks with ZFS", range(len(STACKS)), quick=1, more=1)
    return Lanes([STACKS[n] for n in numbers], shell_on(host), DISKS, disks_only=True)


@pytest.fixture(scope="module")
def blank(host) -> str:
    return storage_state(host)


@pytest.fixture(scope="module")
def moments(host, lanes, blank) -> Moments:
    return lived(host, lanes)


def rounds(way: str, lanes: Lanes, part: int) -> list[int]:
    def kinds(count: int) -> set[Proof]:
        return {(kind, "") for kind, _ in lanes.proves[count]}

    return drawn(way, lanes, 0, kinds)[part::PARTS]


@pytest.mark.covering
@pytest.mark.parametrize("part", range(PARTS))
def test_power_loss(host, lanes, blank, moments, part):
    lose_power(host, lanes, blank, moments, rounds(POWER_LOSS, lanes, part))


@pytest.mark.covering
@pytest.mark.parametrize("part", range(PARTS))
def test_a_killed_worker_and_a_cut_network(host, lanes, blank, moments, part):
    kill_worker(host, lanes, blank, moments, rounds(KILLED_WORKER, lanes, part))
