"""Campaigns in the order of their states, in the database: what needs a person is first, then what runs."""

from __future__ import annotations

from django.db.models import Case, Exists, OuterRef, Q, Value, When
from django.db.models.expressions import Combinable

from benchlab.runs.models import Layout
from benchlab.runs.progress import State
from benchlab.runs.states import HOLDING, LayoutPhase

ORDER = (
    State.STUCK,
    State.ASKS,
    State.RUNNING,
    State.CANCELLING,
    State.QUEUED,
    State.PAUSED,
    State.DRAFT,
    State.DONE,
    State.CANCELLED,
)


def rank() -> Combinable:
    """Place in ORDER of a Campaign's row: what `progress.state` says of it."""
    own = Layout.objects.filter(campaign=OuterRef("pk")).order_by()
    still_open = Q(Exists(own.exclude(phase__in=(LayoutPhase.DRAFT, LayoutPhase.DONE))))
    cancelled = Q(cancelled_at__isnull=False)
    found = (
        (State.STUCK, Q(Exists(own.filter(phase=LayoutPhase.STUCK)))),
        (State.ASKS, Q(Exists(own.exclude(needs_person="")))),
        (State.CANCELLING, still_open & cancelled),
        (State.PAUSED, still_open & Q(paused_at__isnull=False)),
        (State.RUNNING, Q(Exists(own.filter(phase__in=HOLDING)))),
        (State.QUEUED, still_open),
        (State.DRAFT, Q(Exists(own.filter(phase=LayoutPhase.DRAFT)))),
        (State.CANCELLED, cancelled),
    )
    places = [When(so, then=Value(ORDER.index(state))) for state, so in found]
    return Case(*places, default=Value(ORDER.index(State.DONE)))
