"""Points of a sweep: named as people name them, and in the order in which they count."""

from __future__ import annotations

import pytest

from benchlab.campaigns import matrix


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("block_size", 4096, "4 KiB"),
        ("bs", "64k", "64 KiB"),
        ("bs", "4k,8k", "4k,8k"),
        ("size", 1 << 30, "1 GiB"),
        ("block_size", 5120, "5 KiB"),
        ("block_size", 4097, "4097 B"),  # exactly, not 4 KiB
        ("iodepth", 4096, "4096"),
        ("rw", "randread", "randread"),
        ("direct", True, "True"),
    ],
)
def test_a_value_in_words(name, given, said):
    assert matrix.format_value(name, given) == said


def test_a_point_in_words():
    assert (
        matrix.describe_point({"iodepth": 4, "block_size": 8192}) == "iodepth 4, block size 8 KiB"
    )
    assert matrix.describe_point({}) == ""


@pytest.mark.parametrize(
    "ordered",
    [
        [{"block_size": size} for size in (512, 4096, 16384, 65536, 1 << 20)],
        [{"bs": size} for size in ("512", "4k", "16k", "64k", "1m")],
        [{"block_size": s, "iodepth": d} for d in (1, 2, 16) for s in (4096, 16384)],
        [{"mode": mode} for mode in ("raid 1", "raid 5", "raid 10")],
        [{"mode": 3}, {"mode": "a"}],
    ],
)
def test_natural_order(ordered):
    shuffled = sorted(ordered, key=str, reverse=True)
    assert sorted(shuffled, key=matrix.point_rank) == ordered
