"""Words of verdicts that are none: equal, undecided, and what would decide it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchlab.analysis import verdicts
from benchlab.analysis.designs import NOT_DECIDABLE, Order, design
from benchlab.analysis.repeats import noise_of_set_ups
from benchlab.analysis.verdicts import Conclusion, compare_sweeps
from tests.analysis.test_verdicts import ABBA, APART, SPREAD, TURNS, sweep


@pytest.mark.parametrize(
    ("spread", "says"),
    [
        ((0.999, 1, 1.001), Conclusion.NONE),
        ((0.99, 1, 1.01), Conclusion.NONE),
        ((0.9, 1, 1.1), Conclusion.SMALL),
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
        (
            None,
            APART,
            "; more repeats would not decide: build in turns (ABBA), which can show differences of 5 % or more",
        ),
    ],
)
def test_what_would_decide_is_named(more, order, words):
    assert verdicts._what_would(more, order, by_luck=order.tau > 0) == words


UNTOLD = design(Order.UNTOLD)


@pytest.mark.parametrize(
    ("first", "second", "order", "words"),
    [
        (
            {8: {1: 100.0}}, {8: {1: 120.0}}, TURNS,
            "one run each does not show how much runs vary (measured in turns); measure 3 of each",
        ),
        (
            sweep(100, 200, 300), sweep(108, 216, 324), APART,
            "built one after the other: at most 20 % apart (95 %); more repeats would not decide: build in turns "
            "(ABBA), which can show differences of 5 % or more",
        ),
        (
            sweep(100, 200, 300, spread=(0.999, 1, 1.001)), sweep(103, 207, 310, spread=(0.999, 1, 1.001)), TURNS,
            "the 90 % interval lies within 5 % of equal",
        ),
        (
            sweep(100, 200, 300, spread=(0.5, 1, 2)), sweep(120, 220, 300, spread=(0.5, 2, 1)), APART,
            "3 repeats leave anything from 0.54 to 2.2 times possible; even 30 repeats would not decide",
        ),
    ],
)  # fmt: skip
def test_why_it_is_so(first, second, order, words):
    assert compare_sweeps(first, second, order).curve.reason.startswith(words)


def test_one_run_each_decides_what_no_known_noise_explains():
    """Public figures of an SSD whose write cache was switched off: 8 to 29 times slower at all of seven depths."""
    off = (473, 931, 1843, 3406, 5656, 5676, 5682)
    on = (13223, 27552, 22408, 48354, 47951, 47929, 48234)
    first, second = sweep(*on, spread=(1.0,)), sweep(*off, spread=(1.0,))
    curve = compare_sweeps(first, second, UNTOLD).curve
    assert curve.conclusion == Conclusion.SLOWER and curve.assumed
    assert curve.ratio == pytest.approx(1 / 13.6, rel=0.02)
    assert curve.low < 1 / 29 and 1 / 8 < curve.high < 1, "its size is uncertain, and said to be"
    assert curve.more_repeats is None
    # The Intel SSD of the same source differs from itself by half: no verdict.
    assert (
        compare_sweeps(sweep(100, spread=(1.0,)), sweep(52, spread=(1.0,)), UNTOLD).curve.p > 0.01
    )


def test_one_run_each_is_held_against_the_noise_of_the_lab():
    """20 sweeps of 5 % a run and 3 % a repeat: 1.25 times the noisier ones; 40 % more is beyond that, 10 % is not."""
    dice = np.random.default_rng(10)
    sweeps = [
        {
            2**d: {n: 100 * np.exp(dice.normal(0, 0.05) + shift) for n, shift in enumerate(shifts)}
            for d in range(7)
        }
        for shifts in dice.normal(0, 0.03, (20, 3))
    ]
    noise = noise_of_set_ups([sweeps[:2], sweeps[2:4], sweeps[4:]])
    assert 1.25 * 0.05 <= noise.run <= 1.8 * 0.05 and 1.25 * 0.03 <= noise.sweep <= 2.5 * 0.03
    assert noise.df == 20 * 14
    assert noise_of_set_ups([[few] for few in sweeps[:4]]) is None
    # The next set-up may be noisier than one that a lab knows well.
    assert noise_of_set_ups([sweeps[:2], sweeps[2:]]) is None
    lab = replace(APART, noise=noise)
    base = sweep(*[100] * 7, spread=(1.0,))
    curve = compare_sweeps(base, sweep(*[145] * 7, spread=(1.0,)), lab).curve
    assert (
        curve.conclusion == Conclusion.FASTER
        and curve.assumed
        and "this lab's other runs" in curve.reason
    )
    assert compare_sweeps(base, sweep(*[110] * 7, spread=(1.0,)), lab).curve.more_repeats == 3
    without = compare_sweeps(base, sweep(*[145] * 7, spread=(1.0,)), APART).curve
    assert without.conclusion == Conclusion.UNKNOWN


def test_a_single_depth_gives_all_its_noise_to_its_runs():
    noise = noise_of_set_ups([[{0: {1: 100.0, 2: 110.0, 3: 121.0}}]] * 5)
    assert (noise.run, noise.sweep) == pytest.approx((1.25 * np.log(1.1), 0))


def stalling(times, level=1.0):
    """(steady sweep, one of which 9 of 30 runs have `times` of its rate): three depths, ten repeats."""
    dice = np.random.default_rng(4)
    steady, stalls = (
        {2**d: dict(enumerate(rate * np.exp(dice.normal(7, 0.01, 10)))) for d in range(3)}
        for rate in (1, level)
    )
    for depth, blocks in zip(stalls, ((2, 5, 8), (0, 3, 7), (1, 6, 9)), strict=True):
        for block in blocks:
            stalls[depth][block] *= times
    return steady, stalls


def test_a_set_up_that_stalls_is_slower_by_its_mean():
    """9 of 30 runs at half: alike in the others, and its mean is 15 % lower."""
    steady, stalls = stalling(0.5)
    curve = compare_sweeps(steady, stalls, TURNS).curve
    assert curve.conclusion == Conclusion.SLOWER
    assert (curve.ratio, curve.typical) == pytest.approx((0.85, 1), abs=0.02)
    assert [(one.runs, one.all_runs) for one in curve.stalled] == [(0, 30), (9, 30)]
    assert curve.stalled[1].level == pytest.approx(0.5, abs=0.01)
    level = compare_sweeps(steady, steady, TURNS).curve
    assert level.stalled is None and level.conclusion == Conclusion.NONE


def test_a_latency_stalls_where_its_rate_does():
    """The mirror image gets the mirrored verdict: long runs are the stalls, short ones are none."""
    steady, stalls = (
        {depth: {block: 8 / rate for block, rate in cell.items()} for depth, cell in each.items()}
        for each in stalling(0.5)
    )
    curve = compare_sweeps(steady, stalls, TURNS, lower_is_better=True).curve
    assert curve.conclusion == Conclusion.SLOWER
    assert (curve.ratio, curve.typical) == pytest.approx((1 / 0.85, 1), abs=0.02)
    assert [(one.runs, one.all_runs) for one in curve.stalled] == [(0, 30), (9, 30)]
    assert curve.stalled[1].level == pytest.approx(2, abs=0.04)
    steady, short = stalling(0.5)
    cached = compare_sweeps(steady, short, TURNS, lower_is_better=True).curve
    assert cached.stalled is None


# Seeds with which typical runs decide, and plain means leave it open.
@pytest.mark.parametrize("seed", [24, 108, 141])
def test_what_is_decided_shows_in_its_interval(seed):
    """Whether typical runs or plain means decide: 1 is outside, and the ratio is 5 % away from it."""
    dice = np.random.default_rng(seed)
    first, second = (
        {2**d: dict(enumerate(np.exp(dice.normal(7, 0.03, 3)))) for d in range(7)} for _ in range(2)
    )
    for cell in second.values():
        for block in cell:
            cell[block] *= 0.95 * (0.5 if dice.random() < 0.25 else 1)
    curve = compare_sweeps(first, second, TURNS).curve
    assert curve.conclusion == Conclusion.SLOWER and curve.stalled
    assert curve.typical is None and curve.high < 1 and curve.ratio < 1 / 1.05


def test_repeats_do_not_take_away_what_visits_differ():
    """In turns, and visits of the two drift apart: only more visits lower that, whatever the design's own tau."""
    visits = tuple((block, block // 3) for block in range(6))
    abba = replace(ABBA, visits=(visits, visits))
    first, second = (sweep(100, 200, 300, 400, spread=SPREAD * 2) for _ in range(2))
    for cell in second.values():
        cell.update({block: 1.3 * cell[block] for block in (3, 4, 5)})
    curve = compare_sweeps(first, second, abba).curve
    assert curve.conclusion == Conclusion.UNKNOWN
    assert curve.more_repeats is None and "build in more visits" in curve.reason


def test_a_difference_that_one_depth_bears_needs_no_more_repeats():
    """However many repeats there are, the curve does not follow from one depth."""
    half = sweep(*[100] * 4)
    half[4] = {block: value / 3 for block, value in half[4].items()}
    found = compare_sweeps(sweep(*[100] * 4), half, TURNS)
    assert found.curve.conclusion == Conclusion.UNKNOWN and found.curve.high < 1
    assert (
        found.curve.reason
        == "a single depth makes the difference, so more repeats would not decide"
    )
    assert found.curve.more_repeats is None and list(found.unlike) == [4]


def test_what_plain_means_leave_open_is_said_of_them():
    """Both at half in their first block: typical runs are equal, and plain means cannot tell."""
    first, second = (sweep(*[100] * 4, spread=(1, 1.01, 0.99, 1, 1.005)) for _ in range(2))
    for cell in (*first.values(), *second.values()):
        cell[0] /= 2
    curve = compare_sweeps(first, second, TURNS).curve
    assert curve.conclusion == Conclusion.UNKNOWN and 0.95 < curve.low < curve.high < 1.05
    assert curve.reason.startswith("plain means leave ")


@pytest.mark.parametrize(
    ("repeats", "words"),
    [((1, 1), "one run each does"), ((1, 10), "a single run on one side does")],
)
def test_one_run_is_not_said_of_a_set_up_that_has_more(repeats, words):
    first, second = (sweep(100, 200, spread=(SPREAD * 4)[:count]) for count in repeats)
    assert compare_sweeps(first, second, APART).curve.reason.startswith(words)


@pytest.mark.parametrize(("last", "says"), [(101, Conclusion.FASTER), (125, Conclusion.UNKNOWN)])
def test_rounded_repeats_do_not_disagree(last, says):
    """Of a tool that rounds, most repeats are the same number; one in the next step is no outlier."""
    second = sweep(*[110] * 7, spread=(1, 1, 1))
    second[8][2] *= last / 100
    point = compare_sweeps(sweep(*[100] * 7, spread=(1, 1, 1)), second, TURNS).points[8]
    assert point.conclusion == says
    assert point.reason.startswith("repeats disagree") == (says == Conclusion.UNKNOWN)
