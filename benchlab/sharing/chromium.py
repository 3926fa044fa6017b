# SPDX-License-Identifier: Apache-2.0
"""A page of ours in headless Chromium, which prints it and draws its charts as pictures.

The page holds what people wrote, so Chromium gets nothing: no network, no file, a temporary home, limited memory and
time. We control it through its DevTools pipe (https://chromedevtools.github.io/devtools-protocol/), not a port.
"""

from __future__ import annotations

import base64
import json
import os
import pwd
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import orjson
from django.conf import settings
from django.utils import timezone
from django.utils.html import escape

# from its start to its end
MAX_SECONDS = 120
# of paper against a screen
SCALE = 0.85
# CSS px of A4 between its margins, at that scale
WIDTH, HEIGHT = 800, 1150
# inch
MARGINS = {"marginTop": 0.6, "marginBottom": 0.7, "marginLeft": 0.59, "marginRight": 0.59}
# reserved for ever (RFC 6761): a request for it gets the page, all others get nothing
ADDRESS = "http://report.invalid/"
# Its own pipe is on 3 and 4. Limits: no core, seconds of CPU, KiB of memory that a process writes to.
START = 'set -e; ulimit -c 0; ulimit -t 90; ulimit -d 3145728; exec 3<&0 4>&1 </dev/null >/dev/null; exec "$@"'
FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    # discard: where nobody listens
    "--proxy-server=http://127.0.0.1:9",
)
# The answer to Page.navigate comes once the page begins to arrive; printed before it is whole, it may fail.
LOADED = """new Promise((done) => {
  const look = () => {
    if (document.readyState !== "complete") return setTimeout(look, 20);
    document.fonts.ready.then(() => done(true));
  };
  look();
})"""
NOT_INSTALLED = (
    "Chromium is not installed: install it where the worker runs (apt install chromium-headless-shell, or chromium), "
    "or name it in BENCHLAB_CHROMIUM."
)


class ChromiumError(Exception):
    """Chromium failed; the message is for the person who asked for the report."""


def program() -> str:
    """Return the path of Chromium. Raises ChromiumError if there is none."""
    if not settings.CHROMIUM:
        raise ChromiumError(NOT_INSTALLED)
    return str(settings.CHROMIUM)


@contextmanager
def open_page(html: bytes) -> Iterator[Page]:
    """Load the page as for paper. Raises ChromiumError."""
    with (
        tempfile.TemporaryDirectory(prefix="benchlab-chromium-") as home,
        _start_chromium(home) as page,
    ):
        page.load_html(html)
        yield page


@contextmanager
def _start_chromium(home: str) -> Iterator[Page]:
    switches = () if settings.CHROMIUM_SANDBOX else ("--no-sandbox",)
    argv = [program(), *FLAGS, *switches, f"--user-data-dir={home}"]
    with (
        (Path(home) / "stderr").open("wb") as stderr,
        subprocess.Popen(
            ["/bin/sh", "-c", START, "sh", *argv],
            # or closing the pipe of one that is gone would fail on what nobody read
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=home,
            env={"HOME": home, "TMPDIR": home, "PATH": os.defpath, "LANG": "C.UTF-8"},
            start_new_session=True,
            **_unprivileged_user(home),
        ) as process,
    ):
        page = Page(process, Path(stderr.name))
        clock = threading.Timer(MAX_SECONDS, page.give_up)
        clock.start()
        try:
            yield page
        finally:
            clock.cancel()
            page.kill()


def _unprivileged_user(home: str) -> dict[str, Any]:
    """Never run as root: Chromium's own sandbox would refuse, and without it the page would run as root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


class Page:
    """The one tab of a process. Every method raises ChromiumError once the process is gone."""

    def __init__(self, process: subprocess.Popen[bytes], stderr: Path) -> None:
        assert process.stdin and process.stdout
        self._process, self._stderr = process, stderr
        self._to: IO[bytes] = process.stdin
        self._from: IO[bytes] = process.stdout
        self._received = bytearray()
        self._number = 0
        self._session: str | None = None
        self._html = b""
        self._late = False

    def load_html(self, html: bytes) -> None:
        self._html = html
        target = self._request("Target.createTarget", url="about:blank")["targetId"]
        attached = self._request("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self._request("Fetch.enable")
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        self._request("Emulation.setDeviceMetricsOverride", **size)
        light = {"name": "prefers-color-scheme", "value": "light"}
        self._request("Emulation.setEmulatedMedia", media="print", features=[light])
        self._request("Page.navigate", url=ADDRESS)
        self.evaluate(LOADED)

    def evaluate(self, script: str) -> Any:
        """Return the value of a script of ours, as JSON; waits for a promise. Raises ChromiumError."""
        answer = self._request(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if details := answer.get("exceptionDetails"):
            raise ChromiumError(f"The page failed in Chromium: {_exception_text(details)}")
        return answer["result"].get("value")

    def pdf(self, footer: str) -> bytes:
        """A4; `footer` is HTML at the foot of each page."""
        answer = self._request(
            "Page.printToPDF",
            displayHeaderFooter=True,
            headerTemplate="<span></span>",
            footerTemplate=footer,
            scale=SCALE,
            paperWidth=8.27,
            paperHeight=11.69,
            **MARGINS,
            generateTaggedPDF=True,
            generateDocumentOutline=True,
        )
        return base64.b64decode(answer["data"])

    def give_up(self) -> None:
        self._late = True
        self.kill()

    def kill(self) -> None:
        """Kill Chromium and all processes that it started."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    def _request(self, method: str, **params: Any) -> dict[str, Any]:
        number = self._send(method, params)
        while True:
            message = self._receive()
            if message.get("method") == "Fetch.requestPaused":
                self._serve_request(message["params"])
            elif message.get("id") == number:
                if "error" in message:
                    raise ChromiumError(
                        f"Chromium refused {method}: {message['error'].get('message')}"
                    )
                result: dict[str, Any] = message["result"]
                return result

    def _serve_request(self, request: dict[str, Any]) -> None:
        """Serve the page once; refuse every other request before it leaves the process."""
        identifier = {"requestId": request["requestId"]}
        if request["request"]["url"] != ADDRESS or not self._html:
            self._send("Fetch.failRequest", identifier | {"errorReason": "AccessDenied"})
            return
        kind = [{"name": "Content-Type", "value": "text/html; charset=utf-8"}]
        body, self._html = base64.b64encode(self._html).decode(), b""
        response = {"responseCode": 200, "responseHeaders": kind, "body": body}
        self._send("Fetch.fulfillRequest", identifier | response)

    def _send(self, method: str, params: dict[str, Any]) -> int:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        rest = memoryview(json.dumps(message).encode() + b"\0")
        try:
            while rest:
                rest = rest[os.write(self._to.fileno(), rest) :]
        except OSError as error:
            raise self._process_error() from error
        return self._number

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._received:
            more = os.read(self._from.fileno(), 1 << 20)
            if not more:
                raise self._process_error()
            self._received += more
        frame, _, self._received = self._received.partition(b"\0")
        message: dict[str, Any] = json.loads(frame)
        return message

    def _process_error(self) -> ChromiumError:
        if self._late:
            return ChromiumError(f"Chromium was not done after {MAX_SECONDS} s.")
        lines = self._stderr.read_text(errors="replace").strip().splitlines()
        if any("No usable sandbox" in line for line in lines):
            return ChromiumError(
                "Chromium cannot make its sandbox here; docs/operating.md says what to do."
            )
        return ChromiumError(f"Chromium ended: {lines[-1][:300] if lines else 'no output'}")


def _exception_text(details: dict[str, Any]) -> str:
    text = details.get("exception", {}).get("description") or details.get("text") or "no words"
    return str(text).splitlines()[0][:300]


# Resolves once every chart is drawn, to the titles of those that could not be.
DRAWN = """new Promise((done) => {
  const look = () => {
    const charts = [...document.querySelectorAll(".chart")];
    const over = charts.every((one) => one.querySelector(".main-svg, [role=status]"));
    if (!over) return setTimeout(look, 50);
    const lost = charts.filter((one) => !one.querySelector(".main-svg"));
    document.fonts.ready.then(() => done(lost.map((one) => one.dataset.chartName)));
  };
  look();
})"""
# Paper neither folds nor scrolls: open what is folded, and shrink tables that are too wide.
UNFOLDED = """
for (const one of document.querySelectorAll("details:not(.no-print)")) one.open = true;
for (const table of document.querySelectorAll("table")) {
  const room = table.parentElement.clientWidth;
  if (room && table.offsetWidth > room) table.style.zoom = room / table.offsetWidth;
}"""
FACTS = """({
  title: document.title,
  about: document.querySelector("meta[name=description]").content,
  address: document.body.dataset.address,
  software: document.querySelector("meta[name=generator]").content,
})"""
CHARTS = """[...document.querySelectorAll(".chart")].map(
  (one) => [one.id, one.dataset.chartName, one.figure.layout.title?.text ?? ""])"""
PICTURE = "pictures.encoded(document.getElementById({chart}), {format})"


@dataclass(frozen=True, slots=True)
class Picture:
    # DOM id
    chart: str
    # of its files, without the ending
    name: str
    title: str
    svg: bytes
    png: bytes


def pdf(html: bytes) -> bytes:
    """Return the report as PDF. Raises ChromiumError."""
    with open_page(html) as page:
        _wait_for_charts(page)
        page.evaluate(UNFOLDED)
        facts: dict[str, str] = page.evaluate(FACTS)
        printed = page.pdf(_footer(facts))
    metadata = {
        "Title": facts["title"],
        "Subject": facts["about"],
        "Keywords": facts["address"],
        "Creator": facts["software"],
        "Producer": "Chromium",
    }
    return add_metadata(printed, metadata, timezone.now())


def _wait_for_charts(page: Page) -> None:
    if lost := page.evaluate(DRAWN):
        raise ChromiumError(f"A chart could not be drawn: {', '.join(lost)}.")


def _footer(facts: Mapping[str, str]) -> str:
    """Return the footer's HTML. It is a separate document, which the page's style does not reach."""
    left_text = escape(f"{facts['software']}, {facts['address']}")
    return (
        '<div style="width:100%;margin:0 15mm;font:7pt sans-serif;color:#444;display:flex;'
        f'justify-content:space-between"><span>{left_text}</span><span><span class="pageNumber"></span> of '
        '<span class="totalPages"></span></span></div>'
    )


def pictures(html: bytes) -> list[Picture]:
    """Return each chart as SVG and PNG that state their origin. Raises ChromiumError."""
    with open_page(html) as page:
        _wait_for_charts(page)
        return [
            Picture(
                chart,
                f"charts/{number}-{_file_slug(name)}",
                title,
                *(_encode_chart(page, chart, kind) for kind in ("svg", "png")),
            )
            for number, (chart, name, title) in enumerate(page.evaluate(CHARTS), 1)
        ]


def _encode_chart(page: Page, chart: str, format: str) -> bytes:
    words = {"chart": orjson.dumps(chart).decode(), "format": orjson.dumps(format).decode()}
    return base64.b64decode(page.evaluate(PICTURE.format(**words)))


def _file_slug(name: str) -> str:
    return re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")[:60] or "chart"


TRAILER = re.compile(rb"trailer\s*<<(.*?)>>\s*startxref\s+(\d+)\s+%%EOF\s*$", re.S)
SIZE = re.compile(rb"/Size\s+(\d+)")
ROOT = re.compile(rb"/Root\s+(\d+\s+\d+\s+R)")


def add_metadata(pdf: bytes, facts_by_name: Mapping[str, str], created: datetime) -> bytes:
    """Add facts (Title, Subject, Creator …) to a PDF. Raises ValueError if it does not end like one of Chromium's."""
    end = TRAILER.search(pdf, max(0, len(pdf) - 2048))
    size, root = (SIZE.search(end[1]), ROOT.search(end[1])) if end else (None, None)
    if end is None or size is None or root is None:
        raise ValueError("a PDF without a trailer")
    number = int(size[1])
    facts = b"".join(
        b"/%s %s " % (key.encode(), _pdf_string(value)) for key, value in facts_by_name.items()
    )
    date = created.astimezone(UTC).strftime("D:%Y%m%d%H%M%SZ").encode()
    head = pdf if pdf.endswith(b"\n") else pdf + b"\n"
    row = b"%d 0 obj\n<<%s/CreationDate (%s)>>\nendobj\n" % (number, facts, date)
    table = b"xref\n%d 1\n%010d 00000 n \n" % (number, len(head))
    trailer = b"trailer\n<</Size %d /Root %s /Info %d 0 R /Prev %s>>\n" % (
        number + 1,
        root[1],
        number,
        end[2],
    )
    return head + row + table + trailer + b"startxref\n%d\n%%%%EOF\n" % (len(head) + len(row))


def _pdf_string(words: str) -> bytes:
    """Return a text string in hexadecimal UTF-16, which needs no escapes."""
    return b"<FEFF" + words.encode("utf-16-be", "replace").hex().upper().encode() + b">"
