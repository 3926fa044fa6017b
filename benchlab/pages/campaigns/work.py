# SPDX-License-Identifier: Apache-2.0
"""Work on layouts just now: which step is built, measured or taken down, since when, and the troubles on the way.

Few queries, because a live page asks time and again: what is told of the plan and of the log comes with the rows.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Case, Count, F, Func, JSONField, OuterRef, Q, QuerySet, Subquery, When
from django.db.models.functions import JSONObject
from django.utils import timezone

from agents.quote import format_command
from benchlab.campaigns import matrix
from benchlab.campaigns.models import Campaign, Run
from benchlab.runs import verdict
from benchlab.runs.models import Attempt, Layout, StepLog
from benchlab.runs.progress import BUSY, Progress, latest_attempts
from benchlab.runs.states import AttemptPhase, LayoutPhase, Outcome
from benchlab.topologies import stack_boxes

MEASURING = (AttemptPhase.STARTING, AttemptPhase.RUNNING, AttemptPhase.COLLECTING)
# of an attempt, as its name has them
RUN_PARTS = ("run__host", "run__topology", "run__workload")
AT_WORK = (LayoutPhase.PROVISIONING, LayoutPhase.TEARING_DOWN)
# segments that a bar has room for
MAX_SEGMENTS = 80
# steps that are shown around the one that runs
STEPS_BEFORE, STEPS_AFTER = 5, 4


@dataclass(frozen=True, slots=True)
class CommandStep:
    description: str
    command: str
    # "done", "now", "later"
    css: str


@dataclass(frozen=True, slots=True)
class DrawnLayer:
    """A layer of the layout that is built. `css`: "done", "now" or "later", as a step's."""

    box: stack_boxes.Box
    css: str


@dataclass(frozen=True, slots=True)
class LayoutWork:
    """`steps` is empty for a teardown, whose steps are not known before.

    `of_layers`: how many steps each layer has, the lowest first.
    """

    layout: Layout
    # of the layout on its host within its campaign, from 1
    number: int
    layout_count: int
    steps_done: int
    step_began: bool
    # what it says, argv
    steps: Sequence[tuple[str, Sequence[str]]]
    seconds_so_far: float
    # by the last time that this was done there; None: it never was
    seconds_left: float | None
    steps_by_layer: Sequence[int] = ()

    @property
    def building(self) -> bool:
        return self.layout.phase == LayoutPhase.PROVISIONING

    @property
    def step_count(self) -> int:
        return len(self.steps)

    @property
    def current_step(self) -> int:
        """The one that runs, or ran last."""
        return (
            min(self.steps_done + 1, self.step_count)
            if self.building
            else self.steps_done + self.step_began
        )

    @property
    def pause_text(self) -> str:
        """Words for what is done between commands; empty while one runs."""
        if self.step_began:
            return ""
        if not self.steps_done:
            return "reading the host"
        return "" if self.steps_done < self.step_count else "looking at the host again"

    @property
    def step_text(self) -> str:
        """Words for what its command does, or for what is done between commands."""
        runs = self.step_began and self.steps_done < self.step_count
        return self.steps[self.steps_done][0] if runs else self.pause_text

    @property
    def segments(self) -> list[str]:
        few = self.step_count <= MAX_SEGMENTS
        return [self._step_class(at) for at in range(self.step_count)] if few else []

    @property
    def visible_steps(self) -> list[CommandStep]:
        first = max(0, self.steps_done - STEPS_BEFORE)
        some = self.steps[first : self.steps_done + 1 + STEPS_AFTER]
        return [
            CommandStep(description, format_command(argv), self._step_class(at))
            for at, (description, argv) in enumerate(some, start=first)
        ]

    @property
    def layers(self) -> list[DrawnLayer]:
        """Layers for a drawing, the top one first; empty for a teardown, and for a plan without step counts."""
        if not self.building or len(self.steps_by_layer) != len(self.layout.stack):
            return []
        ends = list(itertools.accumulate(self.steps_by_layer))
        marks = [
            "done" if self.steps_done >= end else "now" if self.steps_done >= end - own else "later"
            for own, end in zip(self.steps_by_layer, ends, strict=True)
        ]
        boxes = stack_boxes.stack_boxes(self.layout.stack)
        return [DrawnLayer(box, css) for box, css in zip(boxes, reversed(marks), strict=True)]

    @property
    def later_steps(self) -> int:
        """Steps after those that are shown."""
        return max(0, self.step_count - self.steps_done - 1 - STEPS_AFTER)

    def _step_class(self, at: int) -> str:
        return "done" if at < self.steps_done else "now" if at == self.steps_done else "later"


def annotate_work(rows: QuerySet[Layout]) -> QuerySet[Layout]:
    """Annotate what `layouts_at_work` reads. Of a plan, only the texts of its steps are loaded."""
    beside = Layout.objects.filter(campaign=OuterRef("campaign"), host=OuterRef("host"))
    beside = beside.exclude(phase=LayoutPhase.DRAFT)
    before = Q(position__lt=OuterRef("position")) | Q(
        position=OuterRef("position"), pk__lte=OuterRef("pk")
    )
    return rows.defer("plan", "stages").annotate(
        at_step=Case(
            When(
                phase=LayoutPhase.PROVISIONING,
                then=_logged_counts(kind=StepLog.Kind.APPLY, part=""),
            ),
            When(
                phase=LayoutPhase.TEARING_DOWN,
                then=_logged_counts(
                    kind=StepLog.Kind.TEARDOWN, started_at__gte=OuterRef("down_at")
                ),
            ),
            default=None,
            output_field=JSONField(),
        ),
        step_says=_plan_values("$.layers[*].steps[*].says"),
        step_argv=_plan_values("$.layers[*].steps[*].argv"),
        layer_steps=_plan_values("$.layers[*].steps.size()"),
        place=_count_layouts(beside.filter(before)),
        places=_count_layouts(beside),
        took=Case(
            When(phase=LayoutPhase.PROVISIONING, then=_last_duration("begun_at", "ready_at")),
            When(phase=LayoutPhase.TEARING_DOWN, then=_last_duration("down_at", "ended_at")),
        ),
    )


def _logged_counts(**conditions: object) -> Subquery:
    """Numbers of commands that began and ended."""
    rows = StepLog.objects.filter(layout=OuterRef("pk"), **conditions).order_by().values("layout")
    counts = JSONObject(begun=Count("pk"), ended=Count("ended_at"))
    return Subquery(rows.annotate(told=counts).values("told"), output_field=JSONField())


def _plan_values(path: str) -> Case:
    """Values at a path in the plan's JSON: of the commands that build it, in their order."""
    words = Func(
        F("plan"),
        template=f"jsonb_path_query_array(%(expressions)s, '{path}')",
        output_field=JSONField(),
    )
    at_work = When(phase=LayoutPhase.PROVISIONING, then=words)
    return Case(at_work, default=None, output_field=JSONField())


def _count_layouts(rows: QuerySet[Layout]) -> Subquery:
    return Subquery(rows.order_by().values("campaign").annotate(n=Count("pk")).values("n"))


def _last_duration(start: str, end: str) -> Subquery:
    """Time that it took when that stack was built on that host before."""
    earlier = Layout.objects.filter(
        host=OuterRef("host"),
        topology=OuterRef("topology"),
        stack=OuterRef("stack"),
        outcome=Outcome.SUCCEEDED,
        rebuilds=0,
        **{f"{start}__isnull": False, f"{end}__isnull": False},
    )
    return Subquery(earlier.order_by("-pk").annotate(took=F(end) - F(start)).values("took")[:1])


def layouts_at_work(rows: Iterable[Layout]) -> list[LayoutWork]:
    """List the work of rows from `annotate_work` that wait for nobody."""
    return [
        _layout_work(row, vars(row))
        for row in rows
        if row.phase in AT_WORK and not row.needs_person
    ]


def _layout_work(row: Layout, columns: Mapping[str, Any]) -> LayoutWork:
    building = row.phase == LayoutPhase.PROVISIONING
    logged = columns["at_step"] or {"begun": 0, "ended": 0}
    # of builds that were taken back
    discarded = row.discarded if building else 0
    steps_done = max(0, logged["ended"] - discarded)
    so_far = _seconds_since(row.begun_at if building else row.down_at)
    return LayoutWork(
        layout=row,
        number=columns["place"],
        layout_count=columns["places"],
        steps_done=steps_done,
        step_began=logged["begun"] - discarded > steps_done,
        steps=list(zip(columns["step_says"] or (), columns["step_argv"] or (), strict=True)),
        seconds_so_far=so_far,
        seconds_left=max(0.0, columns["took"].total_seconds() - so_far)
        if columns["took"]
        else None,
        steps_by_layer=columns["layer_steps"] or (),
    )


def _seconds_since(when: datetime | None) -> float:
    return max(0.0, (timezone.now() - when).total_seconds()) if when else 0.0


@dataclass(slots=True)
class CampaignWork:
    """`measurings`: attempts, each with its point in words."""

    buildings: list[LayoutWork] = field(default_factory=list)
    measurings: list[tuple[Attempt, str]] = field(default_factory=list)

    def limited(self, most: int) -> dict[str, object]:
        """Return so many lines of it; `more`: those left out."""
        measurings = self.measurings[: max(0, most - len(self.buildings))]
        limited = CampaignWork(self.buildings[:most], measurings)
        return {"work": limited, "more": self._line_count - limited._line_count}

    @property
    def _line_count(self) -> int:
        return len(self.buildings) + len(self.measurings)


def work_by_campaign(campaigns: Iterable[Campaign]) -> dict[int, CampaignWork]:
    """Return what each campaign does now, in two queries."""
    works: dict[int, CampaignWork] = defaultdict(CampaignWork)
    ids = [campaign.pk for campaign in campaigns]
    if not ids:
        return works
    layouts = annotate_work(Layout.objects.holding().filter(campaign__in=ids))
    for work in layouts_at_work(layouts.select_related("host", "topology")):
        works[work.layout.campaign_id].buildings.append(work)
    attempts = Attempt.objects.filter(run__campaign__in=ids, phase__in=MEASURING)
    for attempt in attempts.select_related(*RUN_PARTS):
        point = matrix.describe_point(attempt.run.point)
        works[attempt.run.campaign_id].measurings.append((attempt, point))
    return works


@dataclass(frozen=True, slots=True)
class KernelWork:
    """One resync or reshape, for which runs wait, or in which they measure.

    `seconds_left`: until all of its layout is through; None when nobody can tell.
    """

    layout: Layout
    description: str
    # 0 to 1
    share: float

    @property
    def percent(self) -> int:
        """Rounded down: 100 is for what is through."""
        return min(99, int(self.share * 100))

    @property
    def seconds_left(self) -> float | None:
        until = self.layout.awaited_until
        return max(0.0, (until - timezone.now()).total_seconds()) if until else None


@dataclass(frozen=True, slots=True)
class Failure:
    """Runs that ended alike, for the same reason."""

    outcome: str
    words: verdict.ReasonText
    text: str
    runs: list[Run] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Degraded:
    """A layout in which something failed, and the runs that were measured on it so."""

    layout: Layout
    runs: list[int] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)


def work_context(campaign: Campaign, progress_now: Progress) -> dict[str, object]:
    """Return what a page shows of layouts and attempts beyond a line in the log, in two queries at most."""
    layouts = _layouts_in_detail(campaign) if progress_now.busy else []
    attempts = _flawed_attempts(campaign) if progress_now.flawed else []
    return {
        "works": layouts_at_work(layouts),
        "awaiting": [
            KernelWork(row, part["says"], part["done"])
            for row in layouts
            if row.phase == LayoutPhase.READY
            for part in row.progress
        ],
        "stuck": [
            {
                "layout": row,
                "words": verdict.explain_reason("not_blank"),
                "text": row.trouble or row.reason_text,
            }
            for row in layouts
            if row.phase == LayoutPhase.STUCK
        ],
        "waiting_layouts": [row for row in layouts if row.needs_person],
        "failures": _group_failures(attempts),
        "degraded": _degraded_layouts(attempts),
    }


def _layouts_in_detail(campaign: Campaign) -> list[Layout]:
    in_detail = Q(phase__in=BUSY) | ~Q(needs_person="") | ~Q(progress=[])
    rows = annotate_work(campaign.layouts.filter(in_detail))
    return list(rows.select_related("host", "topology"))


def _flawed_attempts(campaign: Campaign) -> list[Attempt]:
    """The last ones of runs that did not succeed, or not on a whole layout."""
    flawed = (Q(phase=AttemptPhase.DONE) & ~Q(outcome=Outcome.SUCCEEDED)) | ~Q(degraded=[])
    attempts = latest_attempts().filter(flawed, run__campaign=campaign).order_by("run__position")
    return list(attempts.select_related(*RUN_PARTS, "layout__topology", "layout__host"))


def _degraded_layouts(attempts: Iterable[Attempt]) -> list[Degraded]:
    layouts: dict[int, Degraded] = {}
    for attempt in attempts:
        if attempt.degraded:
            layout = layouts.setdefault(attempt.layout_id, Degraded(attempt.layout))
            layout.runs.append(attempt.run_id)
            layout.messages.extend(
                m["says"] for m in attempt.degraded if m["says"] not in layout.messages
            )
    return list(layouts.values())


def _group_failures(attempts: Iterable[Attempt]) -> list[Failure]:
    grouped: dict[tuple[str, str, str], Failure] = {}
    for attempt in attempts:
        if attempt.phase == AttemptPhase.DONE and attempt.outcome != Outcome.SUCCEEDED:
            outcome, reason, text = attempt.outcome, attempt.reason, attempt.reason_text
            new = Failure(outcome, verdict.explain_reason(reason), text)
            grouped.setdefault((outcome, reason, text), new).runs.append(attempt.run)
    return list(grouped.values())
