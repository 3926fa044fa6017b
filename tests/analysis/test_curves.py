"""Curves against numbers that people published, and against what must hold for any numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchlab.analysis.curves import (
    curve,
    little,
    median_of,
    spread,
)


def test_fewer_than_three_repeats_claim_no_interval():
    assert (spread([1.0, 3.0]).median, spread([1.0, 3.0]).low) == (2.0, None)
    three = spread([3.0, 1.0, 2.0])
    assert (three.n, three.median, three.low, three.high) == (3, 2.0, 1.0, 3.0)


def test_no_values_no_median():
    with pytest.raises(ValueError, match="no values"):
        spread([])


def test_curve_is_sorted_by_depth():
    points = curve([(16, 5.0), (1, 2.0), (16, 7.0), (16, 6.0)])
    assert list(points) == [1, 16]
    assert points[16].median == 6.0


def test_little_flags_a_depth_that_was_not_reached():
    assert little(4, [(5095.0, 4 / 5095.0)]).holds
    short = little(16, [(5000.0, 0.0016)])
    assert short.implied == pytest.approx(8.0)
    assert not short.holds


@given(st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=50))
def test_median_lies_within_its_range(values):
    result = spread(values)
    assert min(values) <= result.median <= max(values)
    assert (result.low is None) == (len(values) < 3)


def test_little_is_of_each_run_before_it_is_of_their_median():
    """Two runs that kept two I/Os in flight, one fast and one slow: their medians together would tell of 2.7."""
    both = [(1970.0, 0.001), (660.0, 0.003)]
    assert little(2, both).implied == pytest.approx(1.975)
    assert little(2, both).holds
    # None of the three had four in flight, which the product of their medians (200 x 0.02) would claim.
    short = [(100.0, 0.02), (200.0, 0.005), (400.0, 0.03)]
    assert not little(4, short).holds


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=9))
def test_the_median_is_numpy_s(values):
    assert median_of(values) == float(np.median(values))


def test_a_median_of_what_is_no_number_is_none():
    assert math.isnan(median_of([1.0, math.nan, 3.0]))
