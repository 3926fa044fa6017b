"""Decimation keeps the peaks; summaries leave the unknown out."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from benchlab.analysis.series import averages, decimate, rounded, summary

NAN = float("nan")


def test_summary_leaves_unknown_out():
    found = summary([1.0, NAN, 3.0])
    assert found is not None
    assert (found.n, found.minimum, found.mean, found.maximum) == (2, 1.0, 2.0, 3.0)
    assert summary([NAN, NAN]) is None
    assert summary([]) is None


def test_short_series_stay_as_they_are():
    assert decimate([0, 1, 2], [5.0, NAN, 6.0], 10)[0] == [0, 1, 2]


def test_a_gap_stays_a_gap():
    values = [1.0] * 100 + [NAN] * 100 + [1.0] * 100
    _, kept = decimate(list(range(300)), values, 30)
    assert any(math.isnan(value) for value in kept)


@given(st.lists(st.floats(-1e9, 1e9), min_size=50, max_size=500), st.integers(1, 20))
def test_decimation_keeps_extremes_and_order(values, pixels):
    times = [float(index) for index in range(len(values))]
    kept_times, kept = decimate(times, values, pixels)
    assert len(kept) <= max(2 * pixels, 2)
    assert (min(kept), max(kept)) == (min(values), max(values))
    assert kept_times == sorted(kept_times)


def test_averages_share_their_times_and_keep_the_mean():
    times, means = averages([0.0, 1.0, 2.0, 3.0], [1.0, 3.0, NAN, NAN], 2)
    assert times == [0.0, 2.0]
    assert means[0] == 2.0
    assert math.isnan(means[1])


def test_rounded_keeps_five_digits_and_marks_the_unknown():
    assert rounded([123456.7, 0.000123456, -1.0, 0.0, NAN]) == [
        123460.0,
        0.00012346,
        -1.0,
        0.0,
        None,
    ]
    assert rounded([]) == []


def test_decimation_of_a_series_that_does_not_divide():
    times, values = decimate(list(range(1001)), [float(at) for at in range(1001)], 10)
    assert (values[0], values[-1]) == (0.0, 1000.0)
    assert times == values
