"""What needs a person in a campaign: runs that did not succeed, grouped by why, and layouts that are stuck."""

from __future__ import annotations

from dataclasses import dataclass, field

from django.db.models import Q

from benchlab.campaigns.models import Campaign, Run
from benchlab.campaigns.progress import latest_attempts
from benchlab.runs import words
from benchlab.runs.models import Layout
from benchlab.runs.states import AttemptPhase, LayoutPhase, Outcome


@dataclass(frozen=True, slots=True)
class Failure:
    """Runs that ended alike, for the same reason."""

    outcome: str
    words: words.Words
    text: str
    runs: list[Run] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Stuck:
    layout: Layout
    words: words.Words
    text: str


@dataclass(frozen=True, slots=True)
class Degraded:
    """A layout in which something failed, and the runs that were measured on it so."""

    layout: Layout
    runs: list[int] = field(default_factory=list)
    says: list[str] = field(default_factory=list)


def degraded(campaign: Campaign) -> list[Degraded]:
    """One query."""
    rows = latest_attempts().filter(run__campaign=campaign).exclude(degraded=[])
    found: dict[int, Degraded] = {}
    for attempt in rows.select_related(
        "layout__topology", "layout__host", "layout__campaign"
    ).order_by("run__position"):
        one = found.setdefault(attempt.layout_id, Degraded(attempt.layout))
        one.runs.append(attempt.run_id)
        one.says.extend(m["says"] for m in attempt.degraded if m["says"] not in one.says)
    return list(found.values())


def failures(campaign: Campaign) -> list[Failure]:
    """One query."""
    found = latest_attempts().filter(
        ~Q(outcome=Outcome.SUCCEEDED), run__campaign=campaign, phase=AttemptPhase.DONE
    )
    grouped: dict[tuple[str, str, str], Failure] = {}
    related = found.select_related("run__host", "run__topology", "run__workload")
    for attempt in related.order_by("run__position"):
        key = (attempt.outcome, attempt.reason, attempt.reason_text)
        if key not in grouped:
            said = words.of(attempt.reason)
            grouped[key] = Failure(attempt.outcome, said, attempt.reason_text)
        grouped[key].runs.append(attempt.run)
    return list(grouped.values())


def asked(campaign: Campaign) -> list[Layout]:
    """Layouts that wait for something only a person can do."""
    rows = campaign.layouts.exclude(needs_person="").select_related("host", "topology")
    return list(rows)


def stuck(campaign: Campaign) -> list[Stuck]:
    rows = campaign.layouts.filter(phase=LayoutPhase.STUCK).select_related("host", "topology")
    return [Stuck(row, words.of("not_blank"), row.trouble or row.reason_text) for row in rows]
