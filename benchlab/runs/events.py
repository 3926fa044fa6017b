# SPDX-License-Identifier: Apache-2.0
"""Wake-ups for live pages over Redis pub/sub. A page re-reads PostgreSQL, so a lost one costs a poll, nothing else."""

from __future__ import annotations

import logging
import re
from functools import cache

import redis
from django.conf import settings
from django.db import connection, transaction

log = logging.getLogger(__name__)


def campaign_channel(campaign_id: int) -> str:
    """Channel of a campaign.

    Its name has installation and database: all numbered databases of a Redis hear a channel.
    """
    return f"benchlab:{settings.INSTALLATION}:{_database_name()}:campaign:{campaign_id}"


def channel_pattern() -> str:
    """Pattern of every campaign's channel in this database, for the one subscriber of a web process."""
    name = re.sub(r"[\\*?\[\]]", r"\\\g<0>", _database_name())
    return f"benchlab:{settings.INSTALLATION}:{name}:campaign:*"


def _database_name() -> str:
    return str(connection.settings_dict["NAME"])


@cache
def _client() -> redis.Redis:
    client: redis.Redis = redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2
    )
    return client


def notify_pages(campaign_id: int) -> None:
    """Tell the campaign's pages to look again, once the transaction is committed."""
    transaction.on_commit(lambda: _publish(campaign_id))


def _publish(campaign_id: int) -> None:
    try:
        _client().publish(campaign_channel(campaign_id), b"changed")
    except redis.RedisError as error:
        log.warning("live pages fall back on polling: %s", error)
