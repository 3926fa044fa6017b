"""The matrix of a campaign as a grid: a row per host, topology and moment, a column per point, a cell per repeat."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from benchlab.campaigns import matrix, points
from benchlab.campaigns.models import Campaign
from benchlab.runs.models import Measurement
from benchlab.runs.progress import latest_attempts
from benchlab.runs.states import AttemptPhase, Outcome
from benchlab.topologies import moments
from benchlab.web.units import si

SHOWN = ("iops", "bandwidth")  # the first that the tool printed
# A live page asks for hundreds of rows time and again, and needs little of each.
OF_RUN = (
    "pk",
    "repeat",
    "visit",
    "stage",
    "point",
    "host_id",
    "host__name",
    "topology_id",
    "topology__name",
    "workload_id",
    "workload__name",
)
OF_ATTEMPT = ("run_id", "pk", "phase", "outcome", "degraded")
CELL = '<a id="run-{}" class="cell badge-{}" href="{}" aria-label="{}" title="{}">{}</a>'


@dataclass(frozen=True, slots=True)
class Cell:
    run: int
    repeat: int
    state: str  # an outcome, or the phase of an attempt that is not over
    value: str  # "12.3 k IOPS"; empty unless it succeeded
    degraded: bool = False  # not all of its layout was in order
    visit: int = 1

    @property
    def short(self) -> str:
        return (self.value.removesuffix("IOPS").strip() or self.state) + self.degraded * " ⚠"

    @property
    def said(self) -> str:
        return ", ".join(filter(None, (self.state, self.value, self.degraded * "degraded")))

    @property
    def in_visit(self) -> str:
        return f", visit {self.visit}" if self.visit > 1 else ""

    @property
    def html(self) -> SafeString:
        """Not by the template: there are hundreds, and it would be most of what a live page costs."""
        href, says = (
            reverse("run-detail", args=[self.run]),
            f"Repeat {self.repeat}{self.in_visit}: {self.said}",
        )
        return format_html(CELL, self.run, self.state, href, says, says, self.short)


@dataclass(frozen=True, slots=True)
class Column:
    workload: str
    point: str


@dataclass(slots=True)
class Row:
    host: str
    topology: str
    moment: str = ""  # "during growth 1"
    cells: list[list[Cell]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Grid:
    columns: list[Column]
    rows: list[Row]

    @property
    def workloads(self) -> list[tuple[str, int]]:
        """(name, how many columns) in a row, for the upper line of the head."""
        found: dict[str, int] = {}
        for column in self.columns:
            found[column.workload] = found.get(column.workload, 0) + 1
        return list(found.items())


def of(campaign: Campaign) -> Grid:
    """Three queries, however large the matrix."""
    runs = list(campaign.runs.order_by("position").values_list(*OF_RUN, named=True))
    latest = latest_attempts().filter(run__campaign=campaign)
    attempts = {row.run_id: row for row in latest.values_list(*OF_ATTEMPT, named=True)}
    values = _values(attempts.values())
    columns = _columns(runs)
    beside: dict[tuple[int, int], set[str]] = defaultdict(set)
    for run in runs:
        beside[run.host_id, run.topology_id].add(run.stage)
    rows: dict[tuple[Any, ...], Row] = {}
    for run in sorted(runs, key=lambda run: run.repeat):
        layout, when = (run.host_id, run.topology_id), moments.parse(run.stage).rank
        said = moments.words(run.stage, beside[layout])
        new = Row(run.host__name, run.topology__name, said)
        row = rows.setdefault((run.host__name, run.topology__name, *layout, *when), new)
        row.cells = row.cells or [[] for _ in columns]
        row.cells[columns[_key(run)][0]].append(_cell(run, attempts.get(run.pk), values))
    ordered = [row for _, row in sorted(rows.items(), key=lambda item: item[0])]
    return Grid([column for _, column in columns.values()], ordered)


def _key(run: Any) -> tuple[int, str]:
    return run.workload_id, matrix.key(run.point)


def _columns(runs: Iterable[Any]) -> dict[tuple[int, str], tuple[int, Column]]:
    """Key -> (index, column), in the order of workloads and their values, however the runs were shuffled."""
    by_key = {_key(run): run for run in runs}
    ordered = sorted(
        by_key.items(),
        key=lambda item: (
            item[1].workload__name,
            item[1].workload_id,
            points.rank(item[1].point),
        ),
    )
    return {
        key: (index, Column(run.workload__name, points.words(run.point)))
        for index, (key, run) in enumerate(ordered)
    }


def _cell(run: Any, attempt: Any, values: Mapping[int, str]) -> Cell:
    if attempt is None:
        return Cell(run.pk, run.repeat, AttemptPhase.QUEUED, "", visit=run.visit)
    value = values.get(attempt.pk, "") if attempt.outcome == Outcome.SUCCEEDED else ""
    state = attempt.outcome or attempt.phase
    return Cell(run.pk, run.repeat, state, value, bool(attempt.degraded), run.visit)


def _values(attempts: Iterable[Any]) -> dict[int, str]:
    rows = Measurement.objects.filter(
        attempt__in=[a.pk for a in attempts if a.outcome == Outcome.SUCCEEDED],
        name__in=SHOWN,
        labels={},
        value__isnull=False,
    )
    found: dict[int, dict[str, str]] = {}
    for attempt, name, value, unit in rows.values_list("attempt_id", "name", "value", "unit"):
        found.setdefault(attempt, {})[name] = si(value, unit)
    return {pk: next(names[name] for name in SHOWN if name in names) for pk, names in found.items()}
