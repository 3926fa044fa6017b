# SPDX-License-Identifier: Apache-2.0
"""Health checks. /healthz: the web server is alive. /readyz: whether this lab can work now, part by part; for load
balancers, and for whoever asks why nothing moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import redis
from django.contrib.auth.decorators import login_not_required
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.log import log_response
from django.views.decorators.cache import never_cache

from benchlab.web.errors import RETRY_SECONDS
from benchlab.workers import beats

# a worker sweeps every second
SILENT_S = 30.0
NEVER = "never seen"
# Whoever asks gives up after a few seconds
CONNECT_S = 1.0


@login_not_required
def healthy(request: HttpRequest) -> HttpResponse:
    """Answer health checks and `up` without touching the database or the broker."""
    return HttpResponse("ok\n", content_type="text/plain")


@never_cache
@login_not_required
def ready(request: HttpRequest) -> JsonResponse:
    """200 and "ok" for each part, or 503 and what is wrong with it; no part keeps the others from being asked."""
    parts: dict[str, Callable[[], str]] = {
        "database": database,
        "broker": broker,
        "worker": worker,
    }
    answers = {name: check_part() for name, check_part in parts.items()}
    missed = {name: trouble for name, trouble in answers.items() if trouble != "ok"}
    answer = JsonResponse(answers, status=503 if missed else 200)
    if missed:
        answer["Retry-After"] = str(RETRY_SECONDS)
        _log(request, answer, missed)
    return answer


def _log(request: HttpRequest, answer: JsonResponse, missed: dict[str, str]) -> None:
    """Log the response ourselves, because Django logs every 503 as an error.

    Every start waits some seconds for its first worker.
    """
    log_response(
        "not ready: %s",
        ", ".join(f"{name} {trouble}" for name, trouble in missed.items()),
        response=answer,
        request=request,
        level="info" if missed == {"worker": NEVER} else "warning",
    )


def database() -> str:
    """State of the database, over the connection pool if there is one, but with a shorter wait than a page's."""
    pool = getattr(connection, "pool", None)
    if pool:
        # No page may have been requested yet.
        pool.open()
    try:
        with pool.connection(CONNECT_S) if pool else _connect() as own:
            own.execute("SELECT 1")
    except psycopg.Error as error:
        return f"no connection: {type(error).__name__}"
    return "ok"


def _connect() -> psycopg.Connection[Any]:
    return psycopg.connect(
        **{**connection.get_connection_params(), "connect_timeout": int(CONNECT_S)}
    )


def broker() -> str:
    try:
        beats.age_s()
    except redis.RedisError as error:
        return f"no answer: {type(error).__name__}"
    return "ok"


def worker() -> str:
    try:
        age = beats.age_s()
    except redis.RedisError:
        return "not known without the broker"
    if age is None:
        return NEVER
    return "ok" if age <= SILENT_S else f"silent for {age:.0f} s"
