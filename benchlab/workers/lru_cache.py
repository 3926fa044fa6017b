# SPDX-License-Identifier: Apache-2.0
"""A cache of the values that a process used last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

V = TypeVar("V")


class LruCache(Generic[V]):
    """A cache like functools.lru_cache around `make`, into which a caller may also `put` a value."""

    def __init__(self, make: Callable[[int], V], most: int = 256) -> None:
        self._make, self._most = make, most
        self._values: OrderedDict[int, V] = OrderedDict()
        self._lock = Lock()

    def __call__(self, key: int) -> V:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        # Two threads may make the same value, and neither waits for the other's query.
        value = self._make(key)
        self.store(key, value)
        return value

    def store(self, key: int, value: V) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._most:
                self._values.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
