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
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from django.conf import settings

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
