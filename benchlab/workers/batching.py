# SPDX-License-Identifier: Apache-2.0
"""Gathering of work: what comes while a thread works is done by that thread next, in one batch.

For work that costs less for many than for each. What waits ends with the process: it must be made up for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence


class BatchedWork:
    """`work` is done by one thread at a time, on all that has come until then; each once, in the order they came."""

    def __init__(self, work: Callable[[Sequence[int]], None]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._came: dict[int, None] = {}
        self._busy = False

    def add(self, pk: int) -> None:
        """Returns when it is done, or at once where another thread is at it: that one does it next."""
        with self._lock:
            self._came[pk] = None
            if self._busy:
                return
            self._busy = True
        while some := self._next_batch():
            try:
                self._work(some)
            except BaseException:
                # what came meanwhile goes with the next one that is added
                self._busy = False
                raise

    def _next_batch(self) -> list[int]:
        with self._lock:
            some, self._came = list(self._came), {}
            self._busy = bool(some)
        return some
