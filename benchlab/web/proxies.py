# SPDX-License-Identifier: Apache-2.0
"""Headers that a proxy in front must send (docs/deploying.md): where one is missing, a page names it.

Without it there would be a redirect without end, or a log-in that fails for a reason that nobody can see.
"""

from __future__ import annotations

import logging
from functools import cache

from django.conf import settings
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.utils.deprecation import MiddlewareMixin

from benchlab.web import errors

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
