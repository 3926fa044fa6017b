"""The knee against what people published, against what ANALYSIS.md computed of it, and against simulated truth."""

from __future__ import annotations

import numpy as np
import pytest

from benchlab.analysis import knees
from benchlab.analysis.knees import NONE, chances_of, knee

DEPTHS = (1, 2, 4, 8, 16)
# Article 002 of the project's seeds: a cloud's SSD and HDD, one run each.
SSD = [1683.0, 3327.0, 5095.0, 5101.0, 5099.0]
HDD = [463.0, 633.0, 749.0, 789.0, 833.0]
SEED = 12


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
        {depth: [value] for depth, value in zip(DEPTHS, SSD, strict=True)},  # one repeat
        {1: [100.0, 101.0, 99.0], 16: [110.0, 111.0, 109.0]},  # two points
        thrice(SSD) | {16: [5099.0, 5100.0]},
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


def curve_of(kind, dice):
    """A hard corner, a soft one, and what is none of the library's: a closed network of m disks, solved exactly."""
    depths = 2.0 ** np.arange(7)
    corner = 2 ** dice.uniform(-0.5, 7)
    if kind == "hard":
        return np.minimum(depths / corner, 1)
    if kind == "soft":
        soft = dice.uniform(1.5, 4)
        return depths / corner / (1 + (depths / corner) ** soft) ** (1 / soft)
    disks, think = int(dice.integers(1, 9)), dice.uniform(0, 1)
    queue, rates = np.zeros(disks), {}
    for jobs in range(1, 65):
        time = (1 + queue) / disks
        rates[jobs] = jobs / (think + time.sum())
        queue = rates[jobs] * time
    return np.array([rates[int(depth)] for depth in depths])


def measured(truth, noise, dice):
    """Three randomised blocks with drift, autocorrelated noise and 2 % of runs at half."""
    cells: dict[int, list[float]] = {2**n: [] for n in range(7)}
    drift, carried = dice.uniform(-0.1, 0.1), dice.normal()
    for number, index in enumerate(np.concatenate([dice.permutation(7) for _ in range(3)])):
        carried = 0.6 * carried + 0.8 * dice.normal()
        off = noise * (0.866 * dice.normal() + 0.5 * carried) + drift * number / 20
        off += np.log(0.5) if dice.random() < 0.02 else 0
        cells[2 ** int(index)].append(float(truth[index] * np.exp(off)))
    return cells


@pytest.mark.parametrize(("noise", "least"), [(0.03, 0.97), (0.05, 0.97), (0.10, 0.95)])
def test_knees_that_are_claimed_are_true_within_one_step(noise, least):
    """ANALYSIS.md: 99.7, 99.2, 97.8 % of those that are claimed; what is wrong is a knee at the end, where none is."""
    print("seed", SEED)
    dice = np.random.default_rng(SEED)
    steps = np.arange(7.0)
    right = claimed = 0
    left = dict.fromkeys((NONE, 1, 2, 3, 4, 5), 40)  # curves of each, as many as of the others
    curves = sum(left.values())
    while any(left.values()):
        truth = curve_of(("hard", "soft", "network")[int(dice.integers(3))], dice)
        label = int(knees._labels(np.log(truth)[None, :], steps)[0])
        if not left.get(label):
            continue
        left[label] -= 1
        found = knee(measured(truth, noise, dice))
        said = NONE if found.beyond and found.low is None else found.at and int(np.log2(found.at))
        if said is not None or found.flat:
            claimed += 1
            right += said == label or (
                label != NONE and said != NONE and abs((said or 0) - label) <= 1
            )
    print(noise, "claimed", claimed, "right", right, "of", curves)
    assert right >= least * claimed
    assert claimed >= 0.75 * curves
