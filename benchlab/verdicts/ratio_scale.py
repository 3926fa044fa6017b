# SPDX-License-Identifier: Apache-2.0
"""Ratios with their intervals on one logarithmic scale, as coordinates in an SVG.

Pure: the texts go into attributes in a template.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import log

from benchlab.analysis.verdicts import Verdict

# width of the drawing, in its own units
WIDTH = 240
MIN_X, MAX_X = 12, 228
# least distance between the middles of two labels
APART = 34
# An interval beyond this is useless, and would leave no room for the others.
MOST = 1000.0
# margin at each end, as a share of the range shown
ROOM = 0.06
# A scale is never shorter, so that a difference of 1 % looks small.
NARROW = log(1.25)
# Values that labels may have, times a power of ten; the first is for the widest scale.
STEPS = (
    (0.01, 1.0, 100.0),
    (1.0,),
    (1.0, 3.0),
    (1.0, 2.0, 5.0),
    (1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0, 8.0, 9.0),
    tuple(n / 10 for n in range(10, 20)) + tuple(n / 2 for n in range(4, 20)),
)


@dataclass(frozen=True, slots=True)
class Tick:
    at: str
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """Paths of one ratio. `bar`: from 1 to the ratio; `span`: over the interval, empty if none is known."""

    at: str
    bar: str
    span: str


@dataclass(frozen=True, slots=True)
class Scale:
    """Scale from `least` to `most`, in natural logarithms of ratios."""

    least: float
    most: float

    @classmethod
    def spanning(cls, verdicts: Iterable[Verdict]) -> Scale:
        """Return a scale that holds 1, all ratios and their intervals."""
        ends = [0.0]
        for verdict in verdicts:
            ends += [
                _ln(value)
                for value in (verdict.ratio, verdict.low, verdict.high)
                if value is not None
            ]
        least, most = min(ends), max(ends)
        if most - least < NARROW:
            middle = (least + most) / 2
            least, most = middle - NARROW / 2, middle + NARROW / 2
        room = ROOM * (most - least)
        return cls(least - room, most + room)

    @property
    def unity(self) -> str:
        """Coordinate of ratio 1, where both are equal."""
        return self._coordinate(0.0)

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """Ticks at 1 and at as many other ratios as have room."""
        return max((self._ticks(steps) for steps in STEPS), key=len)

    def place_verdict(self, verdict: Verdict) -> Mark:
        at = self._coordinate(_ln(verdict.ratio))
        span = ""
        if verdict.low is not None and verdict.high is not None:
            span = f"M{self._coordinate(_ln(verdict.low))} 0H{self._coordinate(_ln(verdict.high))}"
        return Mark(at, f"M{self.unity} 0H{at}", span)

    def _ticks(self, steps: Iterable[float]) -> tuple[Tick, ...]:
        """Ticks at these steps; none if two labels would touch."""
        powers = (10.0**power for power in range(-3, 4)) if min(steps) == 1 else (1.0,)
        values = sorted({round(step * power, 6) for power in powers for step in steps})
        visible = [value for value in values if self.least <= log(value) <= self.most]
        places = [self._x(log(value)) for value in visible]
        if any(b - a < APART for a, b in pairwise(places)):
            return ()
        return tuple(Tick(self._coordinate(log(value)), f"{value:g}×") for value in visible)

    def _x(self, ln: float) -> float:
        return MIN_X + (ln - self.least) / (self.most - self.least) * (MAX_X - MIN_X)

    def _coordinate(self, ln: float) -> str:
        return f"{self._x(ln):.1f}"


def _ln(ratio: float) -> float:
    """Natural logarithm of a ratio that may be 0 or infinite."""
    return log(min(max(ratio, 1 / MOST), MOST))
