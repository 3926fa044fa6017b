# SPDX-License-Identifier: Apache-2.0
"""Changes of campaigns that this process has heard of, and since when an answer about one includes all of them.

A web process with open pages is subscribed to the changes of all campaigns (benchlab/pages/campaigns/live.py).
What it made of a campaign after the last change that it heard of is what it would make now. While it does not listen,
nothing that was made before is known to be still so.
"""

from __future__ import annotations

import threading
import time

from benchlab.runs import events

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
        return max(
            listens, now - MAX_AGE_S, self._heard.get(events.campaign_channel(campaign_id), 0.0)
        )


# of this process
change_listener = ChangeListener()
