# SPDX-License-Identifier: Apache-2.0
"""/metrics: the whole installation's metrics for Prometheus, in its text format or as OpenMetrics, as Accept says.

For whoever has the token BENCHLAB_METRICS_TOKEN, or an API token of a site admin that is not limited, as
`Authorization: Bearer ...`. What comes from PostgreSQL and Valkey is read when asked; what only a process knows it
counts itself (benchlab/workers/process_counters.py). A part that cannot be read is left out, and scrape_ok says which.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import logging
import shutil
import time
from collections.abc import Callable, Iterable
from typing import Any

import psycopg
import redis
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import PermissionDenied
from django.db import Error
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import CollectorRegistry
from psycopg_pool import PoolTimeout
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

import benchlab
from benchlab.celery import app
from benchlab.metrics import database
from benchlab.metrics.table import Samples, families, samples_by_metric
from benchlab.team.enforcement import check_level
from benchlab.team.levels import SITE_ADMIN
from benchlab.team.tokens import TokenAuthentication
from benchlab.up.state import state_from_environment
from benchlab.web.errors import RETRY_SECONDS
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

log = logging.getLogger(__name__)

AWAY = (redis.RedisError, psycopg.Error, Error, PoolTimeout, OSError)
OFF = "There are no metrics here: set BENCHLAB_METRICS_TOKEN, or ask with an API token of a site admin.\n"
NO_DATABASE = "API tokens cannot be looked up now; BENCHLAB_METRICS_TOKEN needs no database.\n"
NEEDS = "Metrics need BENCHLAB_METRICS_TOKEN or an API token of a site admin, as Authorization: Bearer TOKEN.\n"


@never_cache
@login_not_required
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """401 without such a token; 404 where none is set and nobody's is shown; 503 while no token can be looked up."""
    try:
        if not (_has_the_token(request) or _is_site_admins(request)):
            return _unauthorized_response()
    except AWAY as error:
        log.warning("metrics: an API token cannot be looked up: %s", error)
        answer = HttpResponse(NO_DATABASE, status=503, content_type="text/plain")
        answer["Retry-After"] = str(RETRY_SECONDS)
        return answer
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(MetricsCollector())
    return HttpResponse(encode(registry), content_type=content_type)


def _unauthorized_response() -> HttpResponse:
    if not settings.BENCHLAB_METRICS_TOKEN:
        return HttpResponse(OFF, status=404, content_type="text/plain")
    answer = HttpResponse(NEEDS, status=401, content_type="text/plain")
    answer["WWW-Authenticate"] = 'Bearer realm="metrics"'
    return answer


def _has_the_token(request: HttpRequest) -> bool:
    """Compared in a time that says nothing of it."""
    word, _, token = request.headers.get("Authorization", "").partition(" ")
    expected = settings.BENCHLAB_METRICS_TOKEN
    same = hmac.compare_digest(token.strip().encode(), expected.encode())
    return bool(expected) and word.lower() == "bearer" and same


def _is_site_admins(request: HttpRequest) -> bool:
    try:
        user_and_token = TokenAuthentication().authenticate(Request(request))
        if user_and_token is None:
            return False
        check_level(user_and_token[0], SITE_ADMIN)
    except (AuthenticationFailed, PermissionDenied):
        return False
    return True


class MetricsCollector:
    """A collector as the library wants it, which reads all anew."""

    def collect(self) -> Iterable[Family]:
        read: dict[str, Samples] = {"info": {(benchlab.__version__,): 1.0}}
        ok, took = Samples(), Samples()
        parts: dict[str, Callable[[], dict[str, Samples]]] = {
            "broker": read_broker,
            "database": database.read_database,
            "machine": _state_directory_samples,
        }
        for name, read_part in parts.items():
            begun = time.perf_counter()
            try:
                read |= read_part()
                ok[name,] = 1.0
            except AWAY as error:
                log.warning("metrics without the %s: %s", name, error)
                ok[name,] = 0.0
            took[name,] = time.perf_counter() - begun
        return families({**read, "scrape_ok": ok, "scrape_seconds": took})


def _state_directory_samples() -> dict[str, Samples]:
    path = state_from_environment().path
    if not path.exists():
        return {"state_free_bytes": {}, "state_size_bytes": {}}
    usage = shutil.disk_usage(path)
    return {
        "state_free_bytes": {(): float(usage.free)},
        "state_size_bytes": {(): float(usage.total)},
    }


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
