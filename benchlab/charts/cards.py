"""A chart on a page: where its figure comes from, what may be chosen, and the same numbers as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from benchlab.charts.conditions import Differences
from benchlab.charts.curve import METRICS
from benchlab.charts.queries import Group, Person, groups
from benchlab.charts.tables import Point, curve_points


@dataclass(frozen=True, slots=True)
class Card:
    """One workload's chart. `metrics` and `operations` hold only what was measured."""

    workload: int
    title: str
    figure_url: str
    csv_url: str
    swept: bool
    metrics: tuple[str, ...]
    operations: tuple[str, ...]
    lines: int
    points: tuple[Point, ...]
    differences: Differences | None = None  # between its lines' conditions, where they are compared

    @property
    def key(self) -> str:
        """Its DOM id. A live page keeps what has the same id, so a sweep's first result, which is bars, has another."""
        return f"chart-{self.workload}" if self.swept else f"chart-{self.workload}-bars"

    @property
    def broken(self) -> list[Point]:
        """Points at which Little's law does not hold."""
        return [point for point in self.points if point.little and not point.little.holds]

    @property
    def knees(self) -> list[Point]:
        return [point for point in self.points if point.knee]


def campaign_cards(user: Person, campaign: int) -> list[Card]:
    """A card per workload of the campaign that has results. Two queries."""
    return cards(
        groups(user, [campaign]),
        reverse("campaign-figure", args=[campaign]),
        reverse("campaign-csv", args=[campaign]),
    )


def cards(found: Sequence[Group], figure_url: str, csv_url: str, query: str = "") -> list[Card]:
    """`query` narrows the lines down further; the card adds its workload."""
    by_workload: dict[int, list[Group]] = {}
    for group in found:
        by_workload.setdefault(group.workload, []).append(group)
    return [_card(lines, figure_url, csv_url, query) for lines in by_workload.values()]


def _card(lines: list[Group], figure_url: str, csv_url: str, query: str) -> Card:
    workload = lines[0].workload
    names = {name for group in lines for sample in group.samples for name in sample.values}
    swept = any(group.swept for group in lines)
    metrics = tuple(metric for metric in METRICS if metric in names)
    if not swept:  # without a sweep it is a streaming tool more often than not
        metrics = metrics[::-1]
    only = "&".join(filter(None, [query, urlencode({"workload": workload})]))
    both = tuple(op for op in ("read", "write") if f"{op}.iops" in names)
    default = f"&metric={metrics[0]}" if metrics and metrics[0] != "iops" else ""
    return Card(
        workload=workload,
        title=lines[0].workload_name,
        figure_url=f"{figure_url}?{only}{default}",
        csv_url=f"{csv_url}?{only}",
        swept=swept,
        metrics=metrics,
        operations=both if len(both) == 2 else (),
        lines=len(lines),
        points=tuple(curve_points(lines)),
    )
