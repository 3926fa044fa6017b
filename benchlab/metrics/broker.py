# SPDX-License-Identifier: Apache-2.0
"""State of the whole installation as Valkey has it: counters of all processes, who is alive, what waits."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

from benchlab.celery import app
from benchlab.metrics.table import Samples, counted
from benchlab.workers import beats
from benchlab.workers.counting import SENT_AT
from benchlab.workers.tally import (
    COUNTS,
    PROCESSES,
    TIMES,
    Process,
    counts,
    processes,
    tally,
)

# Each installation has these, and some a listener for dynamos.
ROLES = ("web", "worker", "beat")
ALIVE_S = 30.0
MOST_PROCESSES = 100
# kombu's hash
UNACKNOWLEDGED = "unacked"


def read() -> dict[str, Samples]:
    """In two round trips. Raises redis.RedisError."""
    tally.hand_over()
    queue = app.conf.task_default_queue
    pipeline: Any = beats.client().pipeline(transaction=False)
    for name in (COUNTS, PROCESSES, TIMES):
        pipeline.hgetall(beats.key(name))
    pipeline.get(beats.key(beats.SWEPT))
    # Messages are pushed on the left, and taken from the right
    pipeline.llen(queue).lindex(queue, -1).hlen(UNACKNOWLEDGED)
    counted_there, said, times, swept, waiting, oldest, taken = pipeline.execute()
    alive = processes(said)
    _forget(set(said) - {one.name.encode() for one in alive})
    return {
        **counted(counts(counted_there)),
        **_processes(alive),
        "queue_messages": {(queue,): float(waiting)},
        "queue_oldest_message_seconds": {(queue,): _age_s(oldest)},
        "queue_unacknowledged_messages": {(): float(taken)},
        "worker_swept_timestamp_seconds": _time(swept),
        "backup_timestamp_seconds": _time(times.get(b"backup")),
    }


def _forget(names: set[bytes]) -> None:
    """Processes that were killed: each start adds one."""
    if names:
        beats.client().hdel(beats.key(PROCESSES), *names)


def _processes(alive: list[Process]) -> dict[str, Samples]:
    reported = [one for one in alive if time.time() - one.at < ALIVE_S]
    roles = {*ROLES, *(one.role for one in reported)}

    def total(gauge: str) -> Samples:
        return {(): sum(one.gauges.get(gauge, 0.0) for one in reported)}

    return {
        "processes": {(role,): float(sum(one.role == role for one in reported)) for role in roles},
        "process_reported_timestamp_seconds": {
            (one.role, one.name): one.at for one in alive[:MOST_PROCESSES]
        },
        "http_connections": total("connections"),
        "http_streams": total("streams"),
        "hosts_paused": total("hosts_paused"),
    }


def _age_s(message: bytes | None) -> float:
    """Of a message as kombu has it; 0 for none, and for one that does not say when it was sent."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        headers: dict[str, Any] = json.loads(message or b"")["headers"]
        return max(0.0, time.time() - float(headers[SENT_AT]))
    return 0.0


def _time(said: bytes | None) -> Samples:
    """Nothing where it is not known: 0 would be 1970."""
    return {(): float(said)} if said else {}
