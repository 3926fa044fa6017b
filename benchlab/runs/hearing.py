# SPDX-License-Identifier: Apache-2.0
"""Changes of campaigns that this process has heard of, and since when an answer about one includes all of them.

A web process with open pages is subscribed to the changes of all campaigns (benchlab/pages/campaigns/event_stream.py).
What it made of a campaign after the last change that it heard of is what it would make now. While it does not listen,
nothing that was made before is known to be still so.
"""

from __future__ import annotations

import threading
import time

from benchlab.runs import events

# what no event tells (how long something still takes) is this old at most
SAME_S = 2.0
MANY = 1000


class Ear:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listens_since: float | None = None
        # channel -> when last
        self._heard: dict[str, float] = {}

    def opened(self) -> None:
        self._listens_since = time.monotonic()

    def closed(self) -> None:
        self._listens_since = None

    def heard(self, channel: str) -> None:
        now = time.monotonic()
        with self._lock:
            self._heard[channel] = now
            if len(self._heard) > MANY:
                self._heard = {name: at for name, at in self._heard.items() if at > now - SAME_S}

    def since(self, campaign_id: int) -> float:
        """From when on what was made of the campaign may be told now, by time.monotonic()."""
        now, listens = time.monotonic(), self._listens_since
        if listens is None:
            return now
        return max(listens, now - SAME_S, self._heard.get(events.channel(campaign_id), 0.0))


# of this process
ear = Ear()
