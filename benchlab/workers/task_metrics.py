# SPDX-License-Identifier: Apache-2.0
"""Counters of Celery's tasks (outcome, wait, duration) and of the processes that run and send them.

The modules of tasks import this one, so its signal handlers are connected before the first task. A task that hands its
work to a queue (workers/fair_queue.py) ends at once; the queue counts the work.
"""

from __future__ import annotations

import time
from contextvars import ContextVar
from typing import Any

from celery.signals import (
    beat_init,
    before_task_publish,
    task_postrun,
    task_prerun,
    worker_ready,
    worker_shutdown,
)

from agents.ssh import loop
from benchlab import log_context
from benchlab.workers.process_counters import counters

# a message's header: seconds since the epoch
SENT_AT = "benchlab_sent_at"
OUTCOMES = {"SUCCESS": "succeeded", "FAILURE": "failed", "RETRY": "retried"}

# Times of this thread's task in seconds since the epoch: its message was sent, it began; 0 if there is none.
MESSAGE_SENT_AT: ContextVar[float] = ContextVar("task_sent", default=0.0)
_begun: ContextVar[float] = ContextVar("task_begun", default=0.0)


@before_task_publish.connect
def _stamp(headers: dict[str, Any] | None = None, **_: Any) -> None:
    if headers is not None:
        headers[SENT_AT] = time.time()


def sent_at() -> float:
    """Unix time at which the running task's message was sent; now if there was no message."""
    return MESSAGE_SENT_AT.get() or time.time()


def short_task_name(task: str | None) -> str:
    """ "engine.step_layout" for "benchlab.engine.tasks.step_layout"."""
    return (task or "").removeprefix("benchlab.").replace(".tasks.", ".")


@task_prerun.connect
def _task_begun(task: Any = None, **_: Any) -> None:
    header = getattr(task.request, SENT_AT, None)
    MESSAGE_SENT_AT.set(float(header) if isinstance(header, int | float) else 0.0)
    _begun.set(time.time())
    log_context.WORK.set({"task": short_task_name(task.name)})
    counters.add_duration(
        "task_wait_seconds", short_task_name(task.name), seconds=max(0.0, _begun.get() - sent_at())
    )


@task_postrun.connect
def _task_ended(task: Any = None, state: str | None = None, **_: Any) -> None:
    log_context.WORK.set(log_context.NOTHING)
    MESSAGE_SENT_AT.set(0.0)
    counters.add("tasks_total", short_task_name(task.name), OUTCOMES.get(state or "", "other"))
    counters.add_duration(
        "task_seconds", short_task_name(task.name), seconds=max(0.0, time.time() - _begun.get())
    )


def _hosts_paused() -> float:
    """Number of hosts that this process avoids for a while (agents/ssh/pool.py)."""
    now = time.monotonic()
    return sum(now < failure.until for failure in loop.pool.breaker.failures.copy().values())


@worker_ready.connect
def _worker_started(**_: Any) -> None:
    counters.gauges["hosts_paused"] = _hosts_paused
    counters.begin("worker")


@beat_init.connect
def _beat_started(**_: Any) -> None:
    counters.begin("beat")


@worker_shutdown.connect
def _worker_stopped(**_: Any) -> None:
    counters.end()
