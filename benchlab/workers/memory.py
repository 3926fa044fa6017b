# SPDX-License-Identifier: Apache-2.0
"""Values that a process makes once and keeps, as many as it used last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

V = TypeVar("V")


class Memory(Generic[V]):
    """`make` by a key, as of functools.lru_cache; who has a value at hand can `put` it."""

    def __init__(self, make: Callable[[int], V], most: int = 256) -> None:
        self._make, self._most = make, most
        self._kept: OrderedDict[int, V] = OrderedDict()
        self._lock = Lock()

    def __call__(self, key: int) -> V:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        # two at a time may make it, and none waits for the other's query
        value = self._make(key)
        self.put(key, value)
        return value

    def put(self, key: int, value: V) -> None:
        with self._lock:
            self._kept[key] = value
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
