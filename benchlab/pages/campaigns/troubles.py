# SPDX-License-Identifier: Apache-2.0
"""Troubles of a campaign that need a person: runs that did not succeed, grouped by why, and layouts that are stuck.

Two queries, for a live page asks for it time and again: `layouts` and `attempts`, which the others sort.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from django.db.models import Q

from benchlab.campaigns.models import Campaign, Run
from benchlab.pages.campaigns import layout_steps
from benchlab.runs import reason_texts
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.progress import BUSY, latest_attempts
from benchlab.runs.states import AttemptPhase, LayoutPhase, Outcome


@dataclass(frozen=True, slots=True)
class Failure:
    """Runs that ended alike, for the same reason."""

    outcome: str
    words: reason_texts.ReasonText
    text: str
    runs: list[Run] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Stuck:
    layout: Layout
    words: reason_texts.ReasonText
    text: str


@dataclass(frozen=True, slots=True)
class Degraded:
    """A layout in which something failed, and the runs that were measured on it so."""

    layout: Layout
    runs: list[int] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)


def layouts_in_detail(campaign: Campaign) -> list[Layout]:
    """Those that a page tells more of than a line in the log."""
    in_detail = Q(phase__in=BUSY) | ~Q(needs_person="") | ~Q(progress=[])
    rows = layout_steps.annotate_work(campaign.layouts.filter(in_detail))
    return list(rows.select_related("host", "topology"))


def flawed_attempts(campaign: Campaign) -> list[Attempt]:
    """The last ones of runs that did not succeed, or not on a whole layout."""
    flawed = (Q(phase=AttemptPhase.DONE) & ~Q(outcome=Outcome.SUCCEEDED)) | ~Q(degraded=[])
    attempts = latest_attempts().filter(flawed, run__campaign=campaign).order_by("run__position")
    of_run = ("run__host", "run__topology", "run__workload")
    return list(attempts.select_related(*of_run, "layout__topology", "layout__host"))


def degraded_layouts(attempts: Iterable[Attempt]) -> list[Degraded]:
    layouts: dict[int, Degraded] = {}
    for attempt in attempts:
        if attempt.degraded:
            layout = layouts.setdefault(attempt.layout_id, Degraded(attempt.layout))
            layout.runs.append(attempt.run_id)
            layout.messages.extend(
                m["says"] for m in attempt.degraded if m["says"] not in layout.messages
            )
    return list(layouts.values())


def group_failures(attempts: Iterable[Attempt]) -> list[Failure]:
    grouped: dict[tuple[str, str, str], Failure] = {}
    for attempt in attempts:
        if attempt.phase == AttemptPhase.DONE and attempt.outcome != Outcome.SUCCEEDED:
            key = (attempt.outcome, attempt.reason, attempt.reason_text)
            new = Failure(
                attempt.outcome, reason_texts.explain_reason(attempt.reason), attempt.reason_text
            )
            grouped.setdefault(key, new).runs.append(attempt.run)
    return list(grouped.values())


def waiting_for_person(layouts: Iterable[Layout]) -> list[Layout]:
    """Layouts that wait for something only a person can do."""
    return [row for row in layouts if row.needs_person]


def stuck_layouts(layouts: Iterable[Layout]) -> list[Stuck]:
    rows = [row for row in layouts if row.phase == LayoutPhase.STUCK]
    return [
        Stuck(row, reason_texts.explain_reason("not_blank"), row.trouble or row.reason_text)
        for row in rows
    ]
