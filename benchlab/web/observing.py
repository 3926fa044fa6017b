# SPDX-License-Identifier: Apache-2.0
"""Middleware around all others: requests are counted, and have an id that their log lines and their answer bear."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from django.core.signals import request_finished
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponseBase

from benchlab import log_context
from benchlab.workers.process_counters import counters

HEADER = "X-Request-ID"
VALID_REQUEST_ID = re.compile(r"[0-9A-Za-z_.:=/+-]{6,128}")
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# The kinds of rows whose id is the `pk` of an address that is named after them.
NOUNS = frozenset({"campaign", "host", "layout", "attempt", "run"})
# Classes of addresses, by what their names end with; the others are pages.
ENDINGS = {
    "figure": ("figure", "strips"),
    "stream": ("events",),
    "download": ("csv", "download", "file", "raw", "made"),
    "probe": ("healthz", "readyz", "metrics"),
}
CLASSES = {ending: kind for kind, endings in ENDINGS.items() for ending in endings}

Answer = Callable[[HttpRequest], HttpResponseBase]


def observe_requests(get_response: Answer) -> Answer:
    """The middleware. Durations are until an answer begins: a stream goes on for as long as its page is open."""

    def observe(request: HttpRequest) -> HttpResponseBase:
        begun = time.perf_counter()
        sent_id = request.headers.get(HEADER, "")
        request_id = sent_id if VALID_REQUEST_ID.fullmatch(sent_id) else secrets.token_hex(8)
        log_context.REQUEST.set(partial(_log_ids, request, request_id))
        response = get_response(request)
        response[HEADER] = request_id
        kind = route_class(request)
        method = request.method if request.method in METHODS else "other"
        counters.add("http_requests_total", kind, str(method), str(response.status_code))
        counters.add_duration("http_request_seconds", kind, seconds=time.perf_counter() - begun)
        return response

    return observe


def route_class(request: HttpRequest) -> str:
    """One of a few: addresses have ids in them, and strangers make up others."""
    match = request.resolver_match
    # also what an outer middleware answers, such as files
    if match is None:
        return "static" if request.path_info.startswith("/static/") else "none"
    if request.path_info.startswith("/api/"):
        return "api"
    if request.path_info.startswith("/s/"):
        return "shared"
    return CLASSES.get((match.url_name or "").rpartition("-")[2], "page")


def _log_ids(request: HttpRequest, request_id: str) -> log_context.Ids:
    """Return the ids known by now, without a query: a log line about the database must not need the database."""
    ids: dict[str, int | str] = {"request_id": request_id}
    attributes: dict[str, Any] = request.__dict__
    # The session's person, once somebody asked; a token's is put in its place by REST framework.
    user = attributes.get("user")
    if hasattr(type(user), "_wrapped"):
        user = attributes.get("_cached_user")
    if (pk := getattr(user, "pk", None)) is not None:
        ids["user"] = int(pk)
    match = request.resolver_match
    if match is not None:
        noun = (match.url_name or "").partition("-")[0]
        if noun in NOUNS and str(match.kwargs.get("pk", "")).isdigit():
            ids[noun] = int(match.kwargs["pk"])
    return ids


@receiver(request_finished)
def _clear_request_ids(**_: Any) -> None:
    """Else what this thread does next, for nobody, would bear the last one's id."""
    log_context.REQUEST.set(None)
