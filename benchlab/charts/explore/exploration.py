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
        drawing = self._draw_chart(self.axes, self.visible_lines, over)
        if other := self.quantity(BESIDE):
            axes = replace(self.axes, y=other.name)
            second_lines = [
                self.beside[line.id] for line in self.visible_lines if line.id in self.beside
            ]
            base = self.beside.get(over.id) if over else None
            second = replace(self._draw_chart(axes, second_lines, base), around=drawing.lines)
            drawing = replace(drawing, around=second.lines, beside=second)
        campaigns = " and ".join(names) if len(names) < 4 else f"{len(names)} campaigns"
        return replace(drawing, title=f"{drawing.heading} · {campaigns or 'nothing chosen'}")

    def _draw_chart(self, axes: Axes, visible: Sequence[Line], over: Line | None) -> ExploreChart:
        return ExploreChart(
            "",
            axes,
            lines.ratio_lines(visible, over) if over else visible,
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
    selected, errors = wish.filter.select_styled(every), {}
    seats = _style_places(selected)
    try:
        selected = _meeting_conditions(user, wish, selected)
    except QueryError as refused:
        selected, errors = [], dict(refused.errors)
    units = measured_units(selected)
    axes = wish.resolve_axes(units)
    measured_groups = fill_values(selected, lines.needed_metrics(axes, units))
    built = lines.build_lines(measured_groups, axes, units)
    more = (
        lines.build_lines(measured_groups, replace(axes, y=axes.beside), units)
        if axes.beside
        else []
    )
    if more:
        built, more = lines.unite_lines(built, more)
    styles = line_styles.explore_styles(built, axes, seats)
    beside = {line.id: line for line in more}
    return Exploration(wish, axes, every, selected, units, built, styles, errors, beside)


def _style_places(groups: Sequence[Group]) -> dict[str, dict[int, int]]:
    """Of layouts and hosts, as the campaigns' own pages have them."""
    return {
        "topology": {line.topology: line.style_places[0] for line in groups if line.style_places},
        "host": {line.host: line.style_places[1] for line in groups if line.style_places},
    }


def _meeting_conditions(user: Person, wish: ExploreQuery, groups: list[Group]) -> list[Group]:
    """Runs that meet the typed conditions. Raises Refused."""
    if not wish.where:
        return groups
    met = conditions_typed.matching_attempts(user, wish.filter.campaigns, wish.where)
    narrowed = (
        replace(group, samples=tuple(sample for sample in group.samples if sample.attempt in met))
        for group in groups
    )
    return [group for group in narrowed if group.samples]
