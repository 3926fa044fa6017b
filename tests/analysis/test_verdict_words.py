"""Words of verdicts that are none: equal, undecided, and what would decide it."""

from __future__ import annotations

from math import inf

import pytest

from benchlab.analysis import verdicts
from benchlab.analysis.designs import NOT_DECIDABLE
from benchlab.analysis.verdicts import Conclusion, compare_sweeps
from tests.analysis.test_verdicts import ABBA, APART, TURNS, sweep


@pytest.mark.parametrize(
    ("spread", "says"),
    [
        ((0.999, 1, 1.001), Conclusion.NONE),
        ((0.99, 1, 1.01), Conclusion.NONE),
        ((0.9, 1, 1.1), Conclusion.UNKNOWN),
    ],
)
def test_equals_are_called_equal_at_each_depth_as_far_as_noise_allows(spread, says):
    equal = sweep(100, 200, 300, spread=spread)
    found = compare_sweeps(equal, equal, TURNS)
    assert [point.conclusion for point in found.points.values()] == [says] * 3


@pytest.mark.parametrize(
    ("more", "order", "words"),
    [
        (7, TURNS, "; 7 repeats of each would probably decide"),
        (7, APART, "; 7 repeats of each would probably decide"),
        (None, TURNS, f"; {NOT_DECIDABLE}"),
        (None, ABBA, f"; {NOT_DECIDABLE}, or build in more visits"),
        (None, APART, "; more repeats cannot tell, builds that take turns (ABBA) can"),
    ],
)
def test_what_would_decide_is_named(more, order, words):
    assert verdicts._what_would(more, order) == words


@pytest.mark.parametrize(
    ("est", "half", "more", "order", "words"),
    [
        (
            0.2,
            inf,
            2,
            TURNS,
            "one repeat, measured in turns, so nothing tells the noise; at least 2 of each are needed",
        ),
        (
            0.01,
            0.1,
            None,
            APART,
            "built one after the other, and so small a difference may be the builds'",
        ),
        (0.2, 0.1, 5, TURNS, "the interval does not tell it from a difference below 5 %"),
        (0.01, 0.1, 5, TURNS, "the 95 % interval holds 1 and reaches beyond 5 %"),
    ],
)
def test_why_nothing_was_decided(est, half, more, order, words):
    assert verdicts._reason(Conclusion.UNKNOWN, est, half, 1, order, more).startswith(words)
