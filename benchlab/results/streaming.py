# SPDX-License-Identifier: Apache-2.0
"""Long responses, each made by its own thread on its own database connection, as fast as the client reads."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from itertools import chain

from django.db import connections

# parts that wait to be taken
PARTS_AHEAD = 4
# after that the client is gone, or might as well be
PATIENCE_S = 120.0
# Bytes a second that a slow client must read at least: nobody may hold a slot for days.
MIN_BYTES_PER_SECOND = 32 << 10
# each holds a connection of PostgreSQL's
EXPORT_SLOTS = threading.BoundedSemaphore(8)
# of those, of one person; all guests are one
MAX_PER_PERSON = 4
# and of all of a team
MAX_PER_TEAM = 6

_under_way: Counter[Hashable] = Counter()
_of_teams: Counter[Hashable] = Counter()
_counting = threading.Lock()


class Busy(Exception):
    """No slot is free: the limit of exports, of the team or of this person is reached."""


class TooSlow(Exception):
    """The client reads too slowly while others wait for the slot."""


def _take_slot(whose: Hashable, team: int | None) -> None:
    """Take a slot. Raises Busy."""
    with _counting:
        if _under_way[whose] >= MAX_PER_PERSON or (
            team is not None and _of_teams[team] >= MAX_PER_TEAM
        ):
            raise Busy
        if not EXPORT_SLOTS.acquire(blocking=False):
            raise Busy
        _under_way[whose] += 1
        _of_teams[team] += 1


def _release_slot(whose: Hashable, team: int | None) -> None:
    with _counting:
        for counts, key in ((_under_way, whose), (_of_teams, team)):
            counts[key] -= 1
            if not counts[key]:
                del counts[key]
        EXPORT_SLOTS.release()


class _Transfer:
    """State shared by the thread and its stream. The thread holds no stream, so a dropped stream ends it."""

    def __init__(self, whose: Hashable, team: int | None) -> None:
        self.parts: queue.Queue[bytes | BaseException | None] = queue.Queue(PARTS_AHEAD)
        self.stop = threading.Event()
        self.whose, self.team = whose, team
        # in total, for parts to be read
        self._waited_s = 0.0
        # bytes of the parts that were read
        self._size = 0

    def produce(self, make: Callable[[], Iterator[bytes]]) -> None:
        try:
            parts = make()
            if not all(self._enqueue(part) for part in chain(parts, (None,))):
                parts.close()  # type: ignore[attr-defined]  # a generator
                self._abort(TooSlow("It was taken too slowly, or by nobody any more."))
        except BaseException as error:
            if not self._enqueue(error):
                self._abort(error)
        finally:
            connections.close_all()
            _release_slot(self.whose, self.team)

    def _abort(self, error: BaseException) -> None:
        """Replace the queued parts by the error: half a file must not look whole, and the reader's wait must end."""
        with contextlib.suppress(queue.Empty):
            while True:
                self.parts.get_nowait()
        self.parts.put_nowait(error)

    def _enqueue(self, part: bytes | BaseException | None) -> bool:
        waited = 0.0
        most = PATIENCE_S + self._size / MIN_BYTES_PER_SECOND
        while not self.stop.is_set() and waited < PATIENCE_S and self._waited_s < most:
            began = time.monotonic()
            try:
                self.parts.put(part, timeout=0.5)
            except queue.Full:
                waited += 0.5
            else:
                self._size += len(part) if isinstance(part, bytes) else 0
                return True
            finally:
                self._waited_s += time.monotonic() - began
        return False


class ThreadedStream:
    """Async iterator over what `make()` yields; `close` ends it early. Its first two parts are made at once.

    Dropping it ends it as well: nobody closes it if the client hangs up before the response begins.
    `whose` identifies the client, `team` its team. Raises Busy, and what `make` raises before its first part.
    """

    def __init__(
        self,
        make: Callable[[], Iterator[bytes]],
        whose: Hashable = None,
        team: int | None = None,
    ) -> None:
        _take_slot(whose, team)
        line = self._line = _Transfer(whose, team)
        weakref.finalize(self, line.stop.set)
        try:
            threading.Thread(target=line.produce, args=(make,), daemon=True).start()
        except RuntimeError:
            # no thread can be started
            _release_slot(whose, team)
            raise
        self._held = [line.parts.get()]
        if self._held[0] is not None and not isinstance(self._held[0], BaseException):
            self._held.append(line.parts.get())
        if isinstance(self._held[0], BaseException):
            raise self._held[0]

    @property
    def single_part(self) -> bytes | None:
        """The whole response if it has one part or none, else None."""
        if self._held[-1] is not None:
            return None
        return self._held[0] if isinstance(self._held[0], bytes) else b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while (part := await self._next_part()) is not None:
                if isinstance(part, BaseException):
                    # the connection is cut: half a file must not look whole
                    raise part
                yield part
        finally:
            self.close()

    async def _next_part(self) -> bytes | BaseException | None:
        if self._held:
            return self._held.pop(0)
        try:
            return self._line.parts.get_nowait()
        except queue.Empty:
            return await asyncio.to_thread(self._line.parts.get, True, PATIENCE_S)

    def close(self) -> None:
        self._line.stop.set()
