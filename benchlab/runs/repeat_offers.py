# SPDX-License-Identifier: Apache-2.0
"""Further repeats that would settle what is undecided, by point, with their duration. Nothing is added here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

from django.db.models import Count, Max, Q, QuerySet

from benchlab.analysis.designs import MAX_REPEATS
from benchlab.campaigns import matrix
from benchlab.campaigns.models import Campaign, Run
from benchlab.runs.models import Layout
from benchlab.runs.states import AttemptPhase, LayoutPhase, Outcome

# A layout in one of these still takes runs.
TAKES_RUNS = (
    LayoutPhase.DRAFT,
    LayoutPhase.WAITING,
    LayoutPhase.PROVISIONING,
    LayoutPhase.READY,
)
# Of the repeats before: fewer in a further visit leave set-ups built one after the other
VISIT_SHARE = 0.5
POINT_FIELDS = ("host_id", "topology_id", "workload_id", "stage", "point")


@dataclass(frozen=True, slots=True)
class RepeatGoal:
    """`in_all` repeats of each point that one of `runs` measures."""

    runs: Collection[int]
    in_all: int


@dataclass(frozen=True, slots=True)
class Offer:
    """`repeats` more of each of `points`, named by one of its `runs`: `seconds` with the building, hosts side by side.

    `after`: the largest repeat of the campaign as of now, so that an offer is taken once.
    """

    repeats: int
    runs: tuple[int, ...]
    seconds: float
    after: int

    @property
    def points(self) -> int:
        return len(self.runs)

    @property
    def minutes(self) -> int:
        """Whole minutes, at least one."""
        return max(1, round(self.seconds / 60))


class Point(NamedTuple):
    """Properties that all repeats of a run share. `values`: JSON of the values that the sweep varies."""

    host: int
    topology: int
    workload: int
    stage: str
    values: str

    @property
    def set_up(self) -> tuple[int, int]:
        return self.host, self.topology


def point_of(row: Mapping[str, Any]) -> Point:
    """Point of a run, from its POINT_FIELDS."""
    host, topology, workload, stage, values = (row[name] for name in POINT_FIELDS)
    return Point(host, topology, workload, stage, matrix.json_key(values))


def newest_first(campaign: Campaign) -> QuerySet[Layout]:
    """Layouts of the campaign, the last builds first."""
    return campaign.layouts.order_by("-position", "-pk")


def takes_runs(layout: Layout) -> bool:
    """True when runs can be queued on the layout. One that grows does not return to an earlier moment."""
    if layout.phase not in TAKES_RUNS or layout.cancelled_at:
        return False
    begun = layout.phase in (LayoutPhase.PROVISIONING, LayoutPhase.READY)
    return not (begun and (layout.stages or layout.measure_resync))


@dataclass(frozen=True, slots=True)
class _PointStatus:
    # repeats that succeeded or are pending
    have: int
    seconds: float


def repeat_offers(campaign: Campaign, goals: Sequence[RepeatGoal]) -> list[Offer | None]:
    """Offer for each goal; None where nothing is left to add. Three queries, none without goals."""
    if not goals:
        return []
    points = _points_by_run(campaign, [pk for goal in goals for pk in goal.runs])
    statuses, after = _point_statuses(campaign)
    builds = _builds(campaign)
    return [_repeat_offer(goal, points, statuses, builds, after) for goal in goals]


def _points_by_run(campaign: Campaign, runs: Iterable[int]) -> dict[int, Point]:
    rows = campaign.runs.filter(pk__in=list(runs)).order_by()
    return {row["pk"]: point_of(row) for row in rows.values("pk", *POINT_FIELDS)}


def _point_statuses(campaign: Campaign) -> tuple[dict[Point, _PointStatus], int]:
    """({point: what is known of it}, the campaign's largest repeat)."""
    counts = Q(attempts__outcome=Outcome.SUCCEEDED, attempts__degraded=[])
    comes = Q(attempts__phase__isnull=False) & ~Q(attempts__phase=AttemptPhase.DONE)
    rows = list(
        Run.objects.filter(campaign=campaign)
        .order_by()
        .values(*POINT_FIELDS)
        .annotate(
            have=Count("pk", filter=counts | comes, distinct=True),
            seconds=Max("expected_s"),
            last=Max("repeat"),
        )
    )
    statuses = {point_of(row): _PointStatus(row["have"], row["seconds"]) for row in rows}
    return statuses, max((row["last"] for row in rows), default=0)


def _builds(campaign: Campaign) -> dict[tuple[int, int], float]:
    """Seconds to build each (host, topology) for more runs; 0 where one still takes runs."""
    seconds_by_set_up: dict[tuple[int, int], float] = {}
    for row in newest_first(campaign).defer("plan"):
        set_up = row.host_id, row.topology_id
        if takes_runs(row):
            seconds_by_set_up[set_up] = 0.0
        seconds_by_set_up.setdefault(set_up, row.expected_s)
    return seconds_by_set_up


def _repeat_offer(
    goal: RepeatGoal,
    points: Mapping[int, Point],
    statuses: Mapping[Point, _PointStatus],
    builds: Mapping[tuple[int, int], float],
    after: int,
) -> Offer | None:
    runs = {points[pk]: pk for pk in sorted(goal.runs, reverse=True) if pk in points}
    have = min((statuses[point].have for point in runs), default=goal.in_all)
    more = goal.in_all - have
    if more <= 0:
        return None
    if any(builds.get(point.set_up) for point in runs):
        more = min(max(more, ceil(have * VISIT_SHARE)), MAX_REPEATS)
    seconds: dict[int, float] = defaultdict(float)
    for point in runs:
        seconds[point.host] += statuses[point].seconds * more
    for host, topology in {point.set_up for point in runs}:
        seconds[host] += builds.get((host, topology), 0.0)
    return Offer(more, tuple(sorted(runs.values())), max(seconds.values()), after)
