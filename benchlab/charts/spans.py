"""Which part of a run's time a chart draws, and how finely: who zooms in gets what the whole was too long for. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from benchlab.analysis.series import averages, decimate

PIXELS = 500  # of a panel; more points than twice this in one line cannot be seen
FEWEST, MOST = 100, 2000  # that anybody's screen may ask for


@dataclass(frozen=True, slots=True)
class Span:
    """Seconds since the first sample; `pixels` is a panel's width."""

    start: float = -math.inf
    end: float = math.inf
    pixels: int = PIXELS

    def thinned(
        self, times: Sequence[float], values: Sequence[float]
    ) -> tuple[list[float], list[float]]:
        """The smallest and the largest of each pixel."""
        return decimate(*self._inside(times, values), self.pixels)

    def averaged(
        self, times: Sequence[float], values: Sequence[float]
    ) -> tuple[list[float], list[float]]:
        """Means, for areas that are stacked: all get the same times."""
        return averages(*self._inside(times, values), self.pixels)

    def count(self, times: Sequence[float]) -> int:
        """How many samples there are in it."""
        return len(self._inside(times, times)[0])

    def _inside(
        self, times: Sequence[float], values: Sequence[float]
    ) -> tuple[Sequence[float], Sequence[float]]:
        """With one sample before and one behind: a line goes on to the edge of its panel."""
        first = max(0, bisect_left(times, self.start) - 1)
        last = bisect_right(times, self.end) + 1
        return times[first:last], values[first:last]


WHOLE = Span()
