# SPDX-License-Identifier: Apache-2.0
"""Values that a process makes once and keeps, as many as it used last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

V = TypeVar("V")


class LruCache(Generic[V]):
    """`make` by a key, as of functools.lru_cache; who has a value at hand can `put` it."""

    def __init__(self, make: Callable[[int], V], most: int = 256) -> None:
        self._make, self._most = make, most
        self._values: OrderedDict[int, V] = OrderedDict()
        self._lock = Lock()

    def __call__(self, key: int) -> V:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        # two at a time may make it, and none waits for the other's query
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
