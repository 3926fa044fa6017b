"""The same (test_every_stack.py) for every preset and unusual stack with ZFS."""

from __future__ import annotations

import pytest

from benchlab.practice import DiskSpec
from benchlab.testing import profiles
from tests.rig import stacks
from tests.rig.bench import Bench
from tests.rig.every_stack import live

STACKS = stacks.every(zfs=True)
NAMES = profiles.drawn("stacks with ZFS", list(STACKS), quick=1, more=1)


@pytest.fixture(scope="module")
def bench(make_zfs_host) -> Bench:
    made = Bench(make_zfs_host([DiskSpec(320, serial=f"EVERY-{n:02}") for n in range(13)]))
    made.quick = True
    return made


@pytest.mark.parametrize("name", NAMES)
def test_a_stack_lives_and_leaves_nothing(bench, name):
    layers, stages = STACKS[name]
    live(bench, layers, stages)
