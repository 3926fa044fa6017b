"""Copies that a mirror writes of each byte: what a ceiling is held against, and what amplification is forgiven for."""

from __future__ import annotations

import pytest

from benchlab.analysis.evidence import Layer, Run

DISKS = ("sdb", "sdc", "sdd", "sde")


@pytest.mark.parametrize(
    ("kind", "options", "least", "made"),
    [
        ("md", {"level": 1}, 4, 4),
        ("md", {"level": 10}, 2, 2),
        ("md", {"level": 10, "layout": "f3"}, 3, 3),
        ("md", {"level": 10, "layout": "nobody's"}, 1, 2),  # at least; and what is likely
        ("md", {"level": 0}, 1, 1),
        ("md", {"level": 6}, 1, 3),
        ("lvm", {"type": "mirror"}, 4, 4),
        ("lvm", {"type": "striped"}, 1, 1),
        ("zpool", {"layout": "mirror"}, 2, 2),
        ("zpool", {"layout": "mirror", "width": 3}, 3, 3),
        ("zpool", {"layout": "raidz2"}, 1, 3),
        ("raw", {}, 1, 1),
    ],
)
def test_copies_by_hand(kind, options, least, made):
    run = Run("fio", layers=(Layer(kind, options, {"data": DISKS}),))
    assert (run.copies, run.write_multiple) == (least, made)


def test_a_mirror_of_which_nobody_told_the_disks_has_two():
    run = Run("fio", layers=(Layer("md", {"level": 1}),))
    assert (run.copies, run.write_multiple) == (1, 2)
