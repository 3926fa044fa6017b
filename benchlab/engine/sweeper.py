# SPDX-License-Identifier: Apache-2.0
"""The worker's own thread that looks every second for what is due and sends it to the workers: a lost message costs
seconds, nothing else.

It is no task: in the steps' queue a sweep would wait behind the very layouts that it must repair. Every worker has one;
of several each layout is claimed by one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from datetime import timedelta

from django.db import Error, close_old_connections, connection, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from benchlab.engine import commands
from benchlab.hosts import host_tasks, package_installs
from benchlab.hosts.models import HostTask, PackageInstall
from benchlab.runs.models import Layout
from benchlab.runs.states import HOLDING, LayoutPhase
from benchlab.workers import beats, messages
from benchlab.workers.lease import Workers

log = logging.getLogger(__name__)

PERIOD_S = 1.0
# A message that no worker took by then is sent again.
STEP_AGAIN_S = 10.0
# sweeps: their query has no index, and nobody waits for a lost one by the second
PLAN_SWEEP_INTERVAL = 10
ACTIVE = (LayoutPhase.PROVISIONING, LayoutPhase.READY, LayoutPhase.TEARING_DOWN)
# per sweep, so that a long outage ends in a queue and not in a flood
MAX_PER_SWEEP = 200


class Sweeper(threading.Thread):
    """Sweeps until `stop`. Nothing that goes wrong ends it: the database or the broker may come back."""

    def __init__(self, period_s: float = PERIOD_S) -> None:
        super().__init__(name="sweeper", daemon=True)
        self.period_s = period_s
        self._stopped = threading.Event()
        self._workers = Workers()

    def run(self) -> None:
        number = 0
        while not self._stopped.is_set():
            begun = time.monotonic()
            # as Celery does before each task
            close_old_connections()
            try:
                self._workers.take_over_from_ended(step_all_now)
                sweep_once(plans=number % PLAN_SWEEP_INTERVAL == 0)
            except Error as error:
                log.warning("the sweep could not query the database: %s", error)
            except Exception:
                log.exception("the sweep broke")
            number += 1
            self._stopped.wait(max(0.0, self.period_s - (time.monotonic() - begun)))
        connection.close()

    def stop(self) -> None:
        self._stopped.set()


def sweep_once(*, plans: bool = True) -> list[int]:
    """Send each layout that is due to a worker; return which those were.

    A broker that fails once is asked no more in this round: what is left is due again by itself.
    """
    beats.beat()
    layout_ids = claim_due(due_layouts(), STEP_AGAIN_S)
    lost = (
        messages.send_each(commands.STEP, layout_ids)
        or messages.send_each(host_tasks.PERFORM, HostTask.objects.claim_due())
        or messages.send_each(package_installs.ADVANCE, PackageInstall.objects.claim_due())
    )
    if plans and not lost:
        late = claim_due(unplanned_drafts(), commands.PLAN_AGAIN_S)
        messages.send_each(commands.PLAN, late)
        layout_ids += late
    return layout_ids


def step_all_now() -> None:
    """Have every layout stepped now: polls and steps that a worker had in hand ended with it, and nobody knows whose.

    What a living worker has in hand is only looked at once more.
    """
    now = timezone.now()
    later = Layout.objects.filter(phase__in=[LayoutPhase.WAITING, *ACTIVE], next_step_at__gt=now)
    with transaction.atomic():
        Layout.objects.filter(pk__in=_locked(later)).update(next_step_at=now)


def due_layouts() -> list[int]:
    """Layouts to step now: those whose time has come, and per host the first that waits for a free host."""
    active = Layout.objects.filter(_time_has_come(), phase__in=ACTIVE)
    held = Layout.objects.filter(host=OuterRef("host"), phase__in=HOLDING)
    waiting = Layout.objects.filter(_time_has_come(), phase=LayoutPhase.WAITING).filter(
        Q(cancelled_at__isnull=False) | ~Exists(held)
    )
    ids = list(active.order_by("next_step_at").values_list("pk", flat=True)[:MAX_PER_SWEEP])
    return ids + list(waiting.order_by("pk").values_list("pk", flat=True)[:MAX_PER_SWEEP])


def unplanned_drafts() -> list[int]:
    """Drafts whose requested plan (commands.request_plans) has not come: the message, or its worker, was lost."""
    late = Layout.objects.filter(
        phase=LayoutPhase.DRAFT, planned_at=None, next_step_at__lte=timezone.now()
    )
    return list(late.order_by("next_step_at").values_list("pk", flat=True)[:MAX_PER_SWEEP])


def claim_due(ids: Iterable[int], seconds: float) -> list[int]:
    """Claim the rows that are still due, in their order; they are due again after `seconds`.

    Of two sweepers one gets each, and a worker that is behind is not sent the same layout again every second.
    """
    with transaction.atomic():
        candidates = list(ids)
        free = _locked(Layout.objects.filter(_time_has_come(), pk__in=candidates))
        again = timezone.now() + timedelta(seconds=seconds)
        Layout.objects.filter(pk__in=free).update(next_step_at=again)
    return [pk for pk in candidates if pk in free]


def _locked(rows: QuerySet[Layout]) -> set[int]:
    """Rows that nobody is changing just now, locked until the transaction ends."""
    # The default order joins the campaign, whose row would be locked too, or whose lock would keep us away.
    free = rows.order_by("pk").select_for_update(skip_locked=True, of=("self",))
    return set(free.values_list("pk", flat=True))


def _time_has_come() -> Q:
    return Q(next_step_at__isnull=True) | Q(next_step_at__lte=timezone.now())
