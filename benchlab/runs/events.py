"""Wake-ups for live pages over Redis pub/sub. A page re-reads PostgreSQL, so a lost one costs a poll, nothing else."""

from __future__ import annotations

import logging
from functools import cache

import redis
from django.conf import settings
from django.db import transaction

log = logging.getLogger(__name__)

PATTERN = "benchlab:campaign:*"  # every campaign's channel, for the one subscriber of a web process


def channel(campaign_id: int) -> str:
    return f"benchlab:campaign:{campaign_id}"


@cache
def _client() -> redis.Redis:
    client: redis.Redis = redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2
    )
    return client


def changed(campaign_id: int) -> None:
    """Tell the campaign's pages to look again, once the transaction is committed."""
    transaction.on_commit(lambda: _publish(campaign_id))


def _publish(campaign_id: int) -> None:
    try:
        _client().publish(channel(campaign_id), b"changed")
    except redis.RedisError as error:
        log.warning("live pages fall back on polling: %s", error)
