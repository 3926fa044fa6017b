"""People with browsers, as the web server sees them: page after page, or one live page that follows its events.

HTTP/1.1 by hand on asyncio's streams: a hundred people must not cost the machine what it is to be measured for.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from django.conf import settings

PART = re.compile(rb'id="(campaign-[a-z]+)"[^>]*hx-get="([^"]+)"[^>]*hx-trigger="([^"]*)"')
EVERY = re.compile(rb"every (\d+)s")
FIGURE = re.compile(rb'data-figure-url="([^"]+)"[^>]*? data-(?:refresh="(\d+)"|live )')
PATIENCE_S = 60.0
ASK_ANYWAY_S = 30.0  # static/charts.js
END = b"\r\n\r\n"
Sent = tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]  # and the answer's head


@dataclass(slots=True)
class Told:
    """One answer: what was asked, how it ended, and after how long the last byte was there."""

    what: str  # "page", "part", "figure", "api", "press"
    path: str
    status: int
    seconds: float
    size: int


@dataclass
class Browser:
    """One connection at a time, kept alive, with a person's session."""

    base: str
    cookies: dict[str, str]
    told: list[Told]
    _streams: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=list)

    async def get(self, path: str, what: str = "page", target: str = "") -> bytes:
        more = {"HX-Request": "true", "HX-Target": target} if target else {}
        return await self._ask("GET", path, what, more)

    async def press(self, path: str) -> bytes:
        return await self._ask(
            "POST", path, "press", {"X-CSRFToken": self.cookies[settings.CSRF_COOKIE_NAME]}
        )

    async def _ask(self, method: str, path: str, what: str, more: dict[str, str]) -> bytes:
        begun, status, body = time.monotonic(), 0, b""
        try:
            async with asyncio.timeout(PATIENCE_S):
                status, body = await self._answer(method, path, more)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            await self.close()
        self.told.append(Told(what, path, status, time.monotonic() - begun, len(body)))
        return body

    async def _answer(self, method: str, path: str, more: dict[str, str]) -> tuple[int, bytes]:
        request = self._head(method, path, more)
        reader, writer, head = await self._again(request) or await self._anew(request)
        status, body = int(head.split(b" ", 2)[1]), await self._body(reader, head.lower())
        self._streams.append((reader, writer))
        return status, body

    async def _again(self, request: bytes) -> Sent | None:
        """On a connection that was kept, which the server may have closed meanwhile: then None, as in browsers."""
        if not self._streams:
            return None
        reader, writer = self._streams.pop()
        try:
            writer.write(request)
            return reader, writer, await reader.readuntil(END)
        except (OSError, asyncio.IncompleteReadError):
            writer.close()
            return None

    async def _anew(self, request: bytes) -> Sent:
        reader, writer = await self._connect()
        writer.write(request)
        return reader, writer, await reader.readuntil(END)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        where = urlsplit(self.base)
        return await asyncio.open_connection(where.hostname, where.port, limit=1 << 24)

    def _head(self, method: str, path: str, more: dict[str, str]) -> bytes:
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        lines = {"Host": "localhost", "Cookie": cookie, **more}
        if method == "POST":
            lines |= {"Content-Length": "0"}
        said = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return f"{method} {path} HTTP/1.1\r\n{said}\r\n".encode()

    async def _body(self, reader: asyncio.StreamReader, head: bytes) -> bytes:
        if found := re.search(rb"content-length: (\d+)", head):
            return await reader.readexactly(int(found[1]))
        if b"transfer-encoding: chunked" not in head:
            return b""
        body = b""
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
        return body

    async def changes(self, path: str, changed: asyncio.Event, opened: asyncio.Event) -> None:
        """An event stream, until it is cancelled."""
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await self._connect()
                try:
                    writer.write(self._head("GET", path, {}))
                    await reader.readuntil(b"\r\n\r\n")
                    opened.set()
                    while line := await reader.readline():
                        if line.startswith(b"event: changed"):
                            changed.set()
                finally:
                    writer.close()
            await asyncio.sleep(1)

    async def close(self) -> None:
        for _, writer in self._streams:
            writer.close()
        self._streams.clear()


def parts(page: bytes) -> Iterator[tuple[str, str, float]]:
    """(id, address, period; 0 for none) of what a live page asks for by itself."""
    for name, path, trigger in PART.findall(page):
        every = EVERY.search(trigger)
        period = max(ASK_ANYWAY_S, float(every[1])) if every else 0.0
        yield name.decode(), path.decode().replace("&amp;", "&"), period


@dataclass
class Charts:
    """Those of a live page, as charts.js fetches them: at every change, and what runs every few seconds, too."""

    drawn: dict[str, float] = field(default_factory=dict)  # address -> period; 0 for none

    def seen(self, text: bytes) -> None:
        """In a page, or in a part of one that is swapped."""
        if b'id="campaign-running"' in text:
            self.drawn = {path: every for path, every in self.drawn.items() if not every}
        for path, every in FIGURE.findall(text):
            self.drawn[path.decode().replace("&amp;", "&")] = float(every or 0)

    async def fetched(self, browser: Browser, until: float) -> None:
        """By the clock."""
        while time.monotonic() < until:
            await asyncio.sleep(3)
            for path in [path for path, every in self.drawn.items() if every]:
                await browser.get(path, "figure")

    async def changed(self, browser: Browser) -> None:
        for path in list(self.drawn):
            await browser.get(path, "figure")


async def follow(
    browser: Browser,
    campaign: str,
    between: tuple[float, float],
    opened: asyncio.Event,
    *,
    draws: bool = False,
) -> None:
    """A live page: what is live is asked for at every change; by the clock only where that was long ago (charts.js)."""
    come, until = between
    await asyncio.sleep(max(0.0, come - time.monotonic()))
    page = await browser.get(campaign)
    charts, changed = Charts(), asyncio.Event()
    charts.seen(page if draws else b"")
    clock = asyncio.create_task(charts.fetched(browser, until))
    stream = asyncio.create_task(browser.changes(f"{campaign}events/", changed, opened))
    due = {name: time.monotonic() + period for name, _, period in parts(page) if period}
    try:
        while (now := time.monotonic()) < until:
            with suppress(TimeoutError):
                wait = min([until, *due.values()]) - now
                await asyncio.wait_for(changed.wait(), max(wait, 0.01))
            at_once = changed.is_set()
            changed.clear()
            now = time.monotonic()
            for name, path, period in list(parts(page)):
                if at_once or (period and due.get(name, until) <= now):
                    page = await browser.get(path, "part", name) or page
                    due[name] = time.monotonic() + (period or 1e9)
            charts.seen(page if draws else b"")
            if at_once:
                await charts.changed(browser)
    finally:
        for task in (stream, clock):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def stroll(browser: Browser, paths: list[str], until: float, draw: random.Random) -> None:
    """Page after page, each read for some seconds."""
    await asyncio.sleep(draw.uniform(0, 15))
    while time.monotonic() < until:
        path = draw.choice(paths)
        await browser.get(path, "api" if path.startswith("/api/") else "page")
        await asyncio.sleep(draw.uniform(5, 15))
