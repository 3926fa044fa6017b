# SPDX-License-Identifier: Apache-2.0
"""A step of one layout, short and idempotent, and the Celery tasks: an id, one step, done.

A step loads the layout's state, decides, acts and stores when the next one is due. A killed worker loses nothing but
time: the next step reads the phase from the database and the facts from the host, and goes on from there. The sweeper
sends lost messages again.
"""

from __future__ import annotations

import logging
import time
import traceback
from datetime import timedelta
from enum import Enum, auto
from typing import Any

from celery.exceptions import Reject
from celery.signals import worker_ready, worker_shutdown
from django.db import InterfaceError, OperationalError
from django.utils import timezone

from agents.contracts import AgentError
from benchlab import log_context
from benchlab.celery import app
from benchlab.engine import commands, load_state
from benchlab.engine.access import Access, all_accesses
from benchlab.engine.checks import condition, previews
from benchlab.engine.commands import wake_layouts
from benchlab.engine.decide import failed
from benchlab.engine.decisions import Decision, Nothing, Wait
from benchlab.engine.jobs import StepRows, layout_team
from benchlab.engine.polls import polls
from benchlab.engine.sweeper import Sweeper
from benchlab.hosts import ssh_access
from benchlab.runs import transitions
from benchlab.runs.states import AttemptPhase
from benchlab.workers import draining, task_metrics
from benchlab.workers.fair_queue import WorkItem, host_queue
from benchlab.workers.lease import lease
from benchlab.workers.lru_cache import LruCache

log = logging.getLogger(__name__)

# A task goes on with what follows at once for this long, then lets others have the worker.
BUDGET_S = 8.0
# A deferred layout is stepped by then, or was lost with its worker.
PUT_OFF_LIMIT_S = 30.0
# a look at a machine that another host's layout holds costs that one a reading
BUSY_S = 15.0


class _Next(Enum):
    """Time of the next step."""

    # when to look again is stored, if there is anything left to do
    LATER = auto()
    NOW = auto()
    # at once, but after the results of others
    PUT_OFF = auto()


def step_until_waiting(layout_id: int) -> None:
    """Bring one layout forward as far as goes without waiting. Safe to call at any time, by anybody, twice."""
    with lease(layout_id) as held:
        if not held:
            return
        until = time.monotonic() + BUDGET_S
        follows = _step_once(layout_id, until)
        while follows is _Next.NOW and time.monotonic() < until and not polls.drained:
            follows = _step_once(layout_id, until)
        # whoever goes on later looks again
        condition.forget_recent(layout_id)
    if follows is _Next.PUT_OFF:
        polls.defer_step(layout_id)
    elif follows is _Next.NOW or polls.drained:
        wake_layouts(layout_id)
    else:
        polls.queue_if_answered(layout_id)


def _step_once(layout_id: int, until: float) -> _Next:
    """One step. Unless there is something to do at once, when to look again is stored."""
    rows = load_state.load_rows(layout_id)
    before = log_context.WORK.set(_log_ids(rows))
    try:
        delay = _decide_and_act(rows)
    except transitions.Moved:
        return _Next.NOW
    finally:
        log_context.WORK.reset(before)
    follows = _Next.NOW if delay == 0.0 else _Next.LATER
    if (
        follows is _Next.NOW
        and not _has_running_attempt(rows)
        and polls.has_backlog(rows.layout.host.team_id)
    ):
        follows, delay = _Next.PUT_OFF, PUT_OFF_LIMIT_S
    if delay is None or (follows is _Next.NOW and time.monotonic() < until):
        transitions.store_fields(rows.layout)
    else:
        then = timezone.now() + timedelta(seconds=delay)
        transitions.store_fields(rows.layout, next_step_at=then)
    return follows


def _log_ids(rows: StepRows) -> log_context.Ids:
    """Ids for the log lines of a step."""
    layout, attempt = rows.layout, rows.attempt
    row_ids = {"campaign": layout.campaign_id, "host": layout.host_id, "layout": layout.pk}
    return {**row_ids, "run": attempt.run_id, "attempt": attempt.pk} if attempt else row_ids


def _has_running_attempt(rows: StepRows) -> bool:
    """True when the layout is on its way to a result itself."""
    on_its_way = (AttemptPhase.RUNNING, AttemptPhase.COLLECTING)
    return rows.attempt is not None and rows.attempt.phase in on_its_way


def _decide_and_act(rows: StepRows) -> float | None:
    layout = rows.layout
    way = all_accesses().get(layout.host.access)
    decide = way.RULES.get(layout.phase) if way else None
    if way is None or decide is None:
        return None
    decided: Decision = Nothing()
    state = load_state.load_state(rows)
    try:
        state = load_state.with_poll(state, rows)
        decided = decide(state)
        delay = _carry_out(way, decided, rows)
    except (transitions.Moved, OperationalError, InterfaceError):
        # A failure of the database (a deadlock, a full disk, a restart) does not concern the layout, whose job goes on:
        # the sweeper comes again.
        raise
    except transitions.MachineBusy as error:
        return _carry_out(way, Wait(BUSY_S, str(error)), rows)
    except AgentError as error:
        ssh_access.record_trouble(layout.host, error)
        after, host = load_state.after_failure(state, rows), str(layout.host)
        return _carry_out(
            way, failed.decide_after_refusal(after, host, error.reason, str(error), decided), rows
        )
    except Exception as error:
        log.exception("layout %s in %s", layout.pk, layout.phase)
        text = "".join(traceback.format_exception_only(error)).strip()
        return _carry_out(
            way, failed.decide_after_crash(load_state.after_failure(state, rows), text), rows
        )
    if layout.trouble:
        transitions.store_later(layout, trouble="")
    return delay


def _carry_out(way: Access, decided: Decision, rows: StepRows) -> float | None:
    return way.ACTIONS[type(decided)](rows, decided)


_sweepers: list[Sweeper] = []
_teams_of_drafts = LruCache(layout_team)


@app.task
def step_layout(layout_id: int) -> None:
    _reject_if_draining()
    if not polls.queue_step(layout_id, task_metrics.MESSAGE_SENT_AT.get()):
        step_until_waiting(layout_id)


@app.task
def plan_layout(layout_id: int) -> None:
    _reject_if_draining()
    host_queue.submit(
        WorkItem(
            previews.plan_drafts_of_host,
            _teams_of_drafts,
            layout_id,
            commands.PLAN,
            task_metrics.sent_at(),
        )
    )


def _reject_if_draining() -> None:
    """Celery may take one more message before it sees that it shall end: that goes back."""
    if polls.drained:
        raise Reject("this worker ends", requeue=True)


def _hand_over() -> None:
    for sweeper in _sweepers:
        sweeper.stop()
    polls.drain()


draining.hand_over.append(_hand_over)


@worker_ready.connect
def begin_sweeping(**_: Any) -> None:
    """A thread beside those that work: it finds time when they have none. What polls bring is taken up by others."""
    polls.serve_steps(step_until_waiting, layout_team)
    _sweepers.append(Sweeper())
    _sweepers[-1].start()


@worker_shutdown.connect
def end_sweeping(**_: Any) -> None:
    while _sweepers:
        _sweepers.pop().stop()
    polls.stop_serving()
