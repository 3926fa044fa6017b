"""Topologies sized to a host's spare disks: each is a stack that can be, and what cannot be says what is missing."""

from __future__ import annotations

import pytest

from benchlab.topologies.host_shapes import SpareRoles, host_shapes, spare_roles
from benchlab.topologies.services import checked_stack

HOSTS = [
    {"hdd": 11, "ssd": 1},
    {"hdd": 1, "ssd": 1},
    {"ssd": 4},
    {"ssd": 1},
    {"hdd": 2},
    {"ssd": 4, "nvme": 1},
    {"nvme": 2, "hdd": 2, "ssd": 2},
    {"archive": 5, "ssd": 2},
]


@pytest.mark.parametrize("spares", HOSTS, ids=str)
def test_what_is_offered_can_be_built_of_what_is_spare(spares):
    found = host_shapes(spares)
    assert found and len({one.slug for one in found}) == len(found)
    assert len({one.name for one in found}) == len(found)
    for one in found:
        if one.lacks:
            assert not one.stack and one.lacks.endswith(".")
        else:
            assert checked_stack(one.stack)
            assert all(n <= spares[role] for role, n in one.wants.items()), one.name
    lacking = [bool(one.lacks) for one in found]
    assert lacking == sorted(lacking)


@pytest.mark.parametrize(
    ("spares", "told"),
    [
        ({"hdd": 11, "ssd": 1}, SpareRoles("hdd", "hdd", "ssd")),
        ({"ssd": 4}, SpareRoles("ssd", "", "")),
        ({"ssd": 4, "nvme": 1}, SpareRoles("ssd", "ssd", "nvme")),
        ({"hdd": 2, "ssd": 6}, SpareRoles("ssd", "hdd", "ssd")),
        ({"hdd": 2, "ssd": 0}, SpareRoles("hdd", "", "")),
        ({"hdd": 1, "ssd": 1}, SpareRoles("hdd", "hdd", "ssd")),
    ],
    ids=str,
)
def test_the_fast_disk_stands_before_the_slow_ones(spares, told):
    assert spare_roles(spares) == told


def test_the_articles_shapes_stand_first():
    names = [one.name for one in host_shapes({"hdd": 12, "ssd": 1})]
    assert names[:2] == [
        "Stripe of 12 hdd, xfs",
        "LVM cache on ssd before a stripe of 12 hdd, xfs",
    ]
    assert "zpool of 12 hdd, SLOG on ssd" in names and "md RAID 10 of 12 hdd, xfs" in names


def test_what_is_missing_is_told_with_the_remedy():
    said = {one.slug: one.lacks for one in host_shapes({"hdd": 2, "ssd": 1})}
    assert said["raid5"] == "Needs 3 spare hdd; this host has 2. Mark 1 more spare."
    assert said["mirror-ssd"] == "Needs 2 spare ssd; this host has 1. Mark one more spare."


@pytest.mark.parametrize("spares", [{}, {"hdd": 0}])
def test_nothing_without_a_spare_disk(spares):
    assert host_shapes(spares) == []
