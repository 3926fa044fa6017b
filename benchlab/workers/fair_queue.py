# SPDX-License-Identifier: Apache-2.0
"""Threads of a worker, shared by teams, so that one team's silent hosts or large uploads cannot occupy all of them.

A message is handed over at once and holds no Celery thread. Its work waits here, ordered by: a team that has no work
running, work that came from a result, the team with the least work running, age. Waiting work is lost with the process
and must be repeated (engine/sweeper.py, and the beat for uploads). A process that is asked to end hands its work over:
it sends the messages for it again.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import IntEnum

from django.db import Error, close_old_connections, connection

from benchlab.workers import messages
from benchlab.workers.lru_cache import LruCache
from benchlab.workers.process_counters import counters

log = logging.getLogger(__name__)

# After so long, an idle thread closes its connection to the database.
IDLE_S = 60.0


class Priority(IntEnum):
    """Priorities of work, the most urgent first."""

    # The work handles a result.
    RESULT = 0
    # The work follows from a result.
    FOLLOW_UP = 1
    # A message asked for the work.
    MESSAGE = 2


@dataclass(frozen=True, slots=True)
class WorkItem:
    """A call of `do(pk)` for the team that `team(pk)` returns.

    `task`: the Celery task that requests it. `asked_at`: seconds since the epoch.
    """

    do: Callable[[int], None]
    team: LruCache[int | None]
    pk: int
    task: str
    asked_at: float = field(default_factory=time.time, compare=False)

    @property
    def key(self) -> tuple[int, int]:
        """A key that is equal for items that would do the same."""
        return id(self.team), self.pk


@dataclass(frozen=True, slots=True)
class ThreadShares:
    """Threads of a process; each has one connection to the database."""

    places: int = 16
    of_team: int = 12
    # Of what is asked for, which may take minutes; the others are for what a poll brought
    messages: int = 12
    messages_of_team: int = 9


class FairQueue:
    """The queue of one process. `begin` starts the threads; until then work is done at once by the caller."""

    def __init__(self, name: str = "step", shares: ThreadShares | None = None) -> None:
        self._name, self.shares = name, shares or ThreadShares()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._reset_queues()

    def _reset_queues(self) -> None:
        self._number = itertools.count()
        # Work whose team is not looked up yet
        self._new: deque[tuple[Priority, WorkItem]] = deque()
        self._lines: dict[tuple[Priority, int | None], deque[tuple[int, WorkItem]]] = {}
        # Of what was asked for
        self._waiting: set[tuple[int, int]] = set()
        self._going: Counter[int | None] = Counter()
        self._going_asked: Counter[int | None] = Counter()
        # Under way; true where it was asked for meanwhile
        self._again: dict[tuple[int, int], bool] = {}
        self._ended = False

    def begin(self) -> None:
        self._reset_queues()
        self._threads = [
            threading.Thread(
                target=self._work_until_ended, name=f"{self._name}-{number}", daemon=True
            )
            for number in range(self.shares.places)
        ]
        for thread in self._threads:
            thread.start()

    def drain(self) -> None:
        """Begin no more work, and hand the waiting work to other workers."""
        with self._changed:
            self._ended = True
            waiting = [work for _, work in self._new]
            waiting += [work for line in self._lines.values() for _, work in line]
            self._new.clear()
            self._lines.clear()
            self._changed.notify_all()
        for task in {work.task for work in waiting}:
            messages.send_each(task, sorted({work.pk for work in waiting if work.task == task}))

    def end(self) -> None:
        """Begin no more work, and wait for the work in progress."""
        threads, self._threads = self._threads, []
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        for thread in threads:
            thread.join()
        self._reset_queues()

    @property
    def serves(self) -> bool:
        return bool(self._threads)

    def crowded(self, team: int | None) -> bool:
        """Results wait that this team's other work should let pass: its own, and those that have a place."""
        with self._changed:
            if any(kind is Priority.RESULT for kind, _ in self._new):
                return True
            came = [
                owner
                for (kind, owner), line in self._lines.items()
                if kind is Priority.RESULT and line
            ]
            return any(owner == team or self._may(Priority.RESULT, owner) for owner in came)

    def submit(self, work: WorkItem) -> None:
        """Have it done in its turn; in place where no threads are. Asked for twice it is done once."""
        if not self.serves:
            work.do(work.pk)
            return
        self.enqueue(Priority.MESSAGE, work)

    def enqueue(self, kind: Priority, work: WorkItem) -> None:
        if self._ended:
            messages.send(work.task, work.pk)
            return
        with self._changed:
            if kind is Priority.MESSAGE:
                if work.key in self._again:
                    self._again[work.key] = True
                    return
                if work.key in self._waiting:
                    return
                self._waiting.add(work.key)
            self._new.append((kind, work))
            self._changed.notify()

    def _work_until_ended(self) -> None:
        while (queued := self._next_item()) is not None:
            kind, work, team = queued
            begun, outcome = time.time(), "done"
            try:
                # Celery does the same around a task.
                close_old_connections()
                work.do(work.pk)
            except Error as error:
                outcome = "no_database"
                log.warning("%s: database error, the sweeper retries: %s", work.pk, error)
            except Exception:
                outcome = "failed"
                log.exception("%s of %s", work.do.__name__, work.pk)
            finally:
                _count_work(work, outcome, begun)
                self._finish_item(kind, work, team)
        connection.close()

    def _next_item(self) -> tuple[Priority, WorkItem, int | None] | None:
        """Wait for the next work of a free thread; None when the queue has ended."""
        while True:
            with self._changed:
                chosen = self._choose_line()
                while not (self._ended or self._new or chosen):
                    if not self._changed.wait(IDLE_S):
                        connection.close()
                    chosen = self._choose_line()
                if self._ended:
                    return None
                if chosen and not self._new:
                    return self._take_first(*chosen)
                kind, work = self._new.popleft()
            self._queue(kind, work)

    def _queue(self, kind: Priority, work: WorkItem) -> None:
        """Append the work to its team's line.

        Finding the team may take a query, so it happens without the lock.
        """
        try:
            close_old_connections()
            team = work.team(work.pk)
        except Exception as error:
            # The database is away; the work will be requested again.
            log.warning("%s: its team cannot be looked up: %s", work.pk, error)
            with self._changed:
                self._waiting.discard(work.key)
            return
        with self._changed:
            if not self._ended:
                line = self._lines.setdefault((kind, team), deque())
                line.append((next(self._number), work))
                self._changed.notify()
                return
        messages.send(work.task, work.pk)

    def _choose_line(self) -> tuple[Priority, int | None] | None:
        lines = [
            (self._going[team] > 0, kind, self._going[team], line[0][0], team)
            for (kind, team), line in self._lines.items()
            if line and self._may(kind, team)
        ]
        if not lines:
            return None
        _, kind, _, _, team = min(lines, key=lambda line_key: line_key[:4])
        return kind, team

    def _may(self, kind: Priority, team: int | None) -> bool:
        most, messages_going = self.shares, self._going_asked
        if self._going[team] >= most.of_team:
            return False
        if kind is not Priority.MESSAGE:
            return True
        return (
            messages_going.total() < most.messages and messages_going[team] < most.messages_of_team
        )

    def _take_first(
        self, kind: Priority, team: int | None
    ) -> tuple[Priority, WorkItem, int | None]:
        line = self._lines[kind, team]
        _, work = line.popleft()
        if not line:
            del self._lines[kind, team]
        self._going[team] += 1
        if kind is Priority.MESSAGE:
            self._going_asked[team] += 1
            self._waiting.discard(work.key)
            self._again[work.key] = False
        return kind, work, team

    def _finish_item(self, kind: Priority, work: WorkItem, team: int | None) -> None:
        with self._changed:
            self._going[team] -= 1
            again = False
            if kind is Priority.MESSAGE:
                self._going_asked[team] -= 1
                again = self._again.pop(work.key)
            self._changed.notify()
        if again:
            self.enqueue(kind, replace(work, asked_at=time.time()))


def _count_work(work: WorkItem, outcome: str, begun: float) -> None:
    """Count the work's duration, and the time from the request to its begin and to its end."""
    name, now = work.do.__name__, time.time()
    counters.add("work_total", name, outcome)
    counters.add_duration("work_wait_seconds", name, seconds=max(0.0, begun - work.asked_at))
    counters.add_duration("work_lag_seconds", name, seconds=max(0.0, now - work.asked_at))
    counters.add_duration("work_seconds", name, seconds=max(0.0, now - begun))


# of what talks to hosts
host_queue = FairQueue()
