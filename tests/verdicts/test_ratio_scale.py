"""The scale under a verdict: places of ratios and intervals, labels that do not touch."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchlab.analysis.verdicts import Conclusion, Verdict
from benchlab.verdicts.ranks import APART, MAX_X, MIN_X, Scale

RATIOS = st.floats(0, math.inf, allow_nan=False)


def verdict(ratio: float, low: float | None = None, high: float | None = None) -> Verdict:
    return Verdict(Conclusion.FASTER, ratio, low, high, (3, 3), "")


def numbers(path: str) -> list[float]:
    return [float(part) for part in path.strip("M").replace(" 0H", " ").split()]


def test_a_ratio_of_two_stands_right_of_one_and_within_its_interval():
    one = verdict(2.0, 1.5, 2.6)
    scale = Scale.spanning([one])
    mark = scale.place_verdict(one)
    low, high = numbers(mark.span)
    assert MIN_X < float(scale.unity) < low < float(mark.at) < high < MAX_X
    assert numbers(mark.bar) == [float(scale.unity), float(mark.at)]


def test_equal_ratios_are_equal_distances():
    scale = Scale.spanning([verdict(0.5), verdict(8.0)])
    at = [float(scale.place_verdict(verdict(ratio)).at) for ratio in (0.5, 1, 2, 4, 8)]
    steps = [b - a for a, b in itertools.pairwise(at)]
    assert max(steps) - min(steps) < 0.21  # places are told to a tenth


def test_a_difference_of_a_percent_looks_like_one():
    scale = Scale.spanning([verdict(1.01, 1.0, 1.02)])
    assert float(scale.place_verdict(verdict(1.01)).at) - float(scale.unity) < (MAX_X - MIN_X) / 10
    assert "1×" in [tick.text for tick in scale.ticks]


def test_without_an_interval_there_is_no_span():
    assert Scale.spanning([verdict(3.0)]).place_verdict(verdict(3.0)).span == ""


@pytest.mark.parametrize("ratio", [0.0, 1e-30, 1e30, math.inf])
def test_what_has_no_end_is_cut(ratio):
    one = verdict(ratio, 0.0, math.inf)
    mark = Scale.spanning([one]).place_verdict(one)
    assert all(MIN_X <= place <= MAX_X for place in [float(mark.at), *numbers(mark.span)])


@given(st.lists(st.tuples(RATIOS, RATIOS, RATIOS), min_size=1, max_size=6))
def test_all_is_on_the_scale_and_labels_are_apart(some):
    scale = Scale.spanning([verdict(*one) for one in some])
    places = [float(tick.at) for tick in scale.ticks]
    assert "1×" in [tick.text for tick in scale.ticks]
    assert all(MIN_X <= at <= MAX_X for at in places)
    assert all(b - a > APART - 0.3 for a, b in itertools.pairwise(places))
    assert all(MIN_X <= float(scale.place_verdict(verdict(*one)).at) <= MAX_X for one in some)


@pytest.mark.parametrize(
    ("least", "most", "labels"),
    [
        (0.01, 1, "0.01 0.03 0.1 0.3 1"),
        (1, 1000, "1 10 100 1000"),
        (1, 100, "1 3 10 30 100"),
        (1, 30, "1 2 5 10 20"),
        (1, 9.5, "1 2 5 10"),
        (1, 4, "1 3"),
        (1, 2, "1 1.2 1.5 2"),
        (1, 1.4, "1 1.1 1.2 1.3 1.4"),
        (0.5, 1.2, "0.5 1"),
        (0.9, 1.1, "0.9 0.95 1 1.1"),
        (0.9, 1.5, "0.9 1 1.2 1.5"),
        (0.7, 1.2, "0.7 0.8 0.9 1 1.2"),
    ],
)
def test_labels_are_round_and_as_many_as_have_room(least, most, labels):
    ticks = Scale.spanning([verdict(least), verdict(most)]).ticks
    assert [tick.text for tick in ticks] == [f"{label}×" for label in labels.split()]


@pytest.mark.parametrize(("low", "high"), [(1.5, None), (None, 2.6)])
def test_half_an_interval_is_no_span(low, high):
    one = verdict(2.0, low, high)
    assert Scale.spanning([one]).place_verdict(one).span == ""
