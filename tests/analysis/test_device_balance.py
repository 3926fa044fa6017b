"""Balance by windows and bytes: the articles' tables, and docs/analysis.md's error rates in simulation."""

from __future__ import annotations

import numpy as np
import pytest

from benchlab.analysis.devices import Spread, balance, balance_samples
from benchlab.testing import profiles

RUNS = 1000 if profiles.profile() == profiles.FULL else 100
SEED = 14
MANY = 1e6  # operations


def simulated(dice, n, k, windows, noise, *, before=True):
    """k of n members do the work; 8 % stray metadata on all; a quarter of the windows pre-write at ten times."""
    level = np.full(n, 0.08 / n)
    level[dice.choice(n, k, replace=False)] += 0.92 / k
    rates = 1e6 * level[:, None] * dice.lognormal(0, noise, (n, windows))
    if before:
        return np.hstack([np.full((n, windows // 4), 1e7 / n), rates])
    return rates


def said(rates, operations=MANY, **more):
    return balance(rates, [1.0] * np.shape(rates)[1], operations, **more)


def test_two_of_article_000s_twelve_disks_do_the_work():
    kilobytes = [28988.0] * 2 + [328.0] * 10
    found = said([[v] for v in kilobytes], averaged=True)
    assert found.spread == Spread.FEW and sorted(found.doers) == [0, 1]
    assert sum(found.shares[i] for i in found.doers) == pytest.approx(0.946, abs=0.001)


def test_article_001s_twelve_disks_are_even():
    assert said([[7480.0]] * 11 + [[7638.3]], averaged=True).spread == Spread.EVEN


def test_nothing_to_say():
    assert said([[0.0, 0.0], [0.0, 0.0]]) is None
    assert said([[1.0, 2.0]]) is None
    assert said([[float("nan")] * 6, [1.0] * 6]) is None


def test_members_in_turn():
    rates = [[float(window % 4 == member) for window in range(40)] for member in range(4)]
    assert said(rates).spread == Spread.IN_TURN
    assert said(rates, operations=40).spread == Spread.EVEN, "one operation a window"


@pytest.mark.parametrize(("n", "k"), [(2, 1), (4, 2), (12, 2)])
@pytest.mark.parametrize("noise", [0.1, 0.3])
def test_k_of_n_is_found(n, k, noise):
    dice = np.random.default_rng(SEED)
    drawn = [simulated(dice, n, k, int(dice.integers(10, 61)), noise) for _ in range(RUNS)]
    found = [said(rates) for rates in drawn]
    right = np.mean([one.spread == Spread.FEW and len(one.doers) == k for one in found])
    print(f"seed {SEED}: {k} of {n}, sd {noise}: right in {right:.1%}")
    assert right >= 0.97


@pytest.mark.parametrize("n", [2, 4, 12])
@pytest.mark.parametrize("noise", [0.1, 0.3])
def test_even_members_are_never_few_and_seldom_uneven(n, noise):
    dice = np.random.default_rng(SEED)
    found = [said(simulated(dice, n, n, 30, noise)).spread for _ in range(RUNS)]
    print(f"seed {SEED}: {n} even, sd {noise}: uneven {found.count(Spread.UNEVEN)} of {RUNS}")
    assert Spread.FEW not in found and Spread.IN_TURN not in found
    assert found.count(Spread.UNEVEN) <= RUNS / 100


def test_few_operations_are_not_called_uneven():
    dice = np.random.default_rng(SEED)
    wrong = old = 0
    for _ in range(RUNS):
        rates = dice.multinomial(5, [1 / 4] * 4, size=30).T.astype(float)
        found = said(rates, operations=150)
        wrong += found.spread != Spread.EVEN
        old += found.variation > 0.15
    print(f"seed {SEED}: 150 operations: wrong {wrong}, by 0.15 alone {old} of {RUNS}")
    assert wrong <= RUNS / 100 < old


@pytest.mark.parametrize("windows", [5, 10, 60])
def test_what_swings_from_window_to_window_is_not_called_uneven(windows):
    """Few windows, and members that differ by 60 % in each: the run's own noise says how much is nothing."""
    dice = np.random.default_rng(SEED)
    found = [said(dice.lognormal(0, 0.6, (4, windows))).spread for _ in range(RUNS)]
    uneven = found.count(Spread.UNEVEN)
    print(f"seed {SEED}: {windows} windows, sd 60 %: uneven {uneven} of {RUNS}")
    assert uneven <= RUNS / 100


def test_one_of_four_that_does_half_as_much_again_is_found():
    dice = np.random.default_rng(SEED)
    level = np.array([1.5, 1, 1, 1])[:, None]
    found = [said(level * dice.lognormal(0, 0.3, (4, 30))).spread for _ in range(RUNS)]
    print(f"seed {SEED}: uneven {found.count(Spread.UNEVEN)} of {RUNS}")
    assert found.count(Spread.UNEVEN) >= 0.9 * RUNS


def test_samples_of_devices():
    """Flushes are no operations that moved bytes: by hand 4 s of 1 KiB are 8 sectors, fewer than 5 a member."""
    few = balance_samples([[1024.0] * 4, [0.0] * 4], [[900.0] * 4, [900.0] * 4], [1.0] * 4)
    assert few is None
    many = balance_samples([[4e6] * 4, [0.0] * 4], [[900.0] * 4, [900.0] * 4], [1.0] * 4)
    assert many.spread == Spread.FEW and many.averaged
    assert balance_samples([[1.0]], [[1.0]], [1.0]) is None and balance_samples([], [], []) is None
