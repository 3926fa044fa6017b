"""Repeats that disagree: found where one is wrong, and seldom where all is noise."""

from __future__ import annotations

from math import inf, log

import numpy as np
import pytest
from scipy.stats import studentized_range

from benchlab.analysis.repeats import (
    QUANTILES,
    REPEATS,
    disagreement_ratios,
    range_quantile,
    robust_means,
)


@pytest.mark.one_in(3)
@pytest.mark.slow
def test_the_table_is_the_studentised_range():
    for freedom, row in enumerate(QUANTILES, 1):
        for repeats, value in zip(REPEATS, row, strict=True):
            exact = studentized_range.ppf(0.999, repeats, freedom)
            assert value == pytest.approx(exact, rel=2e-3)


@pytest.mark.parametrize(
    ("repeats", "freedom", "wanted"), [(2, 6, 8.427), (3, 12, 7.411), (7, 50, 9.352)]
)
def test_quantile_is_careful_between_its_columns(repeats, freedom, wanted):
    assert range_quantile(repeats, freedom) == wanted


def test_by_hand():
    """Others: three cells of (95, 100, 105); noise = sd of ln = 0.0500, 6 degrees of freedom, q = 9.96 for three.

    So what differs begins at exp(9.96 x 0.0500) = 1.65.
    """
    calm = [[95.0, 100.0, 105.0]] * 3
    assert disagreement_ratios([*calm, [100.0, 120.0, 160.0]]) == [None] * 4
    *rest, found = disagreement_ratios([*calm, [100.0, 120.0, 170.0]])
    assert rest == [None] * 3
    assert found == pytest.approx(1.7)


def test_a_large_factor_is_told_whatever_the_others_do():
    assert disagreement_ratios([[100.0, 370.0]]) == [pytest.approx(3.7)]
    assert disagreement_ratios([[0.0, 5.0], [1.0]]) == [inf, None]
    noisy = [[100.0, 190.0, 60.0]] * 4
    assert disagreement_ratios(noisy)[0] == pytest.approx(190 / 60)


@pytest.mark.parametrize(
    "cells", [[], [[5.0]], [[0.0, 0.0]], [[100.0, 150.0]], [[100.0, 109.0], [50.0, 50.0]]]
)
def test_nothing_to_tell(cells):
    assert disagreement_ratios(cells) == [None] * len(cells)


@pytest.mark.parametrize("repeats", [2, 3, 5])
def test_noise_alone_is_seldom_told(repeats):
    """docs/analysis.md: 0.6, 0.4 and 0.1 % of sweeps of seven depths at equal noise."""
    dice = np.random.default_rng(3)
    sweeps = 1000
    told = sum(
        any(disagreement_ratios(np.exp(dice.normal(0, 0.05, (7, repeats))).tolist()))
        for _ in range(sweeps)
    )
    assert told <= 0.015 * sweeps


def test_one_repeat_at_half_is_found():
    dice = np.random.default_rng(4)
    found = 0
    for _ in range(200):
        cells = np.exp(dice.normal(0, 0.03, (7, 3))).tolist()
        cells[2][1] *= 0.5
        found += bool(disagreement_ratios(cells)[2])
    assert found >= 0.93 * 200


def test_a_robust_mean_is_not_drawn_away():
    cells = [[100.0, 101.0, 99.0]] * 6 + [[100.0, 101.0, 50.0]]
    means = robust_means(cells, 3).means
    assert means[0] == pytest.approx(log(100), abs=0.005)
    assert means[-1] == pytest.approx(log(100), abs=0.05)
    plain = robust_means([[100.0], [50.0]], 3)
    assert plain.within == 0 and plain.means[1] == pytest.approx(log(50))


@pytest.mark.parametrize("most", [3, 6, 12])
def test_cells_are_averaged_together_as_each_is_alone(most):
    """The scale is common: it is that of all residuals."""
    dice = np.random.default_rng(most)
    cells = [dice.lognormal(7, 0.05, dice.integers(3, most + 1)).tolist() for _ in range(9)]
    cells[4][1] *= 0.3
    logs = [np.log(cell) for cell in cells]
    means = [np.median(some) for some in logs]
    sizes = np.sort(np.abs(np.concatenate([some - m for some, m in zip(logs, means, strict=True)])))
    limit = 2.5 * 1.4826 * np.median(sizes[len(cells) :])
    for _ in range(12):
        means = [
            m + np.clip(some - m, -limit, limit).mean() for some, m in zip(logs, means, strict=True)
        ]
    assert robust_means(cells, 3).means == pytest.approx(means, rel=1e-14)


@pytest.mark.parametrize(("last", "told"), [(115.0, None), (125.0, 1.25)])
def test_two_repeats_tell_the_noise_too(last, told):
    """Four cells of (99, 101): noise 0.0141, 4 degrees of freedom, q = 12.18 for two, so it begins at 1.19."""
    *rest, found = disagreement_ratios([[99.0, 101.0]] * 4 + [[100.0, last]])
    assert rest == [None] * 4
    assert found == (told and pytest.approx(told))
