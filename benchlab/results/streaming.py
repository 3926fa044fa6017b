"""A long answer made by a thread of its own, with a database connection of its own, as fast as it is taken."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator

from django.db import connections

AHEAD = 4  # parts that wait to be taken
PATIENCE_S = 120.0  # then whoever asked is gone, or might as well be
AT_ONCE = threading.BoundedSemaphore(8)  # each holds a connection of PostgreSQL's


class Busy(Exception):
    """As many are under way as may be."""


class _Line:
    """What the thread and its Pump share. The thread knows no Pump, so that one whom nobody keeps ends it."""

    def __init__(self) -> None:
        self.parts: queue.Queue[bytes | BaseException | None] = queue.Queue(AHEAD)
        self.stop = threading.Event()

    def run(self, make: Callable[[], Iterator[bytes]]) -> None:
        try:
            parts = make()
            for part in parts:
                if not self._put(part):
                    parts.close()  # type: ignore[attr-defined]  # a generator
                    return
            self._put(None)
        except BaseException as error:
            self._put(error)
        finally:
            connections.close_all()
            AT_ONCE.release()
            with contextlib.suppress(
                queue.Full
            ):  # for a thread that still waits for a part: it has an end
                self.parts.put_nowait(None)

    def _put(self, part: bytes | BaseException | None) -> bool:
        waited = 0.0
        while not self.stop.is_set() and waited < PATIENCE_S:
            try:
                self.parts.put(part, timeout=0.5)
            except queue.Full:
                waited += 0.5
            else:
                return True
        return False


class Pump:
    """Async iterator over what `make()` yields; `close` ends it early. Two parts are there once it is made.

    One that is dropped ends as well: whoever asked had hung up before the answer was begun, and nobody closes that.
    Raises Busy, and what `make` raises before its first part.
    """

    def __init__(self, make: Callable[[], Iterator[bytes]]) -> None:
        if not AT_ONCE.acquire(blocking=False):
            raise Busy
        line = self._line = _Line()
        weakref.finalize(self, line.stop.set)
        threading.Thread(target=line.run, args=(make,), daemon=True).start()
        self._held = [line.parts.get()]
        if self._held[0] is not None and not isinstance(self._held[0], BaseException):
            self._held.append(line.parts.get())
        if isinstance(self._held[0], BaseException):
            raise self._held[0]

    @property
    def whole(self) -> bytes | None:
        """All of it, when it was one part or none."""
        if self._held[-1] is not None:
            return None
        return self._held[0] if isinstance(self._held[0], bytes) else b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while (part := await self._next()) is not None:
                if isinstance(part, BaseException):
                    raise part  # the connection is cut: half a file must not look whole
                yield part
        finally:
            self.close()

    async def _next(self) -> bytes | BaseException | None:
        if self._held:
            return self._held.pop(0)
        try:
            return self._line.parts.get_nowait()
        except queue.Empty:
            return await asyncio.to_thread(self._line.parts.get, True, PATIENCE_S)

    def close(self) -> None:
        self._line.stop.set()
