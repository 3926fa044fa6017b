# SPDX-License-Identifier: Apache-2.0
"""Request limits per minute of a token, and of all tokens of a person together; generous, by environment.

Each answer has what is left of the limit that is nearest: RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset of
https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers-06, the last in seconds from now.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest, HttpResponseBase
from django.utils.deprecation import MiddlewareMixin
from redis.exceptions import RedisError
from rest_framework.throttling import BaseThrottle

from benchlab.team.login_limits import client_network
from benchlab.team.models import ApiToken
from benchlab.web.errors import RETRY_SECONDS

# rest_framework.views itself imports this module
if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.views import APIView

MINUTE_SECONDS = 60
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Budget:
    """Requests of this minute: how many one may send, and how many are left."""

    limit: int
    remaining: int


class RateLimitMiddleware(MiddlewareMixin):
    """Puts the limit that the request is nearest to into its answer, also into a refusal and a stream."""

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        budget: Budget | None = getattr(request, "rate_budget", None)
        if budget is not None:
            response["RateLimit-Limit"] = str(budget.limit)
            response["RateLimit-Remaining"] = str(budget.remaining)
            response["RateLimit-Reset"] = str(math.ceil(_seconds_left()))
        return response


class MinuteThrottle(BaseThrottle):
    """Counts in Redis, for all web processes together; without Redis each process counts by itself."""

    scope: ClassVar[str]

    def allow_request(self, request: Request, view: APIView) -> bool:
        return allow_call(request._request, self.scope, self.throttle_key(request, view))

    def wait(self) -> float:
        """Seconds until the next minute."""
        return _seconds_left()

    def throttle_key(self, request: Request, view: Any) -> str:
        """Empty: not counted."""
        return str(request.user.pk or "")


class UserThrottle(MinuteThrottle):
    scope = "user"


class TokenThrottle(MinuteThrottle):
    scope = "token"

    def throttle_key(self, request: Request, view: Any) -> str:
        return str(request.auth.pk) if isinstance(request.auth, ApiToken) else ""


class ExportThrottle(MinuteThrottle):
    """Each may take seconds of the database's time."""

    scope = "export"

    def throttle_key(self, request: Request, view: Any) -> str:
        return super().throttle_key(request, view) if getattr(view, "exports", False) else ""


class DiagnosisThrottle(MinuteThrottle):
    """Each may take seconds of CPU time. Guests are counted by their address."""

    scope = "diagnosis"

    def throttle_key(self, request: Request, view: Any) -> str:
        return super().throttle_key(request, view) or client_network(request._request)


def allow_diagnosis(request: HttpRequest) -> bool:
    """Count a page's diagnosis as the API's are; False if it is one too many in this minute."""
    whose = str(request.user.pk or "") or client_network(request)
    return allow_call(request, DiagnosisThrottle.scope, whose)


def allow_call(request: HttpRequest, scope: str, whose: str) -> bool:
    """Count a call; False if it is one too many in this minute. An empty `whose` is not counted."""
    most = settings.BENCHLAB_API_RATES[scope]
    if not whose or not most:
        return True
    used = count_call(f"rate:{scope}:{whose}:{int(time.time() // MINUTE_SECONDS)}")
    if used:
        _record_budget(request, Budget(most, max(most - used, 0)))
    return used <= most


def _record_budget(request: HttpRequest, budget: Budget) -> None:
    """The nearest of the limits that the request counts for."""
    nearest: Budget | None = getattr(request, "rate_budget", None)
    if nearest is None or budget.remaining < nearest.remaining:
        request.rate_budget = budget  # type: ignore[attr-defined]


def _seconds_left() -> float:
    return MINUTE_SECONDS - time.time() % MINUTE_SECONDS


class LocalCounts:
    """Counts of this process, while Redis is away; that is asked again after RETRY_S, not each time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._minute = 0
        self._away_until = 0.0

    def mark_redis_away(self) -> None:
        self._away_until = time.monotonic() + RETRY_SECONDS

    @property
    def is_active(self) -> bool:
        return time.monotonic() < self._away_until

    def count_call(self, key: str) -> int:
        with self._lock:
            if self._minute != (now := int(time.time() // MINUTE_SECONDS)):
                self._minute, self._counts = now, Counter()
            self._counts[key] += 1
            return self._counts[key]


local_counts = LocalCounts()


def count_call(key: str) -> int:
    """Number of calls with the key, which names a minute: of all processes, or of this one while Redis is away.

    0: nobody can tell.
    """
    if local_counts.is_active:
        return local_counts.count_call(key)
    try:
        cache.add(key, 0, 2 * MINUTE_SECONDS)
        return int(cache.incr(key))
    except ValueError:
        # it was thrown away between the two
        return 0
    except RedisError as error:
        log.warning("each web process counts the API's requests by itself: %s", error)
        local_counts.mark_redis_away()
        return local_counts.count_call(key)
