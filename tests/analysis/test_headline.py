"""One number for two sweeps: at saturation, at equal load, at equal latency, each by hand and by simulation."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest
from scipy.special import stdtrit

from benchlab.analysis import headline
from benchlab.analysis.designs import Order, design
from benchlab.analysis.differences import compare_pairs
from benchlab.analysis.headline import Condition, Missing, Terms, compare_under
from benchlab.analysis.verdicts import freeze_sweep
from tests.analysis.noise_of_curves import allowed, dice, many

TURNS, APART = design(Order.INTERLEAVED), design(Order.ONE_AFTER_OTHER)
DEPTHS = (1, 2, 4, 8, 16, 32)
PLAIN = Terms()
# a disk that 4 outstanding I/Os saturate
DISK = (1683, 3290, 5060, 5060, 5060, 5060)


def sweep(values, spread=(0.99, 1.0, 1.01), depths=DEPTHS):
    """Repeats around each value, in another order at each depth."""
    return freeze_sweep(
        {
            depth: {b: value * spread[(b + n) % len(spread)] for b in range(len(spread))}
            for n, (depth, value) in enumerate(zip(depths, values, strict=True))
        }
    )


def compare(first, second, terms=PLAIN, order=TURNS, latencies=None):
    found = compare_under((first, second), latencies, order, terms)
    return {statement.condition: statement for statement in found}


def disks(count):
    """A stripe of so many such disks: the same latency at one outstanding I/O, so many times the ceiling."""
    return sweep([min(1683 * depth, 5060 * count) for depth in DEPTHS])


@pytest.mark.parametrize(("count", "at_four"), [(1, 1.0), (2, 1.33), (4, 1.33)])
def test_disks_that_are_added_multiply_the_plateau_and_not_the_shallow_points(count, at_four):
    """Peaks of 1, 2 and 4 times are not an average over shallow points."""
    found = compare(disks(1), disks(count), Terms(depth=4))
    saturated, load = found[Condition.SATURATION], found[Condition.LOAD]
    assert saturated.ratio == pytest.approx(count, rel=0.005)
    assert saturated.low < count < saturated.high < 1.03 * count
    assert load.ratio == pytest.approx(at_four, rel=0.01) and load.at == 4


def test_the_load_is_the_deepest_common_one_unless_asked():
    found = compare(disks(1), sweep([1, 2, 4], depths=(2, 4, 64)))
    assert found[Condition.LOAD].at == 4
    absent = compare(disks(1), disks(2), Terms(depth=5))[Condition.LOAD]
    assert (absent.ratio, absent.missing) == (None, Missing.NOT_MEASURED)


def test_the_interval_of_a_load_is_sidaks_over_the_depths():
    first, second = disks(1), sweep(DISK, spread=(0.9, 1.0, 1.1))
    load = compare(first, second, Terms(depth=8))[Condition.LOAD]
    logs = np.log([[[list(dict(cell).values()) for _, cell in one] for one in (first, second)]])
    _, points, _ = compare_pairs(logs, TURNS)
    t = stdtrit(points.df[0, 3], 1 - (1 - 0.95 ** (1 / 6)) / 2)
    assert log(load.high / load.ratio) == pytest.approx(1.1 * t * points.se[0, 3])
    assert load.ratio**2 == pytest.approx(load.low * load.high)


def test_equal_latency_by_hand():
    """2 ms: one disk is there at its ceiling; four are between 32 and 64 outstanding."""
    depths = (1, 4, 8, 16, 32, 64)
    one = sweep([500, 2000, 4000, 4000, 4000, 4000], depths=depths)
    four = sweep([500, 2000, 4000, 8000, 16000, 16000], depths=depths)
    equal = compare(one, four, Terms(seconds=0.003))[Condition.LATENCY]
    assert equal.values == pytest.approx((4000, 16000), rel=0.01)
    assert equal.ratio == pytest.approx(4, rel=0.01) and equal.low < 4 < equal.high
    # between 4 (2 ms) and 8 outstanding (4 ms)
    slow = sweep([500, 2000, 2000, 2000, 2000, 2000], depths=depths)
    found = compare(one, slow, Terms(seconds=0.003))[Condition.LATENCY]
    assert found.ratio == pytest.approx(0.5, rel=0.01)


@pytest.mark.parametrize(
    ("seconds", "missing", "culprits"),
    [(0.0001, Missing.STARTS_ABOVE, (0,)), (0.005, Missing.STAYS_BELOW, (1,))],
)
def test_a_latency_that_one_never_crosses_is_not_told(seconds, missing, culprits):
    found = compare(disks(1), disks(4), Terms(seconds=seconds))[Condition.LATENCY]
    assert (found.ratio, found.low, found.missing) == (None, None, missing)
    assert found.culprits == culprits


def test_the_default_latency_is_the_baselines_at_its_knee():
    found = compare(disks(1), disks(2), Terms(knee=8))[Condition.LATENCY]
    assert found.at == pytest.approx(8 / 5060, rel=0.01)
    start = compare(disks(1), disks(2))[Condition.LATENCY]
    assert start.at == pytest.approx(4 / 5060, rel=0.01)


def test_a_curve_that_still_rises_has_no_plateau():
    rising = sweep([1000 * depth for depth in DEPTHS])
    found = compare(disks(1), rising)[Condition.SATURATION]
    assert (found.ratio, found.missing, found.culprits) == (None, Missing.STILL_RISING, (1,))
    by_knee = compare(disks(1), disks(2), Terms(rising=(0,)))[Condition.SATURATION]
    assert (by_knee.ratio, by_knee.culprits) == (None, (0,))


def test_a_measured_latency_may_be_asked_instead():
    """The p99 of both is ten times their mean, so that 10 x is reached where the mean is x."""
    rates = disks(1), disks(2)
    tails = tuple(
        freeze_sweep({d: {b: 10 * d / value for b, value in cell} for d, cell in one})
        for one in rates
    )
    mean = compare(*rates, Terms(seconds=0.0025))[Condition.LATENCY]
    tail = compare(*rates, Terms(seconds=0.025), latencies=tails)[Condition.LATENCY]
    assert tail.ratio == pytest.approx(mean.ratio, rel=1e-3)
    assert log(tail.high / tail.low) == pytest.approx(log(mean.high / mean.low), rel=0.1)


def test_one_repeat_has_ratios_without_intervals():
    found = compare(*(sweep(values, spread=(1.0,)) for values in (DISK, [2 * v for v in DISK])))
    assert found[Condition.SATURATION].ratio == pytest.approx(2)
    assert {statement.low for statement in found.values()} == {None}


def test_statements_mirror_and_do_not_change():
    one, two = disks(1), sweep([3 * v for v in DISK], spread=(0.9, 1.0, 1.1))
    terms = Terms(seconds=0.002)
    for condition, there in compare(one, two, terms, APART).items():
        back = compare(two, one, terms, APART)[condition]
        if there.ratio is not None:
            assert back.ratio == pytest.approx(1 / there.ratio)
    compare_under.cache_clear()
    assert compare(one, two, terms, APART) == compare(one, two, terms, APART)


def test_the_luck_of_a_build_is_in_every_interval():
    narrow, wide = (compare(disks(1), disks(1), order=order) for order in (TURNS, APART))
    for condition in Condition:
        assert log(wide[condition].high / wide[condition].low) > 2 * 1.8 * 0.05
        assert log(narrow[condition].high / narrow[condition].low) < 0.1


@pytest.mark.slow
@pytest.mark.draws
@pytest.mark.parametrize(
    ("noise", "repeats", "second"),
    [
        (0.05, 3, (6, 1000, 2)),
        (0.02, 3, (6, 1100, 8)),
        (0.10, 5, (12, 1200, 4)),
        (0.15, 3, (6, 1000, 2)),
    ],
)
def test_intervals_cover_what_they_say(noise, repeats, second):
    """Soft corners as in docs/analysis.md; the interval holds the truth in 93 % or more."""
    depths = np.array([1, 2, 4, 8, 16, 32, 64.0])
    truth = np.stack([_soft(depths, *curve) for curve in ((6, 1000, second[2]), second)])
    plateaus = headline._plateau(truth)
    seconds = exp(log(16) - truth[0, 4])
    rates = headline._cross(truth, np.log(depths) - truth, log(seconds))
    true = {
        Condition.SATURATION: plateaus[1] - plateaus[0],
        Condition.LATENCY: rates[1] - rates[0],
    }
    chance, missed, known = (
        dice(f"headline {noise} {repeats}"),
        dict.fromkeys(true, 0),
        dict.fromkeys(true, 0),
    )
    for _ in range(many(700)):
        logs = truth[:, :, None] + noise * chance.normal(size=(2, 7, repeats))
        pair = [
            freeze_sweep(
                {int(d): dict(enumerate(row)) for d, row in zip(depths, np.exp(one), strict=True)}
            )
            for one in logs
        ]
        found = compare(pair[0], pair[1], Terms(seconds=seconds))
        for condition, ratio in true.items():
            statement = found[condition]
            if statement.ratio is not None:
                known[condition] += 1
                missed[condition] += not statement.low <= exp(ratio) <= statement.high
    for condition, count in known.items():
        assert count > many(700) / 2
        assert missed[condition] <= allowed(0.07, count), condition


def _soft(depths, corner, top, sharpness):
    return np.log(top) - np.log1p((depths / corner) ** -sharpness) / sharpness
