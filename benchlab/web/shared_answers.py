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

MAX_BYTES = 8 << 20
MAX_ANSWERS = 200
# characters of an address: keys are kept, too
MAX_QUERY_LENGTH = 2000
# `since` of what never changes
ANY_TIME = float("-inf")

Content = TypeVar("Content", str, bytes)


def access_rights(user: AbstractBaseUser | AnonymousUser) -> Hashable:
    """All that decides what a page of a person's shows: who is equal here sees the same rows and the same buttons."""
    roles = current_roles.user_roles(user)
    return roles.site_admin, frozenset(
        (membership.team, membership.role) for membership in roles.teams
    )


def may_be_shared(request: HttpRequest) -> bool:
    return (
        request.user.is_authenticated
        and len(request.META.get("QUERY_STRING", "")) <= MAX_QUERY_LENGTH
    )


@dataclass(slots=True)
class _SharedAnswer(Generic[Content]):
    making: threading.Lock = field(default_factory=threading.Lock)
    began: float | None = None
    answer: Content | None = None

    @property
    def length(self) -> int:
        return len(self.answer or "")


class SharedAnswers(Generic[Content]):
    """The last answer by key, of all together so many bytes: those that nobody asked for lately go first."""

    def __init__(self, most: int = MAX_BYTES) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, _SharedAnswer[Content]] = OrderedDict()

    def get_or_make(self, key: Hashable, since: float, make: Callable[[], Content]) -> Content:
        """`since`: by time.monotonic(), not in the future. What `make` raises is raised; the next one tries anew."""
        entry = self._entry(key)
        with entry.making:
            if entry.answer is None or entry.began is None or entry.began < since:
                began = time.monotonic()
                try:
                    entry.answer, entry.began = make(), began
                finally:
                    # the key of an answer that fails stands there, too
                    self._trim()
            return entry.answer

    def _entry(self, key: Hashable) -> _SharedAnswer[Content]:
        with self._lock:
            entry = self._kept.setdefault(key, _SharedAnswer())
            self._kept.move_to_end(key)
            return entry

    def _trim(self) -> None:
        """Remove the oldest until the rest fits: who waits for one that goes here is told it all the same."""
        with self._lock:
            size = sum(entry.length for entry in self._kept.values())
            while self._kept and (size > self._most or len(self._kept) > MAX_ANSWERS):
                size -= self._kept.popitem(last=False)[1].length
