# SPDX-License-Identifier: Apache-2.0
"""The worker's sign of life: the time of its last sweep, kept in Redis. If lost, the next sweep restores it."""

from __future__ import annotations

import time
from functools import cache

import redis
from django.conf import settings

SWEPT = "worker:swept"
KEPT_S = 3600


def installation_key(name: str) -> str:
    """A key of this installation: several may share a Redis."""
    return f"benchlab:{settings.INSTALLATION}:{name}"


@cache
def client() -> redis.Redis:
    """The process's Redis client, which gives up after two seconds."""
    redis_client: redis.Redis = redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2
    )
    return redis_client


def beat() -> None:
    """Record a sign of life now. A broker that is away loses it, and must not stop the sweep."""
    try:
        client().set(installation_key(SWEPT), f"{time.time():.3f}", ex=KEPT_S)
    except redis.RedisError:
        return


def age_s() -> float | None:
    """Age of the last one, in seconds; None for never. Raises redis.RedisError when nobody answers."""
    swept_at = client().get(installation_key(SWEPT))
    return max(0.0, time.time() - float(swept_at)) if isinstance(swept_at, bytes) else None
