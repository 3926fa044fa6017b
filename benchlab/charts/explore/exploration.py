# SPDX-License-Identifier: Apache-2.0
"""Data that an address asks Explore for: its chart, its lines with their styles, and the axes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from benchlab.charts.explore import factors, lines
from benchlab.charts.explore.factors import BESIDE, Axes, ExploreQuery, Level
from benchlab.charts.explore.lines import Line, Point, Quantity, point_factors
from benchlab.charts.palette import Place, Style, assign_styles, rank_values
from benchlab.charts.queries import (
    Group,
    Person,
    Sample,
    fill_values,
    measured_units,
    read_groups,
)
from benchlab.results.query_language import QueryError


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
        """Its lines, and the lines that only the other metric has, which are empty here."""
        own = {line.id for line in self.lines}
        more = (line for line in self.around if line.id not in own)
        return [*self.lines, *(replace(line, points=()) for line in more)]

    def point_level(self, name: str, point: Point) -> Level:
        return point.at[self.point_factors.index(name)]

    def levels(self, name: str) -> list[Level]:
        """Return every value of its points and of the other metric's, in order."""
        every = (*self.lines, *self.around)
        levels = {self.point_level(name, point) for line in every for point in line.points}
        return sorted(levels, key=lambda level: level.sort_key)


# Keys that rise as they were made, the order of their looks on all other pages
CREATION_ORDERED = ("topology", "host")


def explore_styles(
    lines: Sequence[Line], axes: Axes, seats: Mapping[str, Mapping[Any, int]] | None = None
) -> dict[str, Style]:
    """{line: its look}, of all lines that there are: who hides some, changes no other.

    `seats`: {factor: {key: place}} of what keeps the look that it has elsewhere.
    """
    places = {
        name: (seats or {}).get(name) or _factor_places(lines, name)
        for name in (axes.colour, axes.dash, axes.marker)
    }

    def place(line: Line, name: str) -> int:
        return places[name].get(line.levels[name].key, 0) if name in line.levels else 0

    looks = assign_styles(
        [
            Place(
                place(line, axes.colour),
                place(line, axes.dash),
                place(line, axes.marker) if places[axes.marker] else -1,
            )
            for line in lines
        ]
    )
    return {line.id: look for line, look in zip(lines, looks, strict=True)}


def _factor_places(lines: Sequence[Line], name: str) -> dict[Any, int]:
    """Return {key of a value: its place}, in order; {} if no line has the factor."""
    levels = {line.levels[name] for line in lines if name in line.levels}
    if name in CREATION_ORDERED:
        return rank_values(level.key for level in levels)
    rising = sorted(levels, key=lambda level: level.sort_key)
    return {level.key: place for place, level in enumerate(rising)}


@dataclass(frozen=True)
class Exploration:
    """`every`: all lines of the campaigns, `kept`: those that are asked for, neither with numbers.

    `lines`: all that there are with the axes of now, hidden ones too; `beside`: what those have of the second metric.
    Either may have no points of a line.
    `errors`: conditions that were not understood.
    """

    query: ExploreQuery
    axes: Axes
    all_groups: Sequence[Group]
    groups: Sequence[Group]
    measured: Mapping[str, str]
    lines: Sequence[Line]
    styles: Mapping[str, Style]
    errors: Mapping[str, str] = field(default_factory=dict)
    # by id
    beside: Mapping[str, Line] = field(default_factory=dict)

    @property
    def visible_lines(self) -> list[Line]:
        return [line for line in self.lines if self.query.shows_line(line.id)]

    @property
    def baseline(self) -> Line | None:
        return next((line for line in self.lines if line.id == self.query.baseline), None)

    @cached_property
    def chart(self) -> ExploreChart:
        base = self.baseline if self.query.ratio and self.quantity("y") else None
        chart = self._draw_chart(self.axes, self.visible_lines, base)
        if other := self.quantity(BESIDE):
            visible = [
                self.beside[line.id] for line in self.visible_lines if line.id in self.beside
            ]
            other_base = self.beside.get(base.id) if base else None
            second = self._draw_chart(replace(self.axes, y=other.name), visible, other_base)
            second = replace(second, around=chart.lines)
            chart = replace(chart, around=second.lines, beside=second)
        names = dict.fromkeys(group.campaign_name for group in self.groups)
        campaigns = " and ".join(names) if len(names) < 4 else f"{len(names)} campaigns"
        return replace(chart, title=f"{chart.heading} · {campaigns or 'nothing chosen'}")

    def _draw_chart(self, axes: Axes, visible: Sequence[Line], base: Line | None) -> ExploreChart:
        return ExploreChart(
            "",
            axes,
            lines.ratio_lines(visible, base) if base else visible,
            self.styles,
            self.quantity("x"),
            None if factors.is_factor(axes.y) else lines.quantity(axes.y, self.measured),
            self.quantity("colour"),
            self.query.log_axes(axes),
            base.label if base else "",
        )

    def quantity(self, axis: str) -> Quantity | None:
        """Return the metric of an axis; None if the axis is a factor or empty."""
        name = getattr(self.axes, axis)
        return None if not name or factors.is_factor(name) else lines.quantity(name, self.measured)


def read_exploration(user: Person, wish: ExploreQuery) -> Exploration:
    """Scene that `user` may see, in three queries; two more for conditions, one where a sweep may have begun."""
    every = read_groups(user, wish.filter.campaigns, names=())
    selected = wish.filter.select_styled(every)
    # as the campaigns' own pages have them
    seats: dict[str, dict[int, int]] = {"topology": {}, "host": {}}
    for group in selected:
        if group.style_places:
            seats["topology"][group.topology], seats["host"][group.host] = group.style_places
    errors: dict[str, str] = {}
    if wish.where:
        try:
            met = factors.matching_attempts(user, wish.filter.campaigns, wish.where)
        except QueryError as refused:
            met, errors = set(), dict(refused.errors)
        selected = groups_with(selected, lambda sample: sample.attempt in met)
    units = measured_units(selected)
    axes = wish.resolve_axes(units)
    measured = fill_values(selected, lines.needed_metrics(axes, units))
    built = lines.build_lines(measured, axes, units)
    beside = lines.build_lines(measured, replace(axes, y=axes.beside), units) if axes.beside else []
    if beside:
        built, beside = lines.unite_lines(built, beside)
    styles = explore_styles(built, axes, seats)
    axes = _with_default_facet(wish, axes, built)
    by_id = {line.id: line for line in beside}
    return Exploration(wish, axes, every, selected, units, built, styles, errors, by_id)


# lines that one panel still tells apart
MAX_PANEL_LINES = 12


def _with_default_facet(wish: ExploreQuery, axes: Axes, every: Iterable[Line]) -> Axes:
    """Return the axes with a panel for each layout, if percentiles of many lines would cover each other."""
    shown = [line for line in every if wish.shows_line(line.id)]
    layouts = {line.levels["topology"] for line in shown if "topology" in line.levels}
    ranked = factors.PERCENTILE in (axes.x, axes.y)
    if "facet" in wish.axes or not ranked or len(shown) <= MAX_PANEL_LINES or len(layouts) < 2:
        return axes
    return replace(axes, facet="topology")


def groups_with(groups: Iterable[Group], is_part: Callable[[Sample], bool]) -> list[Group]:
    """The groups with those of their runs alone; groups without any are left out."""
    narrowed = (replace(group, samples=tuple(filter(is_part, group.samples))) for group in groups)
    return [group for group in narrowed if group.samples]
