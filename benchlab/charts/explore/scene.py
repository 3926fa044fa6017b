# SPDX-License-Identifier: Apache-2.0
"""From an address to what is drawn of it, for the page, its figure and its file alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from benchlab.charts.explore import conditions_typed, factors, lines, looks
from benchlab.charts.explore.chart import Chart
from benchlab.charts.explore.lines import Line, Quantity
from benchlab.charts.explore.wish import BESIDE, Axes, Wish
from benchlab.charts.palette import Style
from benchlab.charts.queries import Group, Person, filled, groups, measured
from benchlab.results.language import Refused


@dataclass(frozen=True, slots=True)
class Scene:
    """`every`: all lines of the campaigns, `kept`: those that are asked for, neither with numbers.

    `lines`: all that there are with the axes of now, hidden ones too; `beside`: what those have of the second metric.
    Either may have no points of a line.
    `errors`: conditions that were not understood.
    """

    wish: Wish
    axes: Axes
    every: Sequence[Group]
    kept: Sequence[Group]
    measured: Mapping[str, str]
    lines: Sequence[Line]
    styles: Mapping[str, Style]
    errors: Mapping[str, str] = field(default_factory=dict)
    # by id
    beside: Mapping[str, Line] = field(default_factory=dict)

    @property
    def shown(self) -> list[Line]:
        return [line for line in self.lines if self.wish.shows(line.id)]

    @property
    def baseline(self) -> Line | None:
        return next((line for line in self.lines if line.id == self.wish.baseline), None)

    @property
    def chart(self) -> Chart:
        base = self.baseline
        over = base if self.wish.ratio and self.quantity("y") else None
        names = dict.fromkeys(group.campaign_name for group in self.kept)
        made = self._drawn(self.axes, self.shown, over)
        if other := self.quantity(BESIDE):
            axes = replace(self.axes, y=other.name)
            there = [self.beside[one.id] for one in self.shown if one.id in self.beside]
            base = self.beside.get(over.id) if over else None
            second = replace(self._drawn(axes, there, base), around=made.lines)
            made = replace(made, around=second.lines, beside=second)
        campaigns = " and ".join(names) if len(names) < 4 else f"{len(names)} campaigns"
        return replace(made, title=f"{made.heading} · {campaigns or 'nothing chosen'}")

    def _drawn(self, axes: Axes, shown: Sequence[Line], over: Line | None) -> Chart:
        return Chart(
            "",
            axes,
            lines.ratio_of(shown, over) if over else shown,
            self.styles,
            self.quantity("x"),
            None if factors.is_factor(axes.y) else lines.quantity(axes.y, self.measured),
            self.quantity("colour"),
            self.wish.log(axes),
            over.label if over else "",
        )

    def quantity(self, axis: str) -> Quantity | None:
        """None: the axis is a factor, or nothing."""
        name = getattr(self.axes, axis)
        return None if not name or factors.is_factor(name) else lines.quantity(name, self.measured)


def read(user: Person, wish: Wish) -> Scene:
    """Scene that `user` may see, in three queries; two more for conditions, one where a sweep may have begun."""
    every = groups(user, wish.lines.campaigns, names=())
    kept, errors = wish.lines.seated(every), {}
    seats = _seats(kept)
    try:
        kept = _narrowed(user, wish, kept)
    except Refused as refused:
        kept, errors = [], dict(refused.errors)
    units = measured(kept)
    axes = wish.resolved(units)
    known = filled(kept, lines.needed(axes, units))
    found = lines.build(known, axes, units)
    more = lines.build(known, replace(axes, y=axes.beside), units) if axes.beside else []
    if more:
        found, more = lines.united(found, more)
    styles = looks.styles(found, axes, seats)
    beside = {one.id: one for one in more}
    return Scene(wish, axes, every, kept, units, found, styles, errors, beside)


def _seats(found: Sequence[Group]) -> dict[str, dict[int, int]]:
    """Of layouts and hosts, as the campaigns' own pages have them."""
    return {
        "topology": {line.topology: line.seat[0] for line in found if line.seat},
        "host": {line.host: line.seat[1] for line in found if line.seat},
    }


def _narrowed(user: Person, wish: Wish, kept: list[Group]) -> list[Group]:
    """Runs that meet the typed conditions. Raises Refused."""
    if not wish.where:
        return kept
    met = conditions_typed.attempts(user, wish.lines.campaigns, wish.where)
    found = (
        replace(group, samples=tuple(one for one in group.samples if one.attempt in met))
        for group in kept
    )
    return [group for group in found if group.samples]
