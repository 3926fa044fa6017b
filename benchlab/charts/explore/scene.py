"""From an address to what is drawn of it, for the page, its figure and its file alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from benchlab.charts.explore import conditions_typed, factors, lines, looks
from benchlab.charts.explore.chart import Chart
from benchlab.charts.explore.lines import Line, Quantity
from benchlab.charts.explore.wish import Axes, Wish
from benchlab.charts.palette import Style
from benchlab.charts.queries import Group, Person, filled, groups, measured
from benchlab.results.language import Refused


@dataclass(frozen=True, slots=True)
class Scene:
    """`every`: all lines of the campaigns, `kept`: those that are asked for, neither with numbers.

    `lines`: all that there are with the axes of now, hidden ones too. `errors`: conditions that were not understood.
    """

    wish: Wish
    axes: Axes
    every: Sequence[Group]
    kept: Sequence[Group]
    measured: Mapping[str, str]
    lines: Sequence[Line]
    styles: Mapping[str, Style]
    errors: Mapping[str, str] = field(default_factory=dict)

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
        made = Chart(
            "",
            self.axes,
            lines.ratio_of(self.shown, over) if over else self.shown,
            self.styles,
            self.quantity("x"),
            self.quantity("y"),
            self.quantity("colour"),
            self.wish.log(self.axes),
            over.label if over else "",
        )
        campaigns = " and ".join(names) if len(names) < 4 else f"{len(names)} campaigns"
        return replace(made, title=f"{made.heading} · {campaigns or 'nothing chosen'}")

    def quantity(self, axis: str) -> Quantity | None:
        """None: the axis is a factor, or nothing."""
        name = getattr(self.axes, axis)
        return None if not name or factors.is_factor(name) else lines.quantity(name, self.measured)


def read(user: Person, wish: Wish) -> Scene:
    """What `user` may see of it, in three queries; two more for conditions, one where a sweep may have begun."""
    every = groups(user, wish.lines.campaigns, names=())
    kept, errors = wish.lines.keep(every), {}
    try:
        kept = _narrowed(user, wish, kept)
    except Refused as refused:
        kept, errors = [], dict(refused.errors)
    units = measured(kept)
    axes = wish.resolved(units)
    found = lines.build(filled(kept, lines.needed(axes, units)), axes, units)
    return Scene(wish, axes, every, kept, units, found, looks.styles(found, axes), errors)


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
