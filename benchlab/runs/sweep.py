"""What is due. Beat asks every few seconds; a message that got lost costs that long and nothing else."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from benchlab.runs.models import Layout
from benchlab.runs.states import HOLDING, LayoutPhase

AT_MOST = 200  # per sweep, so that a long outage ends in a queue and not in a flood


def due() -> list[int]:
    """Layouts to step now: those whose time has come, and per host the first that waits for a free host."""
    now = timezone.now()
    active = Layout.objects.filter(
        phase__in=[LayoutPhase.PROVISIONING, LayoutPhase.READY, LayoutPhase.TEARING_DOWN]
    ).filter(Q(next_step_at__isnull=True) | Q(next_step_at__lte=now))
    held = Layout.objects.filter(host=OuterRef("host"), phase__in=HOLDING)
    waiting = (
        Layout.objects.filter(phase=LayoutPhase.WAITING)
        .filter(Q(next_step_at__isnull=True) | Q(next_step_at__lte=now))
        .filter(Q(cancelled_at__isnull=False) | ~Exists(held))
    )
    ids = list(active.order_by("next_step_at").values_list("pk", flat=True)[:AT_MOST])
    return ids + list(waiting.order_by("pk").values_list("pk", flat=True)[:AT_MOST])
