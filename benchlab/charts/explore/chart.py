# SPDX-License-Identifier: Apache-2.0
"""Chart of Explore: lines that are shown, their looks and their axes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from benchlab.charts.explore import factors
from benchlab.charts.explore.factors import Level
from benchlab.charts.explore.lines import Line, Point, Quantity, point_factors
from benchlab.charts.explore.query import Axes
from benchlab.charts.palette import Style


@dataclass(frozen=True, slots=True)
class ExploreChart:
    """Content of a chart: `lines` are shown; `x`, `y`, `colour` are None where the axis is a factor (or nothing)."""

    title: str
    axes: Axes
    lines: Sequence[Line]
    styles: Mapping[str, Style]
    x: Quantity | None
    y: Quantity | None
    colour: Quantity | None = None
    logs: tuple[bool, bool] = (False, False)
    # label of the line that y is a ratio to
    baseline: str = ""
    # of the same lines, over the same x: another metric
    beside: ExploreChart | None = None
    # of the other metric's chart, if it is one of two
    around: Sequence[Line] = ()

    @property
    def point_factors(self) -> tuple[str, ...]:
        return point_factors(self.axes)

    @property
    def axis_titles(self) -> tuple[str, str]:
        """Names of the axes, x and y."""
        x, y = (
            quantity.word if quantity else factors.factor_word(name)
            for quantity, name in ((self.x, self.axes.x), (self.y, self.axes.y))
        )
        return x, y

    @property
    def heading(self) -> str:
        x, y = self.axis_titles
        over = "against" if self.x and self.y else "over"
        if self.colour and not self.x and not self.y:
            return f"{self.colour.word} by {factors.lower_first(x)} and {factors.lower_first(y)}"
        ratio_text = f", as a ratio to {self.baseline}" if self.baseline else ""
        if self.beside:
            y = f"{y} and {factors.lower_first(self.beside.axis_titles[1])}"
        return f"{y} {over} {factors.lower_first(x)}{ratio_text}"

    @property
    def all_lines(self) -> list[Line]:
        """Its lines and those that the other metric alone has, which are empty here."""
        own = {line.id for line in self.lines}
        more = (line for line in self.around if line.id not in own)
        return [*self.lines, *(replace(line, points=()) for line in more)]

    def point_level(self, name: str, point: Point) -> Level:
        return point.at[self.point_factors.index(name)]

    def levels(self, name: str) -> list[Level]:
        """Every value that points are at, those of the other metric, too, in order."""
        every = (*self.lines, *self.around)
        levels = {self.point_level(name, point) for line in every for point in line.points}
        return sorted(levels, key=lambda level: level.sort_key)
