# SPDX-License-Identifier: Apache-2.0
"""Factors of a campaign: the overall effect of each level, and pairs of factors that do not simply multiply.

Main effects and interactions of a complete matrix, on logarithms, so an effect is a factor: a level's is its geometric
mean over everything else against that of all; an interaction is the rest for a pair of levels after both main effects
are taken away. The noise is that of the repeats. Reported effects are 5 % or more and survive Benjamini-Hochberg over
all effects of their kind (the textbook's analysis of variance; Box, Hunter, Hunter, Statistics for Experimenters,
chapter 5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import exp, prod, sqrt

import numpy as np
from scipy.special import stdtr, stdtrit

from benchlab.analysis.differences import (
    FALSE_DISCOVERIES,
    LEAST,
    TWO_SIDED,
    discoveries,
)
from benchlab.analysis.fits import LEAST_NOISE, Array
from benchlab.analysis.repeats import robust_means

# repeats that robust means need
ENOUGH_REPEATS = 3


@dataclass(frozen=True, slots=True)
class Effect:
    """Effect of one level (main effect) or of a pair (interaction). `levels`: {factor: level}, one or two.

    `ratio`: against all, with its 95 % interval. `significant`: 5 % or more, and not by the luck of many comparisons.
    """

    levels: Mapping[str, str]
    ratio: float
    low: float | None
    high: float | None
    significant: bool


@dataclass(frozen=True, slots=True)
class Effects:
    main: tuple[Effect, ...]
    interactions: tuple[Effect, ...]


# one level for each factor
Place = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gap:
    """A level that had to be left out. `factor`: its index.

    `lacks`: {index of another factor: its levels that it has no cell with}; `cell`: a missing one, of `missing` among
    `total`.
    """

    factor: int
    level: str
    lacks: Mapping[int, tuple[str, ...]]
    cell: Place
    missing: int
    total: int


def complete_submatrix(places: Collection[Place]) -> tuple[set[Place], tuple[Gap, ...]]:
    """A part of a matrix that has no gaps, and what was left out for that, in this order.

    As long as cells are missing, the level with the largest share of missing cells is left out; among equals the one
    that costs the fewest cells, then the one of the later factor. It need not be the largest such part, but one can
    follow it.
    """
    remaining, gaps = set(places), []
    while remaining:
        levels = _levels(remaining)
        whole = prod(map(len, levels))
        if len(remaining) == whole:
            break
        counts = [Counter(place[axis] for place in remaining) for axis in range(len(levels))]
        _, _, axis, level = max(
            (1 - have * len(some) / whole, -have, axis, level)
            for axis, (some, count) in enumerate(zip(levels, counts, strict=True))
            for level, have in count.items()
            if len(some) > 1
        )
        gaps.append(_gap(remaining, levels, axis, level))
        remaining = {place for place in remaining if place[axis] != level}
    return remaining, tuple(gaps)


def _levels(places: Collection[Place]) -> list[list[str]]:
    return [sorted(set(some)) for some in zip(*places, strict=True)]


def _gap(places: set[Place], levels: Sequence[Sequence[str]], axis: int, level: str) -> Gap:
    own = {place for place in places if place[axis] == level}
    has = _levels(own)
    lacks = {
        n: tuple(sorted(set(some) - set(has[n]))) for n, some in enumerate(levels) if n != axis
    }
    total = prod(map(len, levels)) // len(levels[axis])
    every = product(*(some if n != axis else [level] for n, some in enumerate(levels)))
    cell = next(place for place in every if place not in own)
    return Gap(
        axis, level, {n: some for n, some in lacks.items() if some}, cell, total - len(own), total
    )


def factor_effects(
    factors: Sequence[str],
    cells: Mapping[Place, Sequence[float]],
    tau: float = 0.0,
    built: int = 1,
) -> Effects | None:
    """`cells`: {a level of each factor: repeats, above 0}. None where it has gaps, or less than two vary.

    `tau`: of the design, between two builds: it is added to the error of each effect of the first factors, so many as
    are `built` anew, or measured after each other, for each of their levels.
    """
    levels = _levels(cells)
    varied = [axis for axis, some in enumerate(levels) if len(some) > 1]
    if len(varied) < 2 or len(cells) != prod(map(len, levels)) or not all(cells.values()):
        return None
    if min(min(values) for values in cells.values()) <= 0:
        return None
    keys = sorted(cells)
    robust = robust_means([cells[key] for key in keys], ENOUGH_REPEATS)
    grid = robust.means.reshape([len(some) for some in levels])
    df = float((robust.counts - 1).sum())
    noise = max(sqrt(robust.within / df), LEAST_NOISE) if df else None
    each = (noise**2 * float((1 / robust.counts).mean())) if noise else None
    effects_by_order: dict[int, list[Effect]] = {}
    for order in (1, 2):
        rows = [
            (axes, index, value, size)
            for axes in combinations(varied, order)
            for index, value, size in _level_effects(grid, axes)
        ]
        luck = [tau**2 / 2 if axes[0] < built else 0.0 for axes, *_ in rows]
        effects_by_order[order] = _effects(rows, factors, levels, each, df, luck)
    return Effects(tuple(effects_by_order[1]), tuple(effects_by_order[2]))


def _level_effects(
    grid: Array, axes: tuple[int, ...]
) -> list[tuple[tuple[int, ...], float, float]]:
    """(index, effect, its variance in units of a cell's) of each level of one axis, or pair of levels of two."""
    others = tuple(axis for axis in range(grid.ndim) if axis not in axes)
    table = grid.mean(axis=others) if others else grid
    table = table - table.mean()
    share = 1.0
    for axis in range(table.ndim):
        if table.ndim > 1:
            table = table - table.mean(axis=axis, keepdims=True)
        share *= 1 - 1 / table.shape[axis]
    variance = share * table.size / grid.size
    return [(index, float(value), variance) for index, value in np.ndenumerate(table)]


def _effects(
    rows: Sequence[tuple[tuple[int, ...], tuple[int, ...], float, float]],
    factors: Sequence[str],
    levels: Sequence[Sequence[str]],
    each: float | None,
    df: float,
    luck: Sequence[float],
) -> list[Effect]:
    """`luck`: the variance that builds add to each."""
    errors = [
        sqrt(size * each + more) if each else None
        for (_, _, _, size), more in zip(rows, luck, strict=True)
    ]
    p = np.array(
        [
            2 * stdtr(df, -abs(row[2]) / error) if error else np.nan
            for row, error in zip(rows, errors, strict=True)
        ]
    )
    significant = discoveries(p) <= FALSE_DISCOVERIES if len(p) else p
    return [
        _effect(
            {factors[axis]: levels[axis][i] for axis, i in zip(axes, index, strict=True)},
            value,
            float(stdtrit(df, TWO_SIDED)) * error if error else None,
            bool(sure) and abs(value) >= LEAST,
        )
        for (axes, index, value, _), error, sure in zip(rows, errors, significant, strict=True)
    ]


def _effect(
    levels: Mapping[str, str], value: float, half: float | None, significant: bool
) -> Effect:
    if half is None:
        return Effect(levels, exp(value), None, None, False)
    return Effect(levels, exp(value), exp(value - half), exp(value + half), significant)
