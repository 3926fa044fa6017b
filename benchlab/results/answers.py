# SPDX-License-Identifier: Apache-2.0
"""HTTP responses with a table: the format, the parts, and whether 304 Not Modified is enough. A long one is made by
its own thread on its own database connection, as fast as the client reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import csv
import hashlib
import io
import queue
import threading
import time
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from itertools import chain

from django.core.handlers.asgi import ASGIRequest
from django.db import connections
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response
from django.utils.http import content_disposition_header
from rest_framework.exceptions import Throttled
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from benchlab.results.query_language import QueryError
from benchlab.results.reading import gather_parts
from benchlab.team import current_roles
from benchlab.web.texts import csv_cell

# bytes
PART_BYTES = 256 << 10
Make = Callable[[], Iterator[bytes]]


class TableRenderer(BaseRenderer):
    """Only names a format: the view writes the bytes itself."""

    ending = ""


class Csv(TableRenderer):
    media_type, format, ending = "text/csv", "csv", "csv"


class Parquet(TableRenderer):
    media_type, format, ending = "application/vnd.apache.parquet", "parquet", "parquet"


class Arrow(TableRenderer):
    media_type, format, ending = "application/vnd.apache.arrow.stream", "arrow", "arrows"


class Json(TableRenderer):
    media_type, format, ending = "application/json", "json", "json"


FORMATS = (Csv, Parquet, Arrow, Json)


class FormatNegotiation(DefaultContentNegotiation):
    """`format` decides, whatever Accept asks for; without it Accept does, and */* gets CSV."""

    def select_renderer(self, request: Request, renderers, format_suffix=None):  # type: ignore[no-untyped-def]
        wanted_format = request.query_params.get("format")
        if wanted_format is None:
            return super().select_renderer(request, renderers, format_suffix)
        for renderer in renderers:
            if renderer.format == wanted_format:
                return renderer, renderer.media_type
        formats = ", ".join(renderer.format for renderer in renderers)
        raise UnknownFormat(
            {"format": f"No such format as {wanted_format[:20]!r}; there are {formats}."}
        )


class UnknownFormat(QueryError):
    """Raised by the view once it has authenticated the client."""


def csv_header(names: Sequence[str]) -> bytes:
    """CSV's first line; a metric of a malicious tool may be called as a formula."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow([csv_cell(name) for name in names])
    return buffer.getvalue().encode()


def table_response(request: HttpRequest, make: Make, kind: str, name: str) -> HttpResponseBase:
    """Respond with what `make()` yields: a short table whole, with an ETag; a long one in parts, as they are made."""
    try:
        response = _body_response(request, make, kind)
    except Busy:
        raise Throttled(
            wait=5, detail="Too many exports are under way; ask again in a moment."
        ) from None
    response["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    response["X-Content-Type-Options"] = "nosniff"
    # the next request's table may be another
    response["Accept-Ranges"] = "none"
    response["Cache-Control"] = "private, no-cache"
    return response


def _body_response(request: HttpRequest, make: Make, kind: str) -> HttpResponseBase:
    if isinstance(request, ASGIRequest):
        team = min(current_roles.user_roles(request.user).viewer, default=None)
        pump = ThreadedStream(lambda: _response_parts(make()), request.user.pk, team)
        if pump.single_part is None:
            return StreamingHttpResponse(pump, content_type=kind)
        return _short_response(request, pump.single_part, kind)
    parts = _response_parts(make())
    first, second = next(parts, b""), next(parts, None)
    if second is None:
        return _short_response(request, first, kind)
    return StreamingHttpResponse(chain((first, second), parts), content_type=kind)


def _short_response(request: HttpRequest, content: bytes, kind: str) -> HttpResponseBase:
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    response = HttpResponse(content, content_type=kind, headers={"ETag": etag})
    return get_conditional_response(request, etag, response=response) or response


def _response_parts(parts: Iterator[bytes]) -> Iterator[bytes]:
    return gather_parts(parts, PART_BYTES)


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
