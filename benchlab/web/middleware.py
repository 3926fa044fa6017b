# SPDX-License-Identifier: Apache-2.0
"""Middleware: proxy headers, attachments, caches, compression, static files, and the id of each request.

An attachment is never a page of ours: a host printed or somebody uploaded it. No shared cache keeps what one
person saw, and no "back" shows it after log-out. Where a proxy does not send the headers that it must
(docs/deploying.md), a page names them: there would be a redirect without end, or a log-in that fails unseen.
"""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from asgiref.sync import async_to_sync
from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.exceptions import BadRequest
from django.core.management import call_command
from django.core.signals import request_finished
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.utils.cache import patch_cache_control
from django.utils.deprecation import MiddlewareMixin
from servestatic.middleware import ServeStaticMiddleware

from benchlab import log_context
from benchlab.web import errors
from benchlab.workers.process_counters import counters

log = logging.getLogger(__name__)
PROTO, FOR = "X-Forwarded-Proto", "X-Forwarded-For"
NO_PROTO = (
    f"BENCHLAB_HTTPS is set, so TLS ends in a proxy in front of BenchLab, but this request has no {PROTO}."
    " Whoever runs the proxy lets it send that header, with https for what came by TLS."
)
# Browsers send Sec-Fetch-Mode by TLS only, and to this very machine.
WRONG_PROTO = (
    f"Your browser came by TLS, but the proxy in front of BenchLab says {PROTO}: http. The outermost proxy sets that"
    " header; those behind it pass it on."
)
LOCAL_PREFIXES = ("localhost", "127.", "[::1]")


class ProxyHeadersMiddleware(MiddlewareMixin):
    """It must come before what redirects to https."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        why = _without_scheme(request) or _without_address(request)
        return errors.bad_request(request, BadRequest(why)) if why else None


def _without_scheme(request: HttpRequest) -> str:
    if not settings.SECURE_SSL_REDIRECT or request.is_secure():
        return ""
    if PROTO not in request.headers:
        return NO_PROTO
    by_tls = "Sec-Fetch-Mode" in request.headers
    return (
        WRONG_PROTO
        if by_tls and not request.headers.get("Host", "").startswith(LOCAL_PREFIXES)
        else ""
    )


def _without_address(request: HttpRequest) -> str:
    """Too few of them; a request with none is one from this machine, or of a proxy that tells nobody's."""
    proxies = settings.ALLAUTH_TRUSTED_PROXY_COUNT
    addresses = request.headers.get(FOR, "")
    if proxies and not addresses:
        _warn_once(proxies)
    count = len(addresses.split(",")) if addresses else proxies
    if count >= proxies:
        return ""
    return (
        f"BENCHLAB_PROXIES is {proxies}, but {FOR} names {count}: it has an address for each proxy that the request"
        " passed. Set BENCHLAB_PROXIES to the number of proxies, and let each of them append to that header."
    )


@cache
def _warn_once(proxies: int) -> None:
    log.warning(
        "BENCHLAB_PROXIES is %d, but a request has no %s: if it came through your proxy, log-in limits and the audit"
        " log take all people for one client (docs/deploying.md)",
        proxies,
        FOR,
    )


POLICY = "default-src 'none'; sandbox; frame-ancestors 'none'"


class AttachmentSandboxMiddleware(MiddlewareMixin):
    """It must come after the CSP middleware in the list: a policy that is there already is kept by that."""

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        if response.get("Content-Disposition", "").startswith("attachment"):
            response["Content-Security-Policy"] = POLICY
            response["X-Content-Type-Options"] = "nosniff"
        return response


class PrivateCacheMiddleware(MiddlewareMixin):
    """An answer that says nothing is stored nowhere; one that may be kept, to be asked about again, by its reader only.

    Static files do not come here: they are answered before, and may be kept by everybody.
    """

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        policy = response.get("Cache-Control", "")
        if not policy:
            patch_cache_control(response, private=True, no_store=True)
        elif "no-store" not in policy:
            patch_cache_control(response, private=True)
        return response


TEXTS = ("text/", "application/json", "application/problem+json", "image/svg+xml")


class CompressionMiddleware(GZipMiddleware):
    """Django's own, for texts that are whole. It must come after what serves static files: those are compressed once.

    What is streamed is left as it is: an event must leave at once, and an export must see that its asker hung up.
    """

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        if response.streaming or not response.get("Content-Type", "").startswith(TEXTS):
            return response
        return super().process_response(request, response)


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


STAMP = "benchlab-collected"


def collect_static_files() -> bool:
    """Put them to BENCHLAB_STATIC, unless the same lie there; whether that was needed. Old ones stay: a page that is
    open may still ask for them."""
    stamp = Path(settings.STATIC_ROOT) / STAMP
    now = _sources_digest()
    if stamp.is_file() and stamp.read_text() == now:
        return False
    call_command("collectstatic", interactive=False, verbosity=0)
    stamp.write_text(now)
    return True


def _sources_digest() -> str:
    """A hash over names, sizes and times of all that would be collected."""
    digest = hashlib.sha256()
    for finder in get_finders():
        for name, storage in finder.list([]):
            at = Path(storage.path(name)).stat()
            digest.update(f"{name} {at.st_size} {at.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def serve_static_files(get_response: Answer) -> Answer:
    """Middleware: servestatic's files. Its own is a coroutine, for which each page would change threads four times."""

    async def never(request: HttpRequest) -> HttpResponseBase:
        # it is not asked about pages
        raise NotImplementedError

    files = ServeStaticMiddleware(never)

    def serve_file(request: HttpRequest) -> HttpResponseBase:
        path = request.path_info
        file = files.find_file(path) if files.autorefresh else files.files.get(path)
        return get_response(request) if file is None else async_to_sync(files.aserve)(file, request)

    return serve_file
