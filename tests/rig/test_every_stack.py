"""Every preset and every unusual stack without ZFS: planned, built, verified, measured, taken down to blank disks."""

from __future__ import annotations

import pytest

from benchlab.practice import DiskSpec
from benchlab.testing import profiles
from tests.rig import stacks
from tests.rig.bench import Bench
from tests.rig.every_stack import live

STACKS = stacks.every(zfs=False)
NAMES = profiles.drawn("stacks", list(STACKS), quick=1, more=2)


@pytest.fixture(scope="module")
def bench(make_rig_host) -> Bench:
    """Fifteen disks: twelve for a wide stripe, and some SSDs."""
    made = Bench(make_rig_host([DiskSpec(320, serial=f"EVERY-{n:02}") for n in range(15)]))
    made.quick = True
    # Under its other schedulers this kernel hangs when mkfs.xfs has a stripe of twelve write zeroes: requests wait
    # for a tag while none is in flight.
    made.run("for queue in /sys/block/ubd[b-p]/queue; do echo kyber >$queue/scheduler; done")
    return made


@pytest.mark.quick
@pytest.mark.covering
@pytest.mark.parametrize("name", NAMES)
def test_a_stack_lives_and_leaves_nothing(bench, name):
    layers, stages = STACKS[name]
    live(bench, layers, stages)
