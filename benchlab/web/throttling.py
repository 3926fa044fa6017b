"""Request limits per minute of a token, and of all tokens of a person together; generous, by environment."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, ClassVar

from django.conf import settings
from django.core.cache import cache
from redis.exceptions import RedisError
from rest_framework.throttling import BaseThrottle

from benchlab.team.models import ApiToken

if TYPE_CHECKING:  # rest_framework.views itself imports this module
    from rest_framework.request import Request
    from rest_framework.views import APIView

MINUTE = 60
log = logging.getLogger(__name__)


class PerMinute(BaseThrottle):
    """Counts in Redis, for all web processes together. Without Redis nobody is held up."""

    scope: ClassVar[str]

    def allow_request(self, request: Request, view: APIView) -> bool:
        whose = self.whose(request, view)
        most = settings.BENCHLAB_API_RATES[self.scope]
        if not whose or not most:
            return True
        return counted(f"rate:{self.scope}:{whose}:{int(time.time() // MINUTE)}") <= most

    def wait(self) -> float:
        """Seconds until the next minute."""
        return MINUTE - time.time() % MINUTE

    def whose(self, request: Request, view: Any) -> str:
        """Empty: not counted."""
        return str(request.user.pk or "")


class PerUser(PerMinute):
    scope = "user"


class PerToken(PerMinute):
    scope = "token"

    def whose(self, request: Request, view: Any) -> str:
        return str(request.auth.pk) if isinstance(request.auth, ApiToken) else ""


class Exports(PerMinute):
    """Each may take seconds of the database's time."""

    scope = "export"

    def whose(self, request: Request, view: Any) -> str:
        return super().whose(request, view) if getattr(view, "exports", False) else ""


def counted(key: str) -> int:
    """Number of calls with the key in two minutes; 0 when nobody can tell."""
    try:
        cache.add(key, 0, 2 * MINUTE)
        return int(cache.incr(key))
    except (RedisError, ValueError) as error:
        log.debug("requests are not counted: %s", error)
        return 0
