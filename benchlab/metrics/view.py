# SPDX-License-Identifier: Apache-2.0
"""/metrics: the whole installation's metrics for Prometheus, in its text format or as OpenMetrics, as Accept says.

For whoever has the token BENCHLAB_METRICS_TOKEN, or an API token of a site admin that is not limited, as
`Authorization: Bearer ...`. What comes from PostgreSQL and Valkey is read when asked; what only a process knows it
counts itself (benchlab/workers/process_counters.py). A part that cannot be read is left out, and scrape_ok says which.
"""

from __future__ import annotations

import hmac
import logging
import shutil
import time
from collections.abc import Callable, Iterable

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
from benchlab.metrics import broker, database
from benchlab.metrics.table import Samples, families
from benchlab.team.enforcement import check_level
from benchlab.team.levels import SITE_ADMIN
from benchlab.team.tokens import TokenAuthentication
from benchlab.up.state import state_from_environment
from benchlab.web.errors import RETRY_SECONDS

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
            "broker": broker.read_broker,
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
