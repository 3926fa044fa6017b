# SPDX-License-Identifier: Apache-2.0
"""Batching of work: items that arrive while a thread works are its next batch.

This suits work that is cheaper for many items at once. Waiting items are lost when the process ends, so something else
must repeat them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence


class BatchedWork:
    """Calls `work` in one thread at a time with all items that have arrived, each once and in order."""

    def __init__(self, work: Callable[[Sequence[int]], None]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._came: dict[int, None] = {}
        self._busy = False

    def add(self, pk: int) -> None:
        """Return once the item is done, or at once if another thread is at work, which does it next."""
        with self._lock:
            self._came[pk] = None
            if self._busy:
                return
            self._busy = True
        while some := self._next_batch():
            try:
                self._work(some)
            except BaseException:
                # Items that arrived meanwhile go with the next one that is added.
                self._busy = False
                raise

    def _next_batch(self) -> list[int]:
        with self._lock:
            some, self._came = list(self._came), {}
            self._busy = bool(some)
        return some
