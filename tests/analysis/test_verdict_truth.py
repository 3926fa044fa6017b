"""Rates at which a verdict errs, and finds what is there: docs/analysis.md's tables, of 2,000 pairs a cell.

A false verdict: faster or slower of equals, the wrong direction, or "no difference" where it is above 5 %. `-s` shows
the tables; the seed stands above them.
"""

from __future__ import annotations

import numpy as np
import pytest

from benchlab.analysis.designs import Design, Order
from benchlab.analysis.designs import design as design_of
from benchlab.analysis.differences import LEAST, compare_pairs
from benchlab.testing.profiles import CI, FULL, QUICK, drawn, profile
from tests.analysis.simulated import NOISES, pairs

pytestmark = pytest.mark.one_in(2)

SEED = 14
PAIRS = {QUICK: 800, CI: 2_000, FULL: 20_000}[profile()]
# % of curves, and of sweeps: 5, and by day what two standard deviations of fewer pairs allow.
MOST = 5.0 if profile() != QUICK else 5.0 + 200 * np.sqrt(0.05 * 0.95 / PAIRS)
# Power at a true 10, 20 and 50 % (docs/analysis.md, from 2,000 pairs), and how far luck may take it.
AT_POINTS = {2: (14, 35, 69), 3: (30, 51, 83), 5: (42, 65, 94), 10: (55, 80, 100)}
OVER_CURVE = {1: (40, 62, 93), 2: (50, 75, 99), 3: (67, 89, 100), 5: (80, 97, 100)}
ABBA = {3: (39, 73), 5: (61, 89)}
APART = {3: (30, 74), 5: (33, 84), 10: (38, 92)}
NOISE = {QUICK: 5.5, CI: 3.0, FULL: 1.0}[profile()]
# Four cells at a true 10 % find less than docs/analysis.md: it missed its own bound on false sweeps, and holding it
# costs that. Of 8,000 pairs OF_FEW 0.0375, 0.0425, 0.05 give 27.7, 28.6, 29.9 % at a point and 4.7, 5.2, 5.9 % of false
# sweeps with three repeats; BLOCK_COST 1 instead of 1.5 gives 0.4 and costs 0.3. In turns it is the bound with luck.
AT_POINTS[3] = (28, *AT_POINTS[3][1:])
OVER_CURVE[2] = (49, *OVER_CURVE[2][1:])
APART[3] = (28, *APART[3][1:])
ABBA[5] = (60, *ABBA[5][1:])
FEWER = (0, 5.01, 20)


class Said:
    """Shares of verdicts in a cell of a table, in %."""

    def __init__(self, truth, repeats, order=Order.INTERLEAVED, change=None, design=None, **more):
        dice = np.random.default_rng(SEED)
        effect = np.log1p(np.asarray(truth) / 100)
        logs, self.which = pairs(dice, PAIRS, repeats, effect, order, **more)
        logs = change(logs, dice) if change else logs
        _, points, curve = compare_pairs(logs, design or design_of(order, repeats=repeats))
        false = points.sign != np.sign(effect) if np.all(effect == 0) else points.sign < 0
        beyond = np.broadcast_to(effect, points.est.shape[1]) > LEAST
        false = false | (points.equal & beyond)
        self.points, self.sweeps = 100 * false.mean(), 100 * false.any(axis=1).mean()
        wrong = curve.sign != 0 if np.all(effect == 0) else curve.sign < 0
        self.curves = 100 * (wrong | (curve.equal & (np.min(effect) > LEAST))).mean()
        self.found, self.found_curve = 100 * (points.sign > 0).mean(), 100 * (curve.sign > 0).mean()
        self.none, self.none_curve = 100 * points.equal.mean(), 100 * curve.equal.mean()
        self.by_noise = [
            f"{100 * (curve.sign > 0)[self.which == n].mean():.0f}" for n in range(len(NOISES))
        ]


def table(repeats, order=Order.INTERLEAVED, truths=(0, 3, 5.01, 10, 20, 50), **more):
    """Of so many % of difference; printed, and false verdicts are few."""
    said = {truth: Said(truth, repeats, order, **more) for truth in truths}
    print(f"\nseed {SEED}, {PAIRS} pairs, {order}, {repeats} repeats {more or ''}")
    for truth, one in said.items():
        print(
            f"  true {truth:5} %: false points {one.points:.1f} sweeps {one.sweeps:.1f} curves {one.curves:.1f};"
            f" found points {one.found:.0f} curves {one.found_curve:.0f} (by noise {' '.join(one.by_noise)});"
            f' "no difference" points {one.none:.0f} curves {one.none_curve:.0f} %'
        )
    assert max(one.sweeps for one in said.values()) <= MOST
    assert max(one.curves for one in said.values()) <= MOST
    return said


def holds(found, wanted):
    assert all(a >= b - NOISE for a, b in zip(found, wanted, strict=True)), (found, wanted)


@pytest.mark.parametrize("repeats", [1, 2, 3, 5, 10])
def test_interleaved(repeats):
    said = table(repeats)
    holds([said[t].found for t in (10, 20, 50)], AT_POINTS.get(repeats, (0, 0, 0)))
    holds([said[t].found_curve for t in (10, 20, 50)], OVER_CURVE.get(repeats, (90, 99, 99)))
    assert said[0].none_curve >= {1: 10, 2: 16, 3: 29, 5: 42, 10: 59}[repeats]


@pytest.mark.parametrize("repeats", [2, 3, 5, 10])
def test_built_in_turns(repeats):
    said = table(repeats, Order.ABBA)
    holds([said[t].found_curve for t in (10, 20)], ABBA.get(repeats, (0, 0)))


@pytest.mark.parametrize("repeats", [2, 3, 5, 10])
def test_built_one_after_the_other(repeats):
    said = table(repeats, Order.ONE_AFTER_OTHER)
    holds([said[t].found_curve for t in (10, 20)], APART.get(repeats, (0, 0)))
    assert said[0].none == said[0].none_curve == 0


@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_the_luck_of_a_build(repeats):
    """2 % a visit."""
    for order in (Order.ABBA, Order.ONE_AFTER_OTHER):
        table(repeats, order, FEWER, luck=0.02)


def without_learning(repeats):
    return Said(0, repeats, Order.ABBA, luck=0.04).curves


def test_tau_that_was_learned():
    """Luck of 4 % a build: the constant errs in a tenth of curves; learned from eight pairs it holds."""
    dice = np.random.default_rng(SEED)
    learned = [
        Said(
            0,
            5,
            Order.ABBA,
            luck=0.04,
            design=design_of(Order.ABBA, list(dice.normal(0, 0.04 * np.sqrt(2), 8))),
        ).curves
        for _ in range(10)
    ]
    print("seed", SEED, "constant", without_learning(5), "learned", np.round(learned, 1))
    assert without_learning(5) > MOST
    assert np.mean(learned) <= MOST


@pytest.mark.parametrize("order", [Order.ABBA, Order.ONE_AFTER_OTHER])
@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_builds_that_were_alike_are_no_proof_against_drift(order, repeats):
    """A lab whose rebuilt equals differ by nothing; its campaigns drift all the same."""
    learned = design_of(order, [1e-4, -1e-4] * 3, repeats=repeats)
    table(repeats, order, (0, 5.01, 10), design=learned)


def fewer(logs, dice):
    """Five blocks of the first, three of the second."""
    logs[:, 1, :, 3:] = np.nan
    return logs


def holes(logs, dice):
    """A fifth of all runs failed."""
    missing = dice.random(logs.shape) < 0.2
    missing[..., 0] = False
    logs[missing] = np.nan
    return logs


def more_at_some(logs, dice):
    logs[:, :, :3, 3:] = np.nan
    return logs


def one_at_some(logs, dice):
    logs[:, 1, 3:, 1:] = np.nan
    return logs


@pytest.mark.parametrize("change", [fewer, holes, more_at_some, one_at_some])
def test_unlike_numbers_of_repeats(change):
    """docs/analysis.md did not try them: no more false verdicts than with equal ones."""
    for order in Order:
        table(5, order, FEWER, change=change)


@pytest.mark.draws
@pytest.mark.parametrize("depths", drawn("depths", [1, 2, 3, 4, 5, 12], quick=2, more=4))
def test_other_numbers_of_depths(depths):
    """Set-ups may have only some depths in common: those are left to compare."""
    for repeats in (3, 5):
        table(repeats, truths=FEWER, depths=depths)
    table(3, Order.ABBA, FEWER, depths=depths)
    table(3, Order.ONE_AFTER_OTHER, FEWER, depths=depths)


def throttled(logs, dice):
    """A token bucket in one of them only: 9 % of its runs at 0.7."""
    logs[:, 1] += np.where(dice.random(logs[:, 1].shape) < 0.09, np.log(0.7), 0)
    return logs


def test_a_token_bucket_in_one_of_them():
    """It is a difference itself, of 3 % on the mean: what is larger is still found, and not called none."""
    said = {truth: Said(truth, 5, change=throttled) for truth in (0, 20)}
    print("seed", SEED, {t: (s.points, s.sweeps, s.curves, s.found_curve) for t, s in said.items()})
    assert said[20].curves <= MOST and said[20].found_curve >= 85


def test_a_difference_at_some_depths_only():
    """20 % at four of seven: docs/analysis.md finds 49 % with three repeats, 2 % false at the others."""
    truth = np.log1p([0, 0, 0, 0.2, 0.2, 0.2, 0.2])
    logs, _ = pairs(np.random.default_rng(SEED), PAIRS, 3, truth)
    _, points, _ = compare_pairs(logs, Design(Order.INTERLEAVED, 0))
    false, found = 100 * (points.sign[:, :3] != 0).mean(), 100 * (points.sign[:, 3:] > 0).mean()
    print("seed", SEED, "false", false, "found", found)
    assert false <= 2.5 and found >= 49 - NOISE
