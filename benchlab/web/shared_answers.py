# SPDX-License-Identifier: Apache-2.0
"""Answers shared by concurrent requests: made once, and given to all of them.

A change has every page that shows it ask for the same. The first of them has it made; the others wait for that very
answer. None is told what is older than they may be told: only what was begun at `since` or later. Whether somebody may
ask at all the caller looks for each of them; what they may see and do there belongs into the key (`rights`).
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.http import HttpRequest

from benchlab.team import current_roles

MOST_BYTES = 8 << 20
MANY = 200
# characters of an address: keys are kept, too
LONGEST = 2000
# `since` of what never changes
ANY = float("-inf")

Told = TypeVar("Told", str, bytes)


def rights(user: AbstractBaseUser | AnonymousUser) -> Hashable:
    """All that decides what a page of a person's shows: who is equal here sees the same rows and the same buttons."""
    known = current_roles.of(user)
    return known.site_admin, frozenset((one.team, one.role) for one in known.teams)


def may_be_shared(request: HttpRequest) -> bool:
    return request.user.is_authenticated and len(request.META.get("QUERY_STRING", "")) <= LONGEST


@dataclass(slots=True)
class _One(Generic[Told]):
    making: threading.Lock = field(default_factory=threading.Lock)
    began: float | None = None
    answer: Told | None = None

    @property
    def size(self) -> int:
        return len(self.answer or "")


class Answers(Generic[Told]):
    """The last answer by key, of all together so many bytes: those that nobody asked for lately go first."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, _One[Told]] = OrderedDict()

    def of(self, key: Hashable, since: float, make: Callable[[], Told]) -> Told:
        """`since`: by time.monotonic(), not in the future. What `make` raises is raised; the next one tries anew."""
        one = self._one(key)
        with one.making:
            if one.answer is None or one.began is None or one.began < since:
                began = time.monotonic()
                try:
                    one.answer, one.began = make(), began
                finally:
                    # the key of an answer that fails stands there, too
                    self._trim()
            return one.answer

    def _one(self, key: Hashable) -> _One[Told]:
        with self._lock:
            one = self._kept.setdefault(key, _One())
            self._kept.move_to_end(key)
            return one

    def _trim(self) -> None:
        """Remove the oldest until the rest fits: who waits for one that goes here is told it all the same."""
        with self._lock:
            size = sum(one.size for one in self._kept.values())
            while self._kept and (size > self._most or len(self._kept) > MANY):
                size -= self._kept.popitem(last=False)[1].size
