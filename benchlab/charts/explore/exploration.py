# SPDX-License-Identifier: Apache-2.0
"""From an address to what is drawn of it, for the page, its figure and its file alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from benchlab.charts.explore import conditions_typed, factors, line_styles, lines
from benchlab.charts.explore.chart import ExploreChart
from benchlab.charts.explore.lines import Line, Quantity
from benchlab.charts.explore.query import BESIDE, Axes, ExploreQuery
from benchlab.charts.palette import Style
from benchlab.charts.queries import Group, Person, fill_values, measured_units, read_groups
from benchlab.results.language import QueryError


@dataclass(frozen=True, slots=True)
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

    @property
    def chart(self) -> ExploreChart:
        base = self.baseline
        over = base if self.query.ratio and self.quantity("y") else None
        names = dict.fromkeys(group.campaign_name for group in self.groups)
        made = self._draw_chart(self.axes, self.visible_lines, over)
        if other := self.quantity(BESIDE):
            axes = replace(self.axes, y=other.name)
            there = [self.beside[one.id] for one in self.visible_lines if one.id in self.beside]
            base = self.beside.get(over.id) if over else None
            second = replace(self._draw_chart(axes, there, base), around=made.lines)
            made = replace(made, around=second.lines, beside=second)
        campaigns = " and ".join(names) if len(names) < 4 else f"{len(names)} campaigns"
        return replace(made, title=f"{made.heading} · {campaigns or 'nothing chosen'}")

    def _draw_chart(self, axes: Axes, shown: Sequence[Line], over: Line | None) -> ExploreChart:
        return ExploreChart(
            "",
            axes,
            lines.ratio_lines(shown, over) if over else shown,
            self.styles,
            self.quantity("x"),
            None if factors.is_factor(axes.y) else lines.quantity(axes.y, self.measured),
            self.quantity("colour"),
            self.query.log_axes(axes),
            over.label if over else "",
        )

    def quantity(self, axis: str) -> Quantity | None:
        """None: the axis is a factor, or nothing."""
        name = getattr(self.axes, axis)
        return None if not name or factors.is_factor(name) else lines.quantity(name, self.measured)


def read_exploration(user: Person, wish: ExploreQuery) -> Exploration:
    """Scene that `user` may see, in three queries; two more for conditions, one where a sweep may have begun."""
    every = read_groups(user, wish.filter.campaigns, names=())
    kept, errors = wish.filter.select_styled(every), {}
    seats = _style_places(kept)
    try:
        kept = _meeting_conditions(user, wish, kept)
    except QueryError as refused:
        kept, errors = [], dict(refused.errors)
    units = measured_units(kept)
    axes = wish.resolve_axes(units)
    known = fill_values(kept, lines.needed_metrics(axes, units))
    found = lines.build_lines(known, axes, units)
    more = lines.build_lines(known, replace(axes, y=axes.beside), units) if axes.beside else []
    if more:
        found, more = lines.unite_lines(found, more)
    styles = line_styles.explore_styles(found, axes, seats)
    beside = {one.id: one for one in more}
    return Exploration(wish, axes, every, kept, units, found, styles, errors, beside)


def _style_places(found: Sequence[Group]) -> dict[str, dict[int, int]]:
    """Of layouts and hosts, as the campaigns' own pages have them."""
    return {
        "topology": {line.topology: line.style_places[0] for line in found if line.style_places},
        "host": {line.host: line.style_places[1] for line in found if line.style_places},
    }


def _meeting_conditions(user: Person, wish: ExploreQuery, kept: list[Group]) -> list[Group]:
    """Runs that meet the typed conditions. Raises Refused."""
    if not wish.where:
        return kept
    met = conditions_typed.matching_attempts(user, wish.filter.campaigns, wish.where)
    found = (
        replace(group, samples=tuple(one for one in group.samples if one.attempt in met))
        for group in kept
    )
    return [group for group in found if group.samples]
