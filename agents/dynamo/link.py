"""The sockets of one dynamo on this machine: it logs in to us, we connect back to it. Runs on the host.

Consoles (console.py) say what to send and when; this only moves bytes and looks at the clock.
"""

import contextlib
import select
import signal
import socket
import time
from types import TracebackType
from typing import Any, Callable, List, Optional, Type

from agents.dynamo import script
from agents.dynamo.console import Console, Logged, Paused, Script, Turn
from agents.dynamo.messages import ManagerInfo
from agents.dynamo.process import Dynamo
from agents.dynamo.transcript import CONTROL, LOGIN, Writer
from agents.dynamo.wire import DynamoError

HERE = "127.0.0.1"
LOGGING_IN, STRANGER, CONNECTING, RETRY = 30.0, 5.0, 10.0, 0.05  # s
ENDING = 3.0  # s that a stopped session gets; then the stream is closed (runner.sh kills after 5)
TICK = 1.0
PIECE = 1 << 20
clock = time.monotonic


class Stopper:
    """Turns TERM and INT into something that can be waited for."""

    def __init__(self) -> None:
        self.stopped = False
        self._here, self._there = socket.socketpair()
        self._there.setblocking(False)
        self._before = signal.set_wakeup_fd(self._there.fileno())
        self._handlers = [
            (number, signal.signal(number, self._stop))
            for number in (signal.SIGTERM, signal.SIGINT)
        ]

    def _stop(self, number: int, frame: Any) -> None:
        self.stopped = True

    def fileno(self) -> int:
        return self._here.fileno()

    def drain(self) -> None:
        self._here.recv(1024)

    def close(self) -> None:
        signal.set_wakeup_fd(self._before)
        for number, handler in self._handlers:
            signal.signal(number, handler)
        self._here.close()
        self._there.close()


class Link:
    """Listens from the beginning. `event(event, now)` gets what consoles tell, and answers a Paused ("": all right).

    `idle(now)` is called about each second while there is a session; what it returns ends the session.
    """

    def __init__(
        self, writer: Writer, stopper: Stopper,
        event: Callable[[Any, float], str], idle: Callable[[float], str],
    ) -> None:  # fmt: skip
        self._writer, self._stopper, self._tell, self._look = writer, stopper, event, idle
        self._listener = socket.socket()
        self._listener.bind((HERE, 0))
        self._listener.listen(8)
        self.port: int = self._listener.getsockname()[1]
        self._stream: Optional[socket.socket] = None
        self._channel = LOGIN
        self._why = ""

    def __enter__(self) -> "Link":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:  # fmt: skip
        self._listener.close()
        self._hang_up()

    def log_in(self, name: str, dynamo: Dynamo) -> ManagerInfo:
        """Waits for our dynamo, and connects back to it. Raises DynamoError."""
        until = clock() + LOGGING_IN
        while True:
            self._stream = self._accept(until, dynamo)
            try:
                info: ManagerInfo = self._serve(Console(script.login(name, STRANGER)))
                break
            except DynamoError as error:
                if error.kind in ("cancelled", "version"):
                    raise
                self._hang_up()  # somebody else's connection; ours may still come
        back = self._connect((HERE, info.port), dynamo)
        self._hang_up()
        self._stream, self._channel = back, CONTROL
        return info

    def talk(self, run: Script) -> None:
        """The control connection. Raises DynamoError."""
        self._serve(Console(run))

    def _accept(self, until: float, dynamo: Dynamo) -> socket.socket:
        while clock() < until:
            watched: List[Any] = [self._listener, self._stopper]
            ready = select.select(watched, [], [], 0.2)[0]
            if self._stopper.stopped:
                raise DynamoError("cancelled", "stopped on request")
            if self._listener in ready:
                return _tuned(self._listener.accept()[0])
            if dynamo.ended:
                raise DynamoError("host", "dynamo ended before it logged in")
        raise DynamoError("timeout", f"dynamo did not log in within {LOGGING_IN:.0f} s")

    def _connect(self, address: "tuple[str, int]", dynamo: Dynamo) -> socket.socket:
        """dynamo listens only a moment after it has read our answer, so the first tries may be refused."""
        until = clock() + CONNECTING
        while True:
            try:
                return _tuned(socket.create_connection(address, CONNECTING))
            except OSError as error:
                if clock() > until or dynamo.ended or self._stopper.stopped:
                    raise DynamoError("host", f"cannot connect back to dynamo: {error}") from None
            time.sleep(RETRY)

    def _serve(self, console: Console) -> Any:
        """Runs a console on the stream to its end."""
        self._why = ""
        ends: Optional[float] = None
        now = looked = clock()
        self._turn(console, console.start(now), now)
        while not console.over:
            ready = self._wait(console, looked + TICK, ends)
            now = clock()
            if self._stopper in ready:
                self._stopper.drain()
            if self._stopper.stopped and ends is None:
                ends = now + ENDING
                self._turn(console, console.cancel(now), now)
            if ends is not None and now > ends:
                raise DynamoError("cancelled", "stopped on request; dynamo did not come to rest")
            if self._stream in ready:
                self._read(console)
            self._turn(console, console.tick(clock()), clock())
            if now >= looked + TICK:
                looked = now
                self._watch(console, now)
        if console.failure is not None:
            raise DynamoError("host", self._why) if self._why else console.failure
        return console.result

    def _wait(self, console: Console, look: float, ends: Optional[float]) -> List[Any]:
        dues = [due for due in (console.deadline, look, ends) if due is not None]
        wait = max(0.0, min(dues) - clock())
        watched: List[Any] = [self._stream, self._stopper]
        return select.select(watched, [], [], wait)[0]

    def _watch(self, console: Console, now: float) -> None:
        if not self._why:
            self._why = self._look(now)
            if self._why:
                self._turn(console, console.cancel(now), now)

    def _read(self, console: Console) -> None:
        assert self._stream is not None
        try:
            data = self._stream.recv(PIECE)
        except OSError:
            data = b""
        now = clock()
        self._turn(console, console.feed(data, now) if data else console.closed(now), now)

    def _turn(self, console: Console, turn: Turn, now: float) -> None:
        assert self._stream is not None
        if turn.send:
            try:
                self._stream.sendall(turn.send)
            except OSError:
                self._turn(console, console.closed(now), now)
                return
        for event in turn.events:
            if isinstance(event, Logged):
                self._writer.message(event.direction, self._channel, event.at, event.raw)
                continue
            trouble = self._tell(event, now)
            if isinstance(event, Paused):
                self._turn(console, console.resume(now, trouble), now)

    def _hang_up(self) -> None:
        if self._stream is not None:
            with contextlib.suppress(OSError):
                self._stream.close()
            self._stream = None


def _tuned(stream: socket.socket) -> socket.socket:
    stream.settimeout(30.0)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return stream
