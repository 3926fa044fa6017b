"""Proof of blankness: every leftover is named."""

from __future__ import annotations

import pytest

from agents.plans.blank import not_blank
from tests.agents.made_up import claim, disk, host

SDB = disk("sdb")


def left(*devices, **facts):
    return not_blank([claim(SDB)], host(*devices, **facts), "bl17")


def test_a_blank_disk_is_blank():
    assert left(SDB) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"signatures": [{"type": "xfs", "label": "bl17"}]}, "/dev/sdb has a xfs signature 'bl17' at byte 0"),
        ({"signatures_known": False}, "could not be read"),
        ({"mounts": ["/mnt"]}, "mounted at /mnt"),
        ({"swap": True}, "is swap"),
        ({"holders": ["md0"]}, "still has md0 on it"),
    ],
)  # fmt: skip
def test_what_is_left_on_a_disk_is_named(changes, said):
    assert any(said in found for found in left(disk("sdb", **changes)))


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"unknown": ["pvs failed"]}, "could not be read: pvs failed"),
        ({"members": {"sdb": "lvm"}}, "belongs to lvm"),
        ({"members": {"sdz": "zpool bl17"}}, "sdz still belongs to zpool bl17"),
        ({"dm_tables": ["bl17-data: 0 8 linear 8:32 0"]}, "still has bl17-data"),
        ({"mounts": [{"source": "x", "target": "/mnt/benchlab/bl17", "fstype": "xfs"}]}, "mounted"),
    ],
)
def test_what_is_left_on_the_host_is_named(facts, said):
    assert any(said in found for found in left(SDB, **facts))


def test_another_layouts_names_are_not_ours():
    assert left(SDB, dm_tables=["bl1-a: 0 8", "bl170-a: 0 8"], members={"sdz": "zpool bl170"}) == []


def test_a_partition_that_stayed_is_named():
    part = disk("sdb1", 2, type="part", parents=["sdb"], serial="")
    assert left(SDB, part) == ["/dev/sdb still has sdb1 on it"]


def test_a_renamed_disk_is_found_again_and_a_lost_one_is_said():
    moved = disk("sdc", 2, serial="SN-sdb", signatures=[{"type": "xfs"}])
    assert left(moved) == ["/dev/sdc has a xfs signature at byte 0"]
    assert "not on this host" in left()[0]
