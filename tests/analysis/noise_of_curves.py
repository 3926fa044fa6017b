"""Simulated response curves whose truth is known, measured with the noise of docs/analysis.md: drift, bursts, bad runs.

Shapes: hard and soft corners, closed networks of m equal disks solved exactly, and the universal scalability law, whose
throughput falls past its peak. None of them but the first two is in the library of benchlab.analysis.knees.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchlab.testing import profiles

Array = NDArray[np.float64]
Dice = np.random.Generator

DEPTHS = tuple(2**n for n in range(7))
NONE = -1  # the label of a truth that still gains at the last depth
LABELS = (NONE, 0, 1, 2, 3, 4, 5)
SMALL = np.log(1.05)  # gain of a doubling below which the knee is passed
# IOPS at DEPTHS of six published sweeps, 4 KiB, one job, by fio-plot's author (github.com/louwrentius/fio-plot): random
# writes with the write cache off, then random reads. 32 gains less than 2.5 % over 16 in each.
PUBLISHED = {
    "Samsung 860 Pro, cache off": (473, 931, 1843, 3406, 5656, 5676, 5682),
    "Intel S4610, test 1": (13722, 27291, 22242, 52448, 69512, 69656, 69511),
    "Intel S4610, test 2": (7800, 13130, 16216, 25484, 38483, 38816, 38774),
    "Intel S4610, test 3": (12520, 18861, 22470, 43631, 63902, 64448, 64432),
    "Samsung 860 Pro, test 1": (13277, 28426, 25475, 53549, 67727, 67755, 67752),
    "Samsung 860 Pro, test 2": (10032, 14116, 19505, 35828, 56918, 57288, 57613),
}
SHAPES = ("hard", "soft", "network", "usl")


@dataclass(frozen=True, slots=True)
class Truth:
    """A curve without noise: `iops` at DEPTHS, `label` the index of its knee or NONE."""

    iops: Array
    label: int

    @property
    def fall(self) -> float:
        """ln of its peak over its last point."""
        return float(np.log(self.iops.max() / self.iops[-1]))


def truths(count: int, dice: Dice) -> Iterator[Truth]:
    """`count` curves of every label alike: flat, a knee at each inner depth, none."""
    left = {label: len(range(n, count, len(LABELS))) for n, label in enumerate(LABELS)}
    while any(left.values()):
        iops = _shape(SHAPES[int(dice.integers(len(SHAPES)))], dice)
        label = label_of(iops)
        if left.get(label):
            left[label] -= 1
            yield Truth(iops, label)


def with_dip(truth: Truth, dice: Dice) -> Truth:
    """The curve with its second or third point 14 to 30 % lower, as stripes and read-ahead make it."""
    iops = truth.iops.copy()
    iops[int(dice.integers(1, 3))] *= np.exp(dice.uniform(-0.35, -0.15))
    return Truth(iops, label_of(iops))


def label_of(iops: Array) -> int:
    """By the definition, and by no code of ours: the first depth behind which every doubling gains less than 5 %."""
    gains = np.diff(np.log(iops))
    large = np.flatnonzero(gains >= SMALL)
    first = int(large[-1]) + 1 if large.size else 0
    return NONE if first == len(iops) - 1 else first


def _shape(kind: str, dice: Dice) -> Array:
    depths = np.array(DEPTHS, dtype=float)
    corner = 2 ** dice.uniform(-0.5, 7)
    if kind == "hard":
        return np.minimum(depths / corner, 1)
    if kind == "soft":
        soft = dice.uniform(1.5, 4)
        return depths / corner / (1 + (depths / corner) ** soft) ** (1 / soft)
    if kind == "usl":
        contention, coherence = dice.uniform(0, 0.5), 10 ** dice.uniform(-5, -2)
        return depths / (1 + contention * (depths - 1) + coherence * depths * (depths - 1))
    return _network(int(dice.integers(1, 33)), dice.uniform(0, 1))


def _network(disks: int, think: float) -> Array:
    """Mean value analysis of a closed network of equal disks, a request of a second each."""
    queue, rates = 0.0, []
    for jobs in range(1, DEPTHS[-1] + 1):
        time = 1 + queue
        rates.append(jobs / (think + time))
        queue = rates[-1] * time / disks
    return np.array([rates[depth - 1] for depth in DEPTHS])


def measured(truth: Array, noise: float, repeats: int, dice: Dice) -> list[list[float]]:
    """A cell of repeats for each depth, run in randomised blocks."""
    depths = len(truth)
    order = np.concatenate([dice.permutation(depths) for _ in range(repeats)])
    tilt = np.linspace(0, 1, depths) * dice.uniform(-1, 1) * np.log(1.6)
    found = np.log(truth[order]) + noise * np.exp(tilt[order]) * _carried(len(order), dice)
    found += _over_time(len(order), dice)
    cells: list[list[float]] = [[] for _ in truth]
    for index, value in zip(order, np.exp(found), strict=True):
        cells[index].append(float(value))
    return cells


def _carried(runs: int, dice: Dice) -> Array:
    """Of variance 1, a quarter of it autocorrelated: 0.6 between consecutive runs."""
    carried = np.empty(runs)
    carried[0] = dice.normal()
    for run in range(1, runs):
        carried[run] = 0.6 * carried[run - 1] + 0.8 * dice.normal()
    return np.sqrt(0.75) * dice.normal(size=runs) + np.sqrt(0.25) * carried


def _over_time(runs: int, dice: Dice) -> Array:
    """Drift up to +-10 % and a wave up to 5 %; 2 % of runs at half; in 15 % of campaigns bursts at 0.7."""
    at = np.linspace(0, 1, runs)
    wave = dice.uniform(0, 0.05) * np.sin(2 * np.pi * (dice.uniform(0.5, 2) * at + dice.random()))
    found = dice.uniform(-0.1, 0.1) * (at - 0.5) + wave
    found += np.log(0.5) * (dice.random(runs) < 0.02)
    if dice.random() < 0.15:
        found += np.log(0.7) * _bursts(runs, dice)
    return np.asarray(found)


def _bursts(runs: int, dice: Dice) -> NDArray[np.bool_]:
    """9 % of the time, three runs long on average."""
    inside, found = dice.random() < 0.09, []
    for _ in range(runs):
        inside = dice.random() < (2 / 3 if inside else 0.033)
        found.append(inside)
    return np.array(found)


def dice(what: str) -> Dice:
    """Of this run's seed, which is printed; `what` names the simulation, so that each draws what no other does."""
    print("simulation", what, "of seed", profiles.seed())
    return np.random.default_rng([profiles.seed(), *what.encode()])


def many(night: int) -> int:
    """Number of curves or histories that are simulated: by day a seventh of what `full` takes."""
    return night if profiles.profile() == profiles.FULL else max(1, night // 7)


def allowed(share: float, of: int, sds: int = 3) -> float:
    """Number of so many that may err: the share, and what chance may add to it: 1 sd in `full`, so many by day."""
    sds = 1 if profiles.profile() == profiles.FULL else sds
    return float(share * of + sds * np.sqrt(of * share * (1 - share)))
