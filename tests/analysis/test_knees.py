"""The knee against what people published, against what docs/analysis.md computed of it, and against simulated truth."""

from __future__ import annotations

import numpy as np
import pytest

from benchlab.analysis import knees
from benchlab.analysis.knees import NONE, chances_of, knee
from benchlab.testing.profiles import CI, profile
from tests.analysis import noise_of_curves
from tests.analysis.noise_of_curves import allowed, many, measured, truths

CURVES, SDS = (1000, 2) if profile() == CI else (many(1000), 3)  # by day, and what chance may add
DEPTHS = (1, 2, 4, 8, 16)
# Article 002 of the project's seeds: a cloud's SSD and HDD, one run each.
SSD = [1683.0, 3327.0, 5095.0, 5101.0, 5099.0]
HDD = [463.0, 633.0, 749.0, 789.0, 833.0]


def thrice(values, noise=0.01, depths=DEPTHS):
    return {
        depth: [value * (1 - noise), value, value * (1 + noise)]
        for depth, value in zip(depths, values, strict=True)
    }


@pytest.mark.parametrize(
    ("values", "wanted"), [(SSD, {4: 0.80, 8: 0.20}), (HDD, {4: 0.22, 8: 0.77})]
)
def test_chances_are_those_of_the_recipe(values, wanted):
    found = chances_of(DEPTHS, [[value] for value in values])
    shown = {DEPTHS[label]: p for label, p in found.items() if label != NONE}
    assert {depth: round(shown[depth], 2) for depth in wanted} == wanted
    assert sum(found.values()) == pytest.approx(1)


def test_the_articles_knee_with_repeats():
    found = knee(thrice(SSD))
    assert (found.at, found.flat, found.beyond) == (4, False, False)
    assert found.low <= 4 <= found.high <= 8


@pytest.mark.parametrize(
    "cells",
    [
        {1: [100.0, 101.0, 99.0], 16: [110.0, 111.0, 109.0]},  # two points
        thrice(SSD) | {16: []},
        thrice([0.0, 1.0, 2.0, 2.0, 2.0]),
        {},
    ],
)
def test_too_little_for_a_knee(cells):
    assert knee(cells) is None


def test_a_sweep_that_still_gains_has_none():
    found = knee(thrice([100.0, 199.0, 390.0, 770.0, 1500.0]))
    assert (found.at, found.low, found.beyond) == (None, None, True)


def test_a_flat_sweep_has_no_corner():
    found = knee(thrice([100.0, 101.0, 100.0, 101.0, 100.0]))
    assert (found.at, found.flat) == (None, True)


def test_no_knee_where_the_repeats_hide_the_rise():
    """Repeats at 4 that are as low as those at 1: medians rise and flatten, but nothing is to be seen."""
    wild = {
        depth: [value * k for k in (0.4, 1.0, 2.2)]
        for depth, value in zip(DEPTHS, SSD, strict=True)
    }
    found = knee(wild)
    assert found.at is None and found.low != found.high


def test_one_bad_run_moves_no_knee():
    cells = thrice(SSD)
    cells[8][0] /= 2
    assert knee(cells).at == 4


@pytest.mark.draws
@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("repeats", "noise"), [(3, 0.03), (3, 0.05), (3, 0.10), (1, 0.03), (1, 0.10)]
)
def test_knees_that_are_claimed_are_true_within_one_step(repeats, noise):
    """97 % of those claimed with three repeats, and 80 % of curves get an answer; one repeat is never drawn."""
    dice = noise_of_curves.dice(f"knees {repeats} {noise}")
    right = claimed = curves = 0
    for truth in truths(CURVES, dice):
        cells = dict(
            zip(noise_of_curves.DEPTHS, measured(truth.iops, noise, repeats, dice), strict=True)
        )
        said = answered(knee(cells))
        curves += 1
        claimed += said is not None
        right += said is not None and near(said, truth.label)
    print(f"{noise:.0%}, {repeats} repeats: claimed {claimed}, right {right} of {curves}")
    wrong, most = (0.03, 0.20) if repeats == 3 else (0.05, 0.30)
    assert claimed - right <= allowed(wrong, claimed, SDS)
    assert curves - claimed <= allowed(most, curves, SDS)


@pytest.mark.parametrize("name", noise_of_curves.PUBLISHED)
def test_published_curves_bend_at_16(name):
    """One run each, as published; then three repeats with 1 % of noise."""
    curve, dice = noise_of_curves.PUBLISHED[name], np.random.default_rng(11)
    for repeats in (1, 3):
        cells = {
            depth: list(value * np.exp(dice.normal(0, 0.01 * (repeats > 1), repeats)))
            for depth, value in zip(noise_of_curves.DEPTHS, curve, strict=True)
        }
        assert answered(knee(cells)) == 4, repeats


@pytest.mark.draws
@pytest.mark.parametrize("noise", [0.01, 0.03])
def test_a_dip_below_the_knee_moves_no_knee(noise):
    """docs/analysis.md: 98 and 100 % right within one step, 82 % by the shapes alone. No cap contradicts a knee."""
    dice = noise_of_curves.dice(f"dips {noise}")
    right = claimed = 0
    for smooth in truths(many(700), dice):
        truth = noise_of_curves.with_dip(smooth, dice)
        repeats = measured(truth.iops, noise, 3, dice)
        cells = dict(zip(noise_of_curves.DEPTHS, repeats, strict=True))
        found, limit = knee(cells), knees.cap(cells)
        said = answered(found)
        claimed += said is not None
        right += said is not None and near(said, truth.label)
        assert limit is None or (found.high <= limit.low and not found.beyond)
    print(f"noise {noise:.0%}: right {right} of {claimed} claimed")
    assert claimed - right <= allowed(0.05, claimed)


def test_only_a_large_misfit_is_irregular():
    depths = noise_of_curves.DEPTHS
    dented = knee(thrice(noise_of_curves.PUBLISHED["Intel S4610, test 1"], 0.01, depths))
    assert dented.irregular and dented.misfit == pytest.approx(0.22, abs=0.02)
    cornered = knee(thrice(noise_of_curves.PUBLISHED["Samsung 860 Pro, cache off"], 0.01, depths))
    assert 0 < cornered.misfit < 0.1 and not cornered.irregular
    assert knee(thrice(SSD)).misfit == 0


def test_a_depth_that_was_not_reached_bounds_no_knee():
    """IOPS stand still from 4 on, and so does latency: that is no cap."""
    cells = {depth: [value] for depth, value in zip(DEPTHS, SSD, strict=True)}
    assert knee(cells).high == 4
    assert knee(cells, {depth: [3.1e-3] for depth in DEPTHS}).high == 8


def answered(found):
    """Index of the depth, 0 for flat, NONE for none; None where it is uncertain."""
    if found.flat:
        return 0
    if found.beyond and found.low is None:
        return NONE
    return None if found.at is None else noise_of_curves.DEPTHS.index(found.at)


def near(said, label):
    return said == label if NONE in (said, label) else abs(said - label) <= 1


@pytest.mark.parametrize(("values", "at"), [(SSD, 4), (HDD, 8)])
def test_one_repeat_says_and_does_not_draw(values, at):
    """Article 002: four workers, so 16 and 32 were in flight."""
    found = knee({depth: [value] for depth, value in zip(DEPTHS, values, strict=True)})
    assert (found.at, found.drawn, found.flat) == (at, False, False)
    assert found.low <= at <= found.high


@pytest.mark.draws
def test_labels_are_those_of_the_definition():
    """The library's labels against the simulation's own, which are written without it."""
    dice = noise_of_curves.dice("labels")
    curves = [truth.iops for truth in truths(70, dice)]
    found = knees.labels_of(np.log(curves), np.arange(7.0))
    assert found.tolist() == [noise_of_curves.label_of(iops) for iops in curves]
    assert set(found) == set(noise_of_curves.LABELS)


def test_the_library_is_made_once_for_each_set_of_depths():
    assert knees.library(DEPTHS) is knees.library(DEPTHS)
    assert len(knees.library(noise_of_curves.DEPTHS).curves) == 9720
