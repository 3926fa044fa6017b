# SPDX-License-Identifier: Apache-2.0
"""Factors of a campaign: the overall effect of each level, and pairs of factors that do not simply multiply.

Main effects and interactions of a complete matrix, on logarithms, so an effect is a factor: a level's is its geometric
mean over everything else against that of all; an interaction is the rest for a pair of levels after both main effects
are taken away. Each set-up has the noise of its own runs and blocks, as in verdicts. Reported effects are 5 % or more
and survive Benjamini-Hochberg over all effects of their kind (Box, Hunter, Hunter, Statistics for Experimenters,
chapter 5: contrasts; Satterthwaite: their degrees of freedom).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product
from math import exp, log, prod, sqrt
from typing import TypeVar

import numpy as np
from scipy.special import stdtr, stdtrit

from benchlab.analysis.differences import (
    FALSE_DISCOVERIES,
    LEAST,
    TAU_DF,
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
# of one set-up: its campaign and its repeat, for example
Block = TypeVar("Block", bound=Hashable)


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
    cells: Mapping[Place, Mapping[Block, float]],
    tau: float = 0.0,
    built: int = 1,
) -> Effects | None:
    """`cells`: {a level of each factor: {block: value above 0}}. None where it has gaps, or less than two vary.

    `tau`: of the design, between two builds: it is added to the error of each effect of the first factors, so many as
    are `built` anew, or measured after each other, for each of their levels. Their combinations are the set-ups.
    """
    frozen = tuple((place, tuple(blocks.items())) for place, blocks in sorted(cells.items()))
    return _effects_of_frozen(tuple(factors), frozen, tau, built)


# A page asks for the same ones whenever it is looked at. Few are kept, as each holds every run of a campaign.
@lru_cache(maxsize=64)
def _effects_of_frozen(
    factors: tuple[str, ...],
    frozen: tuple[tuple[Place, tuple[tuple[Hashable, float], ...]], ...],
    tau: float,
    built: int,
) -> Effects | None:
    cells = {place: dict(blocks) for place, blocks in frozen}
    levels = _levels(cells)
    varied = [axis for axis, some in enumerate(levels) if len(some) > 1]
    if len(varied) < 2 or len(cells) != prod(map(len, levels)) or not all(cells.values()):
        return None
    if min(min(blocks.values()) for blocks in cells.values()) <= 0:
        return None
    fit = _fit_matrix(cells, [len(some) for some in levels], built)
    effects_by_order: dict[int, list[Effect]] = {}
    for order in (1, 2):
        contrasts = [
            contrast
            for axes in combinations(varied, order)
            for contrast in _contrasts(fit, axes, tau if axes[0] < built else 0.0)
        ]
        effects_by_order[order] = _effects(contrasts, factors, levels)
    return Effects(tuple(effects_by_order[1]), tuple(effects_by_order[2]))


@dataclass(frozen=True, slots=True)
class _Matrix:
    """The cells' means on logarithms, a dimension for each factor. The others: (set-ups, cells of each) or (set-ups,).

    `variance`: of each cell's mean by its runs, with its set-up's `df`; `by_blocks`: of a set-up's mean beyond that, as
    its blocks show, with `block_df`. `df` is 0 where a set-up has one run each: then no error is known.
    """

    means: Array
    variance: Array
    df: Array
    by_blocks: Array
    block_df: Array


def _fit_matrix(
    cells: Mapping[Place, Mapping[Block, float]], shape: Sequence[int], built: int
) -> _Matrix:
    by_set_up: dict[Place, list[Mapping[Block, float]]] = {}
    for place in sorted(cells):
        by_set_up.setdefault(place[:built], []).append(cells[place])
    fits = [_fit_set_up(some) for some in by_set_up.values()]
    means, variance, df, by_blocks, block_df = (np.array(part) for part in zip(*fits, strict=True))
    return _Matrix(means.reshape(shape), variance, df, by_blocks, block_df)


def _fit_set_up(cells: Sequence[Mapping[Block, float]]) -> tuple[Array, Array, float, float, float]:
    """(means, variances of these, degrees of freedom, variance by blocks beyond, its degrees) of the cells of one."""
    robust = robust_means([list(cell.values()) for cell in cells], ENOUGH_REPEATS)
    df = float((robust.counts - 1).sum())
    noise = max(robust.within / df, LEAST_NOISE**2) if df else 0.0
    variance = noise / robust.counts
    of_runs = float(variance.sum()) / len(cells) ** 2
    rest: dict[Block, list[float]] = {}
    for cell, mean in zip(cells, robust.means, strict=True):
        for block, value in cell.items():
            rest.setdefault(block, []).append(log(value) - float(mean))
    blocks = np.array([sum(values) / len(values) for values in rest.values()])
    count = len(blocks)
    between = float(blocks.var(ddof=1)) / count if count > 1 else 0.0
    of_blocks = (of_runs + (count - 1) * between) / count
    return robust.means, variance, df, max(of_blocks - of_runs, 0.0), float(count)


@dataclass(frozen=True, slots=True)
class _Contrast:
    """An estimated effect. `error`: None if it is unknown."""

    axes: tuple[int, ...]
    index: tuple[int, ...]
    value: float
    error: float | None
    df: float


def _contrasts(fit: _Matrix, axes: tuple[int, ...], tau: float) -> Iterator[_Contrast]:
    """The effect of each level of one axis, or of each pair of levels of two."""
    shape = fit.means.shape
    for index in product(*(range(shape[axis]) for axis in axes)):
        weights = np.ones(())
        at = dict(zip(axes, index, strict=True))
        for axis, size in enumerate(shape):
            own = np.full(size, (-1 if axis in at else 1) / size)
            if axis in at:
                own[at[axis]] += 1
            weights = np.multiply.outer(weights, own)
        by_set_up = weights.reshape(fit.variance.shape)
        parts = np.concatenate(
            [
                (by_set_up**2 * fit.variance).sum(axis=1),
                by_set_up.sum(axis=1) ** 2 * fit.by_blocks,
                [tau**2 / 2],
            ]
        )
        degrees = np.concatenate([fit.df, fit.block_df, [TAU_DF]])
        value = float((weights * fit.means).sum())
        if not fit.df.all():
            yield _Contrast(axes, index, value, None, 0.0)
            continue
        total = float(parts.sum())
        yield _Contrast(
            axes, index, value, sqrt(total), total**2 / float((parts**2 / degrees).sum())
        )


def _effects(
    contrasts: Sequence[_Contrast], factors: Sequence[str], levels: Sequence[Sequence[str]]
) -> list[Effect]:
    p = np.array(
        [
            2 * stdtr(one.df, -abs(one.value) / one.error) if one.error else np.nan
            for one in contrasts
        ]
    )
    significant = discoveries(p) <= FALSE_DISCOVERIES if len(p) else p
    return [
        _effect(
            {factors[axis]: levels[axis][i] for axis, i in zip(one.axes, one.index, strict=True)},
            one.value,
            float(stdtrit(one.df, TWO_SIDED)) * one.error if one.error else None,
            bool(sure) and abs(one.value) >= LEAST,
        )
        for one, sure in zip(contrasts, significant, strict=True)
    ]


def _effect(
    levels: Mapping[str, str], value: float, half: float | None, significant: bool
) -> Effect:
    if half is None:
        return Effect(levels, exp(value), None, None, False)
    return Effect(levels, exp(value), exp(value - half), exp(value + half), significant)
