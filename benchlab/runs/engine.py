"""The small engine that acts: one idempotent step of one layout, then the database says when to look again.

A step is short (a poll, an apply, a collection), so a killed worker loses nothing but time: the next one reads the
phase from the database, the truth from the host, and goes on from there.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable
from datetime import timedelta

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.utils import timezone

from agents.contracts import RETRYABLE, AgentError, Reason
from benchlab.hosts import services as hosts
from benchlab.hosts.models import Host
from benchlab.runs import listened, moves, provision, running, teardown
from benchlab.runs.commands import drop, nudge
from benchlab.runs.lease import lease
from benchlab.runs.models import Layout
from benchlab.runs.states import AttemptPhase, LayoutPhase, Outcome

log = logging.getLogger(__name__)

BUDGET_S = (
    8.0  # a task goes on with what follows at once for this long, then lets others have the worker
)
HEARTBEAT_S = (
    10.0  # when a worker dies in a step, the sweeper takes the layout up again after this long
)
BACKOFF_S = 5.0
BUSY_S = 15.0  # a look at a machine that another host's layout holds costs that one a reading

# A handler does one thing and says in how many seconds to look again; None: there is nothing left to do.
Handler = Callable[[Layout], float | None]
HANDLERS: dict[str, Handler] = {
    LayoutPhase.WAITING: provision.wait,
    LayoutPhase.PROVISIONING: provision.build,
    LayoutPhase.READY: running.step,
    LayoutPhase.TEARING_DOWN: teardown.step,
}
# On hosts that only dynamo reaches.
LISTENED: dict[str, Handler] = {
    LayoutPhase.WAITING: provision.wait,
    LayoutPhase.PROVISIONING: listened.build,
    LayoutPhase.READY: listened.step,
    LayoutPhase.TEARING_DOWN: listened.take_down,
}


def step(layout_id: int) -> None:
    """Bring one layout forward as far as goes without waiting. Safe to call at any time, by anybody, twice."""
    with lease(layout_id) as held:
        if not held:
            return
        until = time.monotonic() + BUDGET_S
        delay = _once(layout_id)
        while delay == 0.0 and time.monotonic() < until:
            delay = _once(layout_id)
    if delay is not None:
        Layout.objects.filter(pk=layout_id).update(
            next_step_at=timezone.now() + timedelta(seconds=delay)
        )
    if delay == 0.0:
        nudge(layout_id)


def _once(layout_id: int) -> float | None:
    layout = Layout.objects.select_related("host__credential", "campaign", "topology").get(
        pk=layout_id
    )
    known = LISTENED if layout.host.access == Host.Access.DYNAMO else HANDLERS
    handler = known.get(layout.phase)
    if handler is None:
        return None
    # First push the next look forward, then act: a layout whose step raises cannot spin.
    moves.note(layout, next_step_at=timezone.now() + timedelta(seconds=HEARTBEAT_S))
    try:
        delay = handler(layout)
    except moves.Moved:
        return 0.0
    except moves.MachineBusy as error:
        moves.note(layout, trouble=str(error))
        return BUSY_S
    except AgentError as error:
        return _refused(layout, error)
    except (OperationalError, InterfaceError):
        # The database's trouble (a deadlock, a full disk, a restart) says nothing of the layout, whose job goes on:
        # the sweeper comes again.
        raise
    except Exception as error:
        log.exception("layout %s in %s", layout_id, layout.phase)
        return _broke(layout, error)
    if layout.trouble:
        moves.note(layout, trouble="")
    return delay


def _refused(layout: Layout, error: AgentError) -> float | None:
    """The host or a tool said no. What may pass is tried again until the host counts as lost."""
    hosts.record_trouble(layout.host, error)
    if error.reason in RETRYABLE:
        silent = timezone.now() - (layout.seen_at or layout.created_at)
        if layout.phase == LayoutPhase.WAITING or silent.total_seconds() < _patience_s(layout):
            moves.note(layout, trouble=str(error))
            return BACKOFF_S
        error = AgentError(
            f"{layout.host} did not answer for {silent.total_seconds() / 60:.0f} minutes; "
            f"last time: {error}",
            Reason.HOST_LOST,
        )
    outcome = Outcome.INTERRUPTED if error.reason in INTERRUPTIONS else Outcome.FAILED
    return _end(layout, outcome, error.reason, str(error))


INTERRUPTIONS = {Reason.HOST_LOST, Reason.HOST_REBOOTED, Reason.WORKER_LOST}


def _patience_s(layout: Layout) -> float:
    """How long a silent host is waited for: a job that runs there goes on without us, to its own limit."""
    running = layout.attempts.filter(phase=AttemptPhase.RUNNING).first()
    return settings.BENCHLAB_LOST_AFTER_S + (running.timeout_s if running else 0.0)


def _broke(layout: Layout, error: Exception) -> float | None:
    """Our own code broke: say so, with the traceback in the log, and still take down what stands."""
    text = "".join(traceback.format_exception_only(error)).strip()
    return _end(layout, Outcome.ERRORED, Reason.INTERNAL, f"BenchLab itself failed: {text}")


def _end(layout: Layout, outcome: Outcome, reason: Reason, text: str) -> float | None:
    if layout.phase == LayoutPhase.WAITING:
        drop(layout, outcome, text, reason)
        return None
    if layout.phase == LayoutPhase.TEARING_DOWN:
        return teardown.stick(layout, reason, text)
    moves.begin_teardown(layout, outcome, reason, text)
    return 0.0
