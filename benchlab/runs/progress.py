# SPDX-License-Identifier: Apache-2.0
"""Progress of campaigns, derived from their layouts and attempts: two queries for any number of campaigns.

Lists order campaigns by it in the database: by state, what needs a person first, then what runs; and by progress.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import models
from django.db.models import (
    Avg,
    Case,
    Count,
    Exists,
    ExpressionWrapper,
    F,
    FloatField,
    Max,
    Min,
    OuterRef,
    Q,
    Subquery,
    Sum,
    Value,
    When,
)
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from benchlab.campaigns.models import Campaign
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.states import HOLDING, AttemptPhase, LayoutPhase, Outcome
from benchlab.web.units import duration


class State(models.TextChoices):
    DRAFT = "draft", "plan not confirmed"
    QUEUED = "queued", "waiting for its hosts"
    RUNNING = "running", "running"
    PAUSED = "paused", "paused"
    CANCELLING = "cancelling", "cancelling: taking its layouts down"
    STUCK = "stuck", "needs a person"
    MANUAL_STEP = "asks", "waits for a person"
    CANCELLED = "cancelled", "cancelled"
    DONE = "done", "done"


# campaign id -> its rows, grouped by host and phase
RowsByCampaign = dict[int, list[Mapping[str, Any]]]

# Beside the phases: layouts that wait for a step that only a person can take.
MANUAL = "asking"
BUSY = (LayoutPhase.PROVISIONING, LayoutPhase.TEARING_DOWN, LayoutPhase.STUCK)
# A running job is polled every few seconds, and its last answer is stored every ten.
SILENT_S = 30.0
OVER = frozenset({State.CANCELLED, State.DONE})
# A run that was never measured says little about how long the others take; keep its factor within reason.
CALIBRATION = (0.2, 5.0)


@dataclass(frozen=True, slots=True)
class Progress:
    """`counts`: runs by the outcome of their latest attempt, else "queued" or "running". No ETA when nothing runs."""

    state: State
    runs: int
    counts: Mapping[str, int]
    drafts: int
    eta_s: float | None
    # Whether a layout is built, taken down or stuck, or waits for a person or its kernel
    busy: bool
    # whether a run did not succeed, or not on a whole layout
    flawed: bool
    # Why a layout makes no progress just now; its duration is unknown then.
    trouble: str = ""

    @property
    def over(self) -> bool:
        return self.state in OVER

    @property
    def ends_at(self) -> datetime | None:
        """Expected end by the ETA, which includes building and taking down."""
        return None if self.eta_s is None else timezone.now() + timedelta(seconds=self.eta_s)

    @property
    def ended(self) -> int:
        return self.runs - self.counts.get("queued", 0) - self.counts.get("running", 0)

    @property
    def succeeded(self) -> int:
        return self.counts.get(Outcome.SUCCEEDED, 0)

    @property
    def not_succeeded(self) -> int:
        return self.ended - self.succeeded

    @property
    def running(self) -> int:
        return self.counts.get("running", 0)

    @property
    def shown_counts(self) -> list[tuple[str, int]]:
        order = [*Outcome.values, "running", "queued"]
        return [(name, self.counts[name]) for name in order if self.counts.get(name)]


def latest_attempts() -> models.QuerySet[Attempt]:
    """Attempts that count for their runs: the last one of each."""
    # The index finds those of the requested runs; a condition "none is newer" would read every attempt there is.
    numbers = Attempt.objects.filter(run=OuterRef("run")).order_by("-number").values("number")
    return Attempt.objects.filter(number=Subquery(numbers[:1]))


def progress_by_campaign(campaigns: Iterable[Campaign]) -> dict[int, Progress]:
    """Progress by campaign id, in a fixed number of queries."""
    rows = {campaign.pk: campaign for campaign in campaigns}
    layouts, attempts = _layouts_by_host(rows), _attempts_by_host(rows)
    return {pk: _progress(row, layouts[pk], attempts[pk]) for pk, row in rows.items()}


def campaign_progress(campaign: Campaign) -> Progress:
    return progress_by_campaign([campaign])[campaign.pk]


def derive_state(campaign: Campaign, phases: Mapping[str, int]) -> State:
    """Derive the campaign's state from its cancel and pause requests and the number of its layouts by phase."""
    still_open = sum(
        n for phase, n in phases.items() if phase not in (LayoutPhase.DRAFT, LayoutPhase.DONE)
    )
    if phases.get(LayoutPhase.STUCK):
        return State.STUCK
    if phases.get(MANUAL):
        return State.MANUAL_STEP
    if still_open and campaign.cancelled_at:
        return State.CANCELLING
    if still_open and campaign.paused_at:
        return State.PAUSED
    if still_open:
        return State.RUNNING if any(phases.get(phase) for phase in HOLDING) else State.QUEUED
    if phases.get(LayoutPhase.DRAFT):
        return State.DRAFT
    return State.CANCELLED if campaign.cancelled_at else State.DONE


def _layouts_by_host(campaigns: Iterable[int]) -> RowsByCampaign:
    rows = Layout.objects.filter(campaign__in=list(campaigns)).order_by()
    asking = Count("pk", filter=~Q(needs_person=""))
    return _by_campaign(
        rows.values("campaign", "host", "phase").annotate(
            number=Count("pk"),
            expected=Sum("expected_s"),
            asking=asking,
            awaiting=Count("pk", filter=~Q(progress=[])),
            awaited_until=Max("awaited_until"),
            begun_at=Max("begun_at"),
            down_at=Max("down_at"),
            trouble=Max("trouble", filter=Q(phase__in=HOLDING)),
        )
    )


def _by_campaign(rows: Iterable[Mapping[str, Any]]) -> RowsByCampaign:
    grouped: RowsByCampaign = defaultdict(list)
    for row in rows:
        grouped[row["campaign"]].append(row)
    return grouped


def _attempts_by_host(campaigns: Iterable[int]) -> RowsByCampaign:
    ended = Q(outcome=Outcome.SUCCEEDED)
    elapsed = ExpressionWrapper(
        Coalesce(F("ended_at"), Now()) - F("started_at"), output_field=models.DurationField()
    )
    return _by_campaign(
        latest_attempts()
        .filter(run__campaign__in=list(campaigns))
        .order_by()
        .values(
            "phase",
            "outcome",
            campaign=F("run__campaign"),
            host=F("run__host"),
            name=F("run__host__name"),
        )
        .annotate(
            number=Count("pk"),
            expected=Sum("run__expected_s"),
            not_whole=Count("pk", filter=~Q(degraded=[])),
            seen=Min("seen_at", filter=Q(phase=AttemptPhase.RUNNING)),
            took=Sum(elapsed, filter=ended | Q(phase=AttemptPhase.RUNNING)),
        )
    )


def _progress(
    campaign: Campaign, layouts: Sequence[Mapping[str, Any]], attempts: Sequence[Mapping[str, Any]]
) -> Progress:
    phases: Counter[str] = Counter()
    for row in layouts:
        phases[row["phase"]] += row["number"]
        phases[MANUAL] += row["asking"]
    counts: Counter[str] = Counter()
    for row in attempts:
        counts[_count_name(row)] += row["number"]
    where = derive_state(campaign, phases)
    trouble = max((row["trouble"] or "" for row in layouts), default="") or _silence(attempts)
    still = where in OVER or where in (State.DRAFT, State.STUCK, State.MANUAL_STEP) or bool(trouble)
    return Progress(
        state=where,
        runs=sum(counts.values()),
        counts=counts,
        drafts=phases[LayoutPhase.DRAFT],
        eta_s=None if still else _eta_seconds(layouts, attempts),
        trouble="" if where in OVER else trouble,
        busy=any(row["phase"] in BUSY or row["asking"] or row["awaiting"] for row in layouts),
        flawed=any(row["not_whole"] or _is_flaw(row) for row in attempts),
    )


def _silence(attempts: Iterable[Mapping[str, Any]]) -> str:
    """Sentence on the host whose run has been without an answer the longest; "" where all answer.

    A connection that was cut, rather than closed, fails after minutes only; until then nothing else shows it.
    """
    oldest = min(((row["seen"], row["name"]) for row in attempts if row["seen"]), default=None)
    silent_s = _elapsed_s(oldest[0]) if oldest else 0.0
    if oldest is None or silent_s < SILENT_S:
        return ""
    return f"{oldest[1]} has not answered for {duration(silent_s)}"


def _is_flaw(row: Mapping[str, Any]) -> bool:
    return bool(row["phase"] == AttemptPhase.DONE and row["outcome"] != Outcome.SUCCEEDED)


def _count_name(row: Mapping[str, Any]) -> str:
    if row["phase"] == AttemptPhase.DONE:
        return str(row["outcome"])
    return "queued" if row["phase"] == AttemptPhase.QUEUED else "running"


def _eta_seconds(
    layouts: Sequence[Mapping[str, Any]], attempts: Sequence[Mapping[str, Any]]
) -> float:
    """Seconds until the slowest host is through: the expected time, multiplied by its error so far."""
    factor = _calibration(attempts)
    seconds_left: dict[int, float] = defaultdict(float)
    for row in attempts:
        if row["phase"] != AttemptPhase.DONE:
            took = (row["took"] or timedelta()).total_seconds()
            seconds_left[row["host"]] += max(0.0, row["expected"] * factor - took)
    for row in layouts:
        if row["phase"] == LayoutPhase.READY and row["awaited_until"]:
            waits = (row["awaited_until"] - timezone.now()).total_seconds()
            seconds_left[row["host"]] += max(0.0, waits)
        seconds_left[row["host"]] += _building_left(row)
    return max(seconds_left.values(), default=0.0)


def _building_left(row: Mapping[str, Any]) -> float:
    """Seconds of building and taking down that are still to come: each takes about half of them.

    One layout holds the host, and those that wait have not begun.
    """
    whole = float(row["expected"])
    if row["phase"] == LayoutPhase.WAITING:
        return whole
    if row["phase"] == LayoutPhase.PROVISIONING and row["begun_at"]:
        return max(whole / 2, whole - _elapsed_s(row["begun_at"]))
    if row["phase"] == LayoutPhase.TEARING_DOWN and row["down_at"]:
        return max(0.0, whole / 2 - _elapsed_s(row["down_at"]))
    return whole / 2 if row["phase"] in HOLDING else 0.0


def _elapsed_s(when: datetime) -> float:
    return (timezone.now() - when).total_seconds()


def _calibration(attempts: Sequence[Mapping[str, Any]]) -> float:
    succeeded = [row for row in attempts if row["outcome"] == Outcome.SUCCEEDED]
    expected = sum(row["expected"] for row in succeeded)
    took = sum((row["took"] or timedelta()).total_seconds() for row in succeeded)
    return min(max(took / expected, CALIBRATION[0]), CALIBRATION[1]) if expected else 1.0


STATE_ORDER = (
    State.STUCK,
    State.MANUAL_STEP,
    State.RUNNING,
    State.CANCELLING,
    State.QUEUED,
    State.PAUSED,
    State.DRAFT,
    State.DONE,
    State.CANCELLED,
)


def state_rank() -> Combinable:
    """Rank of a Campaign's row in ORDER, by the state that `progress.derive_state` gives it."""
    own = Layout.objects.filter(campaign=OuterRef("pk")).order_by()
    still_open = Q(Exists(own.exclude(phase__in=(LayoutPhase.DRAFT, LayoutPhase.DONE))))
    cancelled = Q(cancelled_at__isnull=False)
    conditions = (
        (State.STUCK, Q(Exists(own.filter(phase=LayoutPhase.STUCK)))),
        (State.MANUAL_STEP, Q(Exists(own.exclude(needs_person="")))),
        (State.CANCELLING, still_open & cancelled),
        (State.PAUSED, still_open & Q(paused_at__isnull=False)),
        (State.RUNNING, Q(Exists(own.filter(phase__in=HOLDING)))),
        (State.QUEUED, still_open),
        (State.DRAFT, Q(Exists(own.filter(phase=LayoutPhase.DRAFT)))),
        (State.CANCELLED, cancelled),
    )
    places = [When(so, then=Value(STATE_ORDER.index(state))) for state, so in conditions]
    return Case(*places, default=Value(STATE_ORDER.index(State.DONE)))


def share_ended() -> Combinable:
    """Share of a Campaign's runs that ended, 0 to 1, as `progress` counts them; null without runs."""
    own = latest_attempts().filter(run__campaign=OuterRef("pk")).order_by()
    ended = Case(When(phase=AttemptPhase.DONE, then=1.0), default=0.0, output_field=FloatField())
    counted = own.values("run__campaign").annotate(share=Avg(ended)).values("share")
    # Most campaigns of a lab are over, some with thousands of runs: theirs need not be counted.
    layouts = Layout.objects.filter(campaign=OuterRef("pk"))
    over = Q(Exists(layouts)) & ~Q(Exists(layouts.exclude(phase=LayoutPhase.DONE)))
    return Case(When(over, then=1.0), default=Subquery(counted), output_field=FloatField())
