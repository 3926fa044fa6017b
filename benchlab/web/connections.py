# SPDX-License-Identifier: Apache-2.0
"""Limits on what a connection may cost before its request is whole: bytes, seconds, and connections of one address.

uvicorn's protocol over httptools has none of them: an endless header was collected in memory, and a request that was
half sent stayed open for ever. A request that is whole is the application's business (benchlab/asgi.py, pages and API).
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

# A header is parsed in pieces of this size, so that no more than one is too much.
PIECE_BYTES = 4096
MAX_PIPELINED = 16
# A refused upload is read for so long: a browser shows the answer only when it could send.
LINGER_SECONDS = 1.5
MIN_WRITE_BYTES_PER_SECOND = 1024
# Where the state of a request's ASGI scope has its address's `Streams`.
STREAMS = "benchlab.streams"
REASONS = {
    HTTPStatus.REQUEST_TIMEOUT: "The request took too long to arrive.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "That is more than 100 MB in one upload."
    " Pack it (zip, tar.gz, xz), or send it in parts.",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "The request's address and headers are too long.",
    HTTPStatus.SERVICE_UNAVAILABLE: "Too many connections or uploads at once from your address.",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many requests at once on one connection.",
}


@dataclass(frozen=True)
class Limits:
    """Bytes and seconds of a request, and counts of connections."""

    header_bytes: int = 64 * 2**10
    header_seconds: float = 20.0
    # A little more than an upload may have (benchlab/imports/drafts.py), which its page explains.
    body_bytes: int = 110 * 2**20
    body_seconds: float = 30.0
    # Beyond body_seconds.
    body_bytes_per_second: int = 16 * 2**10
    # Bytes that wait in memory or on disk.
    bodies_per_address: int = 512 * 2**20
    write_seconds: float = 60.0
    per_address: int = 400
    total: int = 4000


@dataclass
class Streams:
    """Answers without an end to one address, such as a live page's events: its other requests need connections, too."""

    limit: int
    open: int = 0
    # Set when the server stops: each ends, and its browser connects again, to another server if there is one.
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_full(self) -> bool:
        return self.open >= self.limit

    @contextmanager
    def one_more(self) -> Iterator[None]:
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1


class Connections:
    """All open connections, by address, the oldest first."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.count = 0
        self.ended = asyncio.Event()
        self._by_address: dict[str, dict[LimitedProtocol, None]] = {}
        self._body_bytes: dict[str, int] = {}
        self._streams: WeakValueDictionary[str, Streams] = WeakValueDictionary()

    def streams(self, address: str) -> Streams:
        """Those of all its connections: half of them may be streams. Kept as long as somebody has it."""
        most = max(1, self.limits.per_address // 2)
        return self._streams.setdefault(address, Streams(most, ended=self.ended))

    @property
    def open_streams(self) -> int:
        return sum(streams.open for streams in list(self._streams.values()))

    def admit(self, new: LimitedProtocol) -> bool:
        """Count a connection; one whose request is not whole makes room for it. False: all are being answered.

        The newest of an address is served while somebody else behind it opens thousands and sends nothing.
        """
        same = self._by_address.get(new.address, {})
        if len(same) >= self.limits.per_address and not self._drop_oldest(same):
            return False
        if self.count >= self.limits.total:
            largest = max(self._by_address.values(), key=len)
            if not self._drop_oldest(largest):
                return False
        self._by_address.setdefault(new.address, {})[new] = None
        self.count += 1
        return True

    def discard(self, old: LimitedProtocol) -> None:
        same = self._by_address.get(old.address, {})
        if old not in same:
            return
        del same[old]
        self.count -= 1
        if not same:
            del self._by_address[old.address]

    def hold_body(self, address: str, count: int) -> bool:
        """Count bytes of bodies that were received and not answered; negative: they were. False: too many."""
        held = self._body_bytes.pop(address, 0) + count
        if held > 0:
            self._body_bytes[address] = held
        return held <= self.limits.bodies_per_address

    def _drop_oldest(self, some: Iterable[LimitedProtocol]) -> bool:
        """Close one that has sent no request yet, else one in the middle of its body."""
        oldest: LimitedProtocol | None = None
        for connection in some:
            if connection.awaits_header:
                oldest = connection
                break
            if oldest is None and connection.awaits_body:
                oldest = connection
        if oldest is None:
            return False
        self.discard(oldest)
        oldest.transport.abort()
        return True


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with the limits of its class (`limited_protocol`)."""

    limits: ClassVar[Limits]
    open_connections: ClassVar[Connections]

    def __init__(self, *positional: Any, **keywords: Any) -> None:
        super().__init__(*positional, **keywords)
        self.address = ""
        self.awaits_body = False
        self._unfinished_bytes = 0
        self._body_bytes = 0
        self._held_bytes = 0
        self._refusal: HTTPStatus | None = None
        self._lingers = False
        self._read_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    @property
    def awaits_header(self) -> bool:
        """True between requests, too: a browser opens another connection."""
        return not self.awaits_body and not self._is_answering

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = network_of(self.client[0]) if self.client else ""
        self._limit_header()
        if not self.open_connections.admit(self):
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)

    def connection_lost(self, exc: Exception | None) -> None:
        self.open_connections.discard(self)
        self._release_body()
        for timer in (self._read_timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came, in pieces until the header is whole."""
        if self._read_timer is None and not self.awaits_body:
            self._limit_header()
        position = 0
        while position < len(data) and not self._lingers and not self.transport.is_closing():
            size = len(data) if self.awaits_body else PIECE_BYTES
            piece = data[position : position + size]
            position += len(piece)
            self._unfinished_bytes += len(piece)
            super().data_received(piece)
            # Trailers and chunks' extensions count as well: whatever follows neither a header's end nor a body's bytes.
            if self._unfinished_bytes > self.limits.header_bytes:
                self._refusal = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            if self._refusal is not None:
                self._refuse(self._refusal)

    def on_headers_complete(self) -> None:
        self._unfinished_bytes = self._body_bytes = 0
        self.awaits_body = True
        self._limit_body()
        if _content_length(self.headers) > self.limits.body_bytes:
            self._refusal = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        elif len(self.pipeline) >= MAX_PIPELINED:
            self._refusal = HTTPStatus.TOO_MANY_REQUESTS
        if self._refusal is None:
            self.scope["state"][STREAMS] = self.open_connections.streams(self.address)
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._refusal is not None:
            return
        self._unfinished_bytes = 0
        self._body_bytes += len(body)
        if self._body_bytes > self.limits.body_bytes:
            self._refusal = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        elif not self.cycle.response_complete:
            self._held_bytes += len(body)
            if not self.open_connections.hold_body(self.address, len(body)):
                self._refusal = HTTPStatus.SERVICE_UNAVAILABLE
        if self._refusal is None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._unfinished_bytes = 0
        self.awaits_body = False
        self._cancel_read_timer()
        if self._refusal is None:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        self._release_body()
        super().on_response_complete()
        if self.transport.get_write_buffer_size():
            self._limit_write()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._limit_write()

    def _unsupported_upgrade_warning(self) -> None:
        """Answer what asks for another protocol, and close: the rest of what it sends is not HTTP/1.1."""
        self.flow.pause_reading()
        if self._is_answering:
            self.cycle.keep_alive = False
        else:
            self.transport.close()

    def _limit_header(self) -> None:
        self._cancel_read_timer()
        self._read_timer = self.loop.call_later(self.limits.header_seconds, self._header_is_late)

    def _header_is_late(self) -> None:
        self._read_timer = None
        # the next request's header waits for the answer to this one
        if self._is_answering:
            self._limit_header()
        else:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)

    def _limit_body(self) -> None:
        self._cancel_read_timer()
        begun = self.loop.time()
        self._read_timer = self.loop.call_later(
            self.limits.body_seconds, self._check_body, begun, self.limits.body_seconds
        )

    def _check_body(self, begun: float, allowed: float) -> None:
        """Refuse a body that comes too slowly; what waits for the application is not the sender's fault."""
        self._read_timer = None
        if self.flow.read_paused:
            self._limit_body()
            return
        allowed = self.limits.body_seconds + self._body_bytes / self.limits.body_bytes_per_second
        late = self.loop.time() - begun - allowed
        if late >= 0:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)
        else:
            self._read_timer = self.loop.call_later(-late, self._check_body, begun, allowed)

    def _limit_write(self) -> None:
        if self._write_timer is None:
            waiting = self.transport.get_write_buffer_size()
            self._write_timer = self.loop.call_later(
                self.limits.write_seconds, self._check_write, waiting
            )

    def _check_write(self, waited: int) -> None:
        """Close a connection whose client does not read what was written."""
        self._write_timer = None
        waiting = self.transport.get_write_buffer_size()
        if not waiting:
            return
        if waited - waiting < self.limits.write_seconds * MIN_WRITE_BYTES_PER_SECOND:
            self.transport.abort()
        else:
            self._limit_write()

    def _cancel_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _release_body(self) -> None:
        self.open_connections.hold_body(self.address, -self._held_bytes)
        self._held_bytes = 0

    def _refuse(self, status: HTTPStatus) -> None:
        """Answer, unless an answer has begun, and close; the application sees that the client is gone."""
        self._cancel_read_timer()
        if self._lingers or self.transport.is_closing():
            return
        if self._is_answering:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self._is_answering and self.cycle.response_started:
            self.transport.abort()
            return
        text = REASONS[status].encode()
        self.transport.write(
            STATUS_LINE[status]
            + b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
            + b"content-length: %d\r\n\r\n%s" % (len(text), text)
        )
        if self.awaits_body:
            self._lingers = True
            self.flow.resume_reading()
            self.loop.call_later(LINGER_SECONDS, self.transport.abort)
        else:
            self.transport.close()
            self._limit_write()


def limited_protocol(limits: Limits) -> type[LimitedProtocol]:
    """Return the class that uvicorn makes one of for each connection; all of them count together."""
    members = {"limits": limits, "open_connections": Connections(limits)}
    return type("Protocol", (LimitedProtocol,), members)


def network_of(address: str) -> str:
    """Client that an address stands for: a customer of IPv6 has a /64 at least."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 6 and parsed.ipv4_mapped is None:
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return address


def _content_length(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Bytes of the body that a header announces; 0 for a body without a length."""
    lengths = [value for name, value in headers if name == b"content-length"]
    return max((int(value) for value in lengths if value.isdigit()), default=0)
