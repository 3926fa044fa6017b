# SPDX-License-Identifier: Apache-2.0
"""Orders of campaigns, in the database: by state, what needs a person first, then what runs; and by progress."""

from __future__ import annotations

from django.db.models import Avg, Case, Exists, FloatField, OuterRef, Q, Subquery, Value, When
from django.db.models.expressions import Combinable

from benchlab.runs.models import Layout
from benchlab.runs.progress import State, latest_attempts
from benchlab.runs.states import HOLDING, AttemptPhase, LayoutPhase

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
