# SPDX-License-Identifier: Apache-2.0
"""Layouts that are just being built or taken down: at which step of how many, and since when.

No query of its own: what is told of the plan and of the log comes with the rows that a live page asks for anyway.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Case, Count, F, Func, JSONField, OuterRef, Q, QuerySet, Subquery, When
from django.db.models.functions import JSONObject
from django.utils import timezone

from agents.quote import format_command
from benchlab.runs.models import Layout, StepLog
from benchlab.runs.states import LayoutPhase, Outcome
from benchlab.topologies import picture

AT_WORK = (LayoutPhase.PROVISIONING, LayoutPhase.TEARING_DOWN)
# segments that a bar has room for
MOST = 80
# steps that are shown around the one that runs
BEFORE, AFTER = 5, 4


@dataclass(frozen=True, slots=True)
class Step:
    says: str
    command: str
    # "done", "now", "later"
    css: str


@dataclass(frozen=True, slots=True)
class Drawn:
    """A layer of the layout that is built. `css`: "done", "now" or "later", as a step's."""

    box: picture.Box
    css: str


@dataclass(frozen=True, slots=True)
class Work:
    """`done` steps of `steps`; a teardown's are not known before: it has none. `so_far` and `left` in seconds.

    `of_layers`: how many steps each layer has, the lowest first.
    """

    layout: Layout
    # of the layout on its host within its campaign, from 1
    number: int
    of: int
    done: int
    step_began: bool
    # what it says, argv
    steps: Sequence[tuple[str, Sequence[str]]]
    so_far: float
    # by the last time that this was done there; None: it never was
    left: float | None
    of_layers: Sequence[int] = ()

    @property
    def building(self) -> bool:
        return self.layout.phase == LayoutPhase.PROVISIONING

    @property
    def total(self) -> int:
        return len(self.steps)

    @property
    def step(self) -> int:
        """The one that runs, or ran last."""
        return min(self.done + 1, self.total) if self.building else self.done + self.step_began

    @property
    def says(self) -> str:
        """Words for what is done between commands; empty while one runs."""
        if self.step_began:
            return ""
        if not self.done:
            return "reading the host"
        return "" if self.done < self.total else "looking at the host again"

    @property
    def segments(self) -> list[str]:
        return [self._css(at) for at in range(self.total)] if self.total <= MOST else []

    @property
    def shown(self) -> list[Step]:
        first = max(0, self.done - BEFORE)
        some = self.steps[first : self.done + 1 + AFTER]
        return [
            Step(says, format_command(argv), self._css(at))
            for at, (says, argv) in enumerate(some, start=first)
        ]

    @property
    def layers(self) -> list[Drawn]:
        """As a drawing has them, the top one first; none of a plan that does not tell, and of a teardown."""
        if not self.building or len(self.of_layers) != len(self.layout.stack):
            return []
        ends = list(itertools.accumulate(self.of_layers))
        marks = [
            "done" if self.done >= end else "now" if self.done >= end - own else "later"
            for own, end in zip(self.of_layers, ends, strict=True)
        ]
        boxes = picture.boxes(self.layout.stack)
        return [Drawn(box, css) for box, css in zip(boxes, reversed(marks), strict=True)]

    @property
    def later(self) -> int:
        """Steps after those that are shown."""
        return max(0, self.total - self.done - 1 - AFTER)

    def _css(self, at: int) -> str:
        return "done" if at < self.done else "now" if at == self.done else "later"


def annotated(rows: QuerySet[Layout]) -> QuerySet[Layout]:
    """With all that `of` tells. The plan itself stays where it is: of the layouts at work, its steps' words come."""
    beside = Layout.objects.filter(campaign=OuterRef("campaign"), host=OuterRef("host"))
    beside = beside.exclude(phase=LayoutPhase.DRAFT)
    before = Q(position__lt=OuterRef("position")) | Q(
        position=OuterRef("position"), pk__lte=OuterRef("pk")
    )
    return rows.defer("plan", "stages").annotate(
        at_step=Case(
            When(phase=LayoutPhase.PROVISIONING, then=_logged(kind=StepLog.Kind.APPLY, part="")),
            When(
                phase=LayoutPhase.TEARING_DOWN,
                then=_logged(kind=StepLog.Kind.TEARDOWN, started_at__gte=OuterRef("down_at")),
            ),
            default=None,
            output_field=JSONField(),
        ),
        step_says=_of_plan("$.layers[*].steps[*].says"),
        step_argv=_of_plan("$.layers[*].steps[*].argv"),
        layer_steps=_of_plan("$.layers[*].steps.size()"),
        place=_count(beside.filter(before)),
        places=_count(beside),
        took=Case(
            When(phase=LayoutPhase.PROVISIONING, then=_last_time("begun_at", "ready_at")),
            When(phase=LayoutPhase.TEARING_DOWN, then=_last_time("down_at", "ended_at")),
        ),
    )


def _logged(**of: object) -> Subquery:
    """Numbers of commands that began and ended."""
    rows = StepLog.objects.filter(layout=OuterRef("pk"), **of).order_by().values("layout")
    told = JSONObject(begun=Count("pk"), ended=Count("ended_at"))
    return Subquery(rows.annotate(told=told).values("told"), output_field=JSONField())


def _of_plan(path: str) -> Case:
    """Values at a path in the plan's JSON: of the commands that build it, in their order."""
    words = Func(
        F("plan"),
        template=f"jsonb_path_query_array(%(expressions)s, '{path}')",
        output_field=JSONField(),
    )
    at_work = When(phase=LayoutPhase.PROVISIONING, then=words)
    return Case(at_work, default=None, output_field=JSONField())


def _count(rows: QuerySet[Layout]) -> Subquery:
    return Subquery(rows.order_by().values("campaign").annotate(n=Count("pk")).values("n"))


def _last_time(start: str, end: str) -> Subquery:
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


def of(rows: Iterable[Layout]) -> list[Work]:
    """Of those that are at work and wait for nobody, as `annotated` gave them."""
    return [_work(row, vars(row)) for row in rows if row.phase in AT_WORK and not row.needs_person]


def _work(row: Layout, known: Mapping[str, Any]) -> Work:
    building = row.phase == LayoutPhase.PROVISIONING
    logged = known["at_step"] or {"begun": 0, "ended": 0}
    # of builds that were taken back
    gone = row.discarded if building else 0
    done = max(0, logged["ended"] - gone)
    so_far = _since(row.begun_at if building else row.down_at)
    return Work(
        layout=row,
        number=known["place"],
        of=known["places"],
        done=done,
        step_began=logged["begun"] - gone > done,
        steps=list(zip(known["step_says"] or (), known["step_argv"] or (), strict=True)),
        so_far=so_far,
        left=max(0.0, known["took"].total_seconds() - so_far) if known["took"] else None,
        of_layers=known["layer_steps"] or (),
    )


def _since(when: datetime | None) -> float:
    return max(0.0, (timezone.now() - when).total_seconds()) if when else 0.0
