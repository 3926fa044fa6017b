"""Due work. A worker's sweeper (sweeper.py) asks every second; a lost message costs seconds, nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from benchlab.runs.models import Layout
from benchlab.runs.states import HOLDING, LayoutPhase

AT_MOST = 200  # per sweep, so that a long outage ends in a queue and not in a flood


def due() -> list[int]:
    """Layouts to step now: those whose time has come, and per host the first that waits for a free host."""
    active = Layout.objects.filter(
        _time_has_come(),
        phase__in=[LayoutPhase.PROVISIONING, LayoutPhase.READY, LayoutPhase.TEARING_DOWN],
    )
    held = Layout.objects.filter(host=OuterRef("host"), phase__in=HOLDING)
    waiting = Layout.objects.filter(_time_has_come(), phase=LayoutPhase.WAITING).filter(
        Q(cancelled_at__isnull=False) | ~Exists(held)
    )
    ids = list(active.order_by("next_step_at").values_list("pk", flat=True)[:AT_MOST])
    return ids + list(waiting.order_by("pk").values_list("pk", flat=True)[:AT_MOST])


def unplanned() -> list[int]:
    """Drafts whose plan was asked for (commands.plan) and has not come: the message, or its worker, was lost."""
    late = Layout.objects.filter(
        phase=LayoutPhase.DRAFT, planned_at=None, next_step_at__lte=timezone.now()
    )
    return list(late.order_by("next_step_at").values_list("pk", flat=True)[:AT_MOST])


def claim(ids: Iterable[int], seconds: float) -> list[int]:
    """Those of them that are still due, in their order; they are due again so long from now.

    Of two sweepers one gets each, and a worker that is behind is not sent the same layout again every second.
    """
    with transaction.atomic():
        wanted = list(ids)
        # Ordered by its campaign, as it is by itself, a row of that would be locked too, or keep us away by its lock.
        rows = Layout.objects.filter(_time_has_come(), pk__in=wanted).order_by("pk")
        locked = rows.select_for_update(skip_locked=True, of=("self",))
        free = set(locked.values_list("pk", flat=True))
        again = timezone.now() + timedelta(seconds=seconds)
        Layout.objects.filter(pk__in=free).update(next_step_at=again)
    return [pk for pk in wanted if pk in free]


def _time_has_come() -> Q:
    return Q(next_step_at__isnull=True) | Q(next_step_at__lte=timezone.now())
