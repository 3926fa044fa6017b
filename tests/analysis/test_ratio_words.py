"""Ratios in words: what is there never reads as nothing, nor a bound beside 1 as 1."""

from __future__ import annotations

import pytest

from benchlab.analysis.formats import (
    ratio_number,
    ratio_range,
    ratio_sign,
    ratio_tick,
    times_text,
)


@pytest.mark.parametrize(
    ("ratio", "says"),
    [
        (0.0004, "0.00040"),
        (0.0444, "0.044"),
        (0.1843, "0.18"),
        (0.997, "1.00"),
        (1.184, "1.18"),
        (1.996, "2.0"),
        (2.63, "2.6"),
        (17.33, "17.3"),
        (99.97, "100"),
        (1234.5, "1,234"),
        (0.0, "0.00"),
    ],
)
def test_two_digits_count(ratio, says):
    assert ratio_number(ratio) == says
    assert times_text(ratio) == f"{says} times"
    assert ratio_sign(ratio) == f"{says}\u00a0×"


def test_labels_of_an_axis_are_told_apart():
    assert [ratio_tick(value) for value in (0.5, 2, 2.05, 10)] == [
        "0.5\u00a0×",
        "2\u00a0×",
        "2.05\u00a0×",
        "10\u00a0×",
    ]


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [
        (0.0003, 0.0005, "0.00030 to 0.00050"),
        (0.04, 2.5, "0.040 to 2.5"),
        (1.003, 1.16, "1.003 to 1.16"),
        (0.86, 0.9972, "0.86 to 0.997"),
        (1.00001, 1.2, "1.00001 to 1.20"),
        (0.998, 1.002, "1.00 to 1.00"),
        (1, 1.002, "1.00 to 1.00"),  # a bound of exactly 1 does not leave it out
        (0.998, 1, "1.00 to 1.00"),
        (1.001, 1.004, "1.001 to 1.004"),  # nor does the other one, which would be the smaller then
        (0.996, 0.9991, "0.996 to 0.999"),
        (9.08, 11.99, "9.1 to 12.0"),
    ],
)
def test_a_bound_that_leaves_1_out_does_not_read_as_1(low, high, says):
    assert ratio_range(low, high) == says
