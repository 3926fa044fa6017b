# SPDX-License-Identifier: Apache-2.0
"""Balance: which members of a stripe, array or pool do the work, by bytes and by window (docs/analysis.md, section 6).

Bytes and never operations: a flush is a write of nothing that every member gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from benchlab.analysis.buckets import Numbers

Array = NDArray[np.float64]

# share of the bytes that the members at work carry
WORK = 0.90
# share of a window's bytes, share of the windows, number of windows
SAME, OFTEN, LEAST = 0.80, 0.80, 5
# Fewer windows show little of a run's own variation.
MIN_CONCLUSIVE_WINDOWS = 10
# limits of an active window, in multiples of the median window
ACTIVE = (0.1, 4.0)
# largest coefficient of variation of even members
EVEN = 0.15
# operations per member and window, below which chance alone picks few members
EACH = 5
# Share of the bytes that the same disks move the other way: less is stray I/O, of metadata for example.
MATTERS = 0.10
# least B that an operation moves, unless it is a flush
SMALLEST = 512


class Spread(StrEnum):
    # k of n do the work
    FEW = "few"
    EVEN = "even"
    UNEVEN = "uneven"
    # even over the run, few members at a time
    IN_TURN = "in turn"


@dataclass(frozen=True, slots=True)
class Balance:
    """Distribution of the bytes over members.

    `doers`: indexes of the fewest members that carry 90 % of the bytes, the busiest first.
    """

    spread: Spread
    # shares of the bytes, by member
    shares: tuple[float, ...]
    doers: tuple[int, ...]
    variation: float
    windows: int
    # True if it comes from a single report that is itself an average
    averaged: bool

    @property
    def carried(self) -> float:
        """Share of the bytes that the doers carry."""
        return sum(self.shares[index] for index in self.doers)

    @property
    def conclusive(self) -> bool:
        """True if there are enough windows for the conclusion.

        Few windows show that few members do the work, but not how even the members are.
        """
        return self.spread == Spread.FEW or self.windows >= MIN_CONCLUSIVE_WINDOWS


def balance_samples(
    bandwidths: Sequence[Numbers],
    rates: Sequence[Numbers],
    lengths: Numbers,
    beside: Sequence[Numbers] = (),
) -> Balance | None:
    """Balance of the members from samples of their devices.

    `bandwidths`, `rates`: B/s and op/s of each member (rows) in each sample of `lengths` s, as the devices reported
    them; `beside`: B/s that they moved the other way, if known. Fewer samples than the windows needed count as one
    report. None if the other way had ten times as much, if so few operations moved the bytes that chance alone picks
    few members, and where `balance` is None.
    """
    moved = np.asarray(bandwidths, dtype=float) * np.asarray(lengths, dtype=float)
    if moved.ndim != 2 or len(moved) < 2:
        return None
    operation_count = np.nansum(np.asarray(rates, dtype=float) * np.asarray(lengths, dtype=float))
    # flushes moved none of it
    operations = min(float(operation_count), float(np.nansum(moved)) / SMALLEST)
    across = np.asarray(beside, dtype=float)
    if across.size and np.nansum(moved) < MATTERS * np.nansum(across * np.asarray(lengths)):
        return None
    few = moved.shape[1] < LEAST
    if few and operations < EACH * len(moved):
        return None
    return balance(bandwidths, lengths, operations, averaged=few)


def balance(
    rates: Sequence[Numbers],
    lengths: Numbers,
    operations: float,
    *,
    averaged: bool = False,
) -> Balance | None:
    """Balance of the members over the measured windows.

    `rates`: B/s of each member (rows) in each window; `lengths`: s of each window. `operations`: number of those that
    moved these bytes, as chance makes few of them uneven. None without two members or any byte.
    """
    moved = np.asarray(rates, dtype=float) * np.asarray(lengths, dtype=float)
    if moved.ndim != 2 or len(moved) < 2:
        return None
    moved = moved[:, _active(moved)]
    if not moved.size:
        return None
    shares = moved.sum(axis=1) / moved.sum()
    doers = _doers(shares)
    variation = float(shares.std() / shares.mean())
    spread = _classify_spread(moved, doers, variation, operations, averaged)
    return Balance(
        spread, tuple(shares.tolist()), tuple(doers), variation, moved.shape[1], averaged
    )


def _active(moved: Array) -> NDArray[np.bool_]:
    """Windows in which all members are known and about as much was moved as in the others."""
    # NaN where a member is not known
    totals = moved.sum(axis=0)
    positive = totals[totals > 0]
    if not positive.size:
        return np.zeros(totals.shape, dtype=bool)
    low, high = (factor * float(np.median(positive)) for factor in ACTIVE)
    active: NDArray[np.bool_] = (totals >= low) & (totals <= high)
    return active


def _doers(shares: Array) -> list[int]:
    order = np.argsort(-shares, kind="stable")
    k = int(np.searchsorted(np.cumsum(shares[order]), WORK - 1e-9)) + 1
    return [int(member) for member in order[:k]]


def _classify_spread(
    moved: Array, doers: Sequence[int], variation: float, operations: float, averaged: bool
) -> Spread:
    members, windows = moved.shape
    if len(doers) <= members / 2 and (averaged or _lasting(moved, doers)):
        return Spread.FEW
    if variation > max(EVEN, sqrt(chance(members) / max(operations, 1.0)), _swing(moved)):
        return Spread.UNEVEN
    if windows >= LEAST and operations >= EACH * members * windows and _few_at_a_time(moved):
        return Spread.IN_TURN
    return Spread.EVEN


def _swing(moved: Array) -> float:
    """The coefficient of variation that even members may show because each window differs from the others.

    It follows from their variance within the run and how much of it carries over (rho), and is wider if there are few
    windows. 0 for fewer than three, which show nothing.
    """
    members, windows = moved.shape
    if windows < 3:
        return 0.0
    totals = moved.sum(axis=0)
    shares = moved.sum(axis=1, keepdims=True) / totals.sum()
    rest = (moved - shares * totals) / totals.mean()
    squares = float((rest**2).sum())
    if not squares:
        return 0.0
    autocorrelation = float((rest[:, 1:] * rest[:, :-1]).sum()) / squares
    # Few windows make it appear too small.
    rho = min(0.8, max(0.0, autocorrelation + (1 + 3 * autocorrelation) / windows))
    degrees = (members - 1) * (windows - 1)
    mean = squares / (windows - 1) / windows * (1 + rho) / (1 - rho)
    swing: float = sqrt(members * mean * chance(members) / (members - 1)) * (1 + 4 / degrees)
    return swing


def _lasting(moved: Array, doers: Sequence[int]) -> bool:
    share = moved[list(doers)].sum(axis=0) / moved.sum(axis=0)
    return share.size >= LEAST and float(np.mean(share >= SAME)) >= OFTEN


def _few_at_a_time(moved: Array) -> bool:
    falling = -np.sort(-moved / moved.sum(axis=0), axis=0)
    counts = (np.cumsum(falling, axis=0) < WORK - 1e-9).sum(axis=0) + 1
    return float(np.median(counts)) <= len(moved) / 2


def chance(members: int) -> float:
    """chi-squared, 0.999, of so many members, by Wilson and Hilferty (scipy is slow to load): 3 % too high for two."""
    degrees = members - 1
    part = 2 / (9 * degrees)
    return float(degrees * (1 - part + 3.0902 * sqrt(part)) ** 3)
