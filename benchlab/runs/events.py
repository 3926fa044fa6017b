# SPDX-License-Identifier: Apache-2.0
"""Wake-ups for live pages over Redis pub/sub. A page re-reads PostgreSQL, so a lost one costs a poll, nothing else.

A web process with open pages is subscribed to the changes of all campaigns (benchlab/pages/campaigns/live.py).
What it made of a campaign after the last change that it heard of is what it would make now. While it does not listen,
nothing that was made before is known to be still so.
"""

from __future__ import annotations

import logging
import re
import threading
import time
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


# Maximum age of what no event reports, such as the remaining time.
MAX_AGE_S = 2.0
MAX_CHANNELS = 1000


class ChangeListener:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listens_since: float | None = None
        # channel -> time of its last change
        self._heard: dict[str, float] = {}

    def start_listening(self) -> None:
        self._listens_since = time.monotonic()

    def stop_listening(self) -> None:
        self._listens_since = None

    def record_change(self, channel: str) -> None:
        now = time.monotonic()
        with self._lock:
            self._heard[channel] = now
            if len(self._heard) > MAX_CHANNELS:
                self._heard = {name: at for name, at in self._heard.items() if at > now - MAX_AGE_S}

    def current_since(self, campaign_id: int) -> float:
        """Earliest time.monotonic() from which something computed from the campaign is still current."""
        now, listens = time.monotonic(), self._listens_since
        if listens is None:
            return now
        return max(listens, now - MAX_AGE_S, self._heard.get(campaign_channel(campaign_id), 0.0))


# of this process
change_listener = ChangeListener()
