# SPDX-License-Identifier: Apache-2.0
"""State of the whole installation as Valkey has it: counters of all processes, who is alive, what waits."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

from benchlab.celery import app
from benchlab.metrics.table import Samples, samples_by_metric
from benchlab.workers import beats
from benchlab.workers.process_counters import (
    COUNTS,
    PROCESSES,
    TIMES,
    Process,
    counters,
    parse_counts,
    parse_processes,
)
from benchlab.workers.task_metrics import SENT_AT

# Each installation has these, and some a listener for dynamos.
ROLES = ("web", "worker", "beat")
ALIVE_S = 30.0
MOST_PROCESSES = 100
# kombu's hash
UNACKNOWLEDGED = "unacked"


def read_broker() -> dict[str, Samples]:
    """Read every metric that Valkey holds, in two round trips. Raises redis.RedisError."""
    counters.hand_over()
    queue = app.conf.task_default_queue
    pipeline: Any = beats.client().pipeline(transaction=False)
    for name in (COUNTS, PROCESSES, TIMES):
        pipeline.hgetall(beats.installation_key(name))
    pipeline.get(beats.installation_key(beats.SWEPT))
    # Messages are pushed on the left, and taken from the right
    pipeline.llen(queue).lindex(queue, -1).hlen(UNACKNOWLEDGED)
    counted_there, process_reports, times, swept, waiting, oldest, unacknowledged = (
        pipeline.execute()
    )
    alive = parse_processes(process_reports)
    _forget_processes(set(process_reports) - {process.name.encode() for process in alive})
    return {
        **samples_by_metric(parse_counts(counted_there)),
        **_process_samples(alive),
        "queue_messages": {(queue,): float(waiting)},
        "queue_oldest_message_seconds": {(queue,): _age_s(oldest)},
        "queue_unacknowledged_messages": {(): float(unacknowledged)},
        "worker_swept_timestamp_seconds": _timestamp_sample(swept),
        "backup_timestamp_seconds": _timestamp_sample(times.get(b"backup")),
    }


def _forget_processes(names: set[bytes]) -> None:
    """Remove the entries of killed processes: each start adds one."""
    if names:
        beats.client().hdel(beats.installation_key(PROCESSES), *names)


def _process_samples(alive: list[Process]) -> dict[str, Samples]:
    reported = [process for process in alive if time.time() - process.at < ALIVE_S]
    roles = {*ROLES, *(process.role for process in reported)}

    def total(gauge: str) -> Samples:
        return {(): sum(process.gauges.get(gauge, 0.0) for process in reported)}

    return {
        "processes": {
            (role,): float(sum(process.role == role for process in reported)) for role in roles
        },
        "process_reported_timestamp_seconds": {
            (process.role, process.name): process.at for process in alive[:MOST_PROCESSES]
        },
        "http_connections": total("connections"),
        "http_streams": total("streams"),
        "hosts_paused": total("hosts_paused"),
    }


def _age_s(message: bytes | None) -> float:
    """Age of a kombu message in seconds; 0 if there is none, or if it does not say when it was sent."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        headers: dict[str, Any] = json.loads(message or b"")["headers"]
        return max(0.0, time.time() - float(headers[SENT_AT]))
    return 0.0


def _timestamp_sample(timestamp: bytes | None) -> Samples:
    """The sample of a timestamp; no sample if it is unknown, as 0 would mean 1970."""
    return {(): float(timestamp)} if timestamp else {}
