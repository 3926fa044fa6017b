# SPDX-License-Identifier: Apache-2.0
"""The sockets of one dynamo: it logs in to us, we connect back to it. Runs on the host.

Consoles (console.py) decide what to send and when; this only moves bytes and reads the clock. `Transport` works on any
streams; `Link` has those of a dynamo on this machine. `Live` writes a JSON line
of figures each second; the result is in the transcript.
"""

import contextlib
import json
import select
import signal
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Callable, Dict, List, Optional, Type, TypeVar, Union

from agents.dynamo import figures, results, script, wire
from agents.dynamo.calibrate import Poll, calibrate_rate
from agents.dynamo.console import Console, Logged, Paused, Script, Turn
from agents.dynamo.messages import ManagerInfo
from agents.dynamo.script import Phase, ResultsReported
from agents.dynamo.transcript import CONTROL, LOGIN, Writer
from agents.dynamo.wire import DynamoError

LOOPBACK = "127.0.0.1"
# s
LOGGING_IN, CONNECTING, RETRY = 30.0, 10.0, 0.05
TICK = 1.0
PIECE = 1 << 20
clock = time.monotonic
FOREIGN_KINDS = ("stranger",)
T = TypeVar("T", bound="Transport")


class StopSignal:
    """A request to stop the session, on which one can wait."""

    def __init__(self) -> None:
        self.stopped = False
        self._here, self._there = socket.socketpair()

    def fileno(self) -> int:
        return self._here.fileno()

    def drain(self) -> None:
        self._here.recv(1024)

    def close(self) -> None:
        self._here.close()
        self._there.close()


Watched = Union[socket.socket, StopSignal]


class Stopper(StopSignal):
    """The stop signal that TERM and INT set."""

    def __init__(self) -> None:
        super().__init__()
        self._there.setblocking(False)
        self._before = signal.set_wakeup_fd(self._there.fileno())
        self._handlers = [
            (number, signal.signal(number, self._handle_signal))
            for number in (signal.SIGTERM, signal.SIGINT)
        ]

    def _handle_signal(self, number: int, frame: object) -> None:
        self.stopped = True

    def close(self) -> None:
        signal.set_wakeup_fd(self._before)
        for number, handler in self._handlers:
            signal.signal(number, handler)
        super().close()


class Transport:
    """Both connections. `event(event, now)` gets the consoles' events, and returns the error for a Paused ("": none).

    `idle(now)` is called about once a second during a session; a text that it returns ends the session.
    """

    # Seconds that a stopped session gets; then the stream is closed (runner.sh kills after 5)
    ENDING = 3.0
    # s for a whole login (0.85 MiB), so that a silent client does not keep our dynamo waiting
    GREETING = 5.0

    def __init__(
        self,
        writer: Writer,
        stopper: StopSignal,
        event: Callable[[object, float], str],
        idle: Callable[[float], str],
    ) -> None:
        self._writer, self._stopper, self._tell, self._look = writer, stopper, event, idle
        self._stream: Optional[socket.socket] = None
        self._channel = LOGIN
        self._why = ""

    def __enter__(self: T) -> T:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        self._hang_up()

    def log_in(self, name: str, ended: Callable[[], bool]) -> ManagerInfo:
        """Wait for our dynamo, and connect back to it. `ended` is true once it is gone. Raises DynamoError."""
        until = clock() + LOGGING_IN
        while True:
            try:
                info = self.receive_login(self._accept_login(until, ended), name)
                break
            except DynamoError as error:
                if error.kind not in FOREIGN_KINDS:
                    raise
                # Somebody else's connection; ours may still come.
                self._hang_up()
        self.switch_to_control(self._connect_back(info, ended))
        return info

    def receive_login(self, stream: socket.socket, name: str = "") -> ManagerInfo:
        """Run the login connection. Raises DynamoError, with a kind in STRANGE if the dynamo is not ours."""
        self._stream, self._channel = stream, LOGIN
        try:
            info = self._run_console(Console(script.login(name, self.GREETING)))
        except DynamoError as error:
            kind = error.kind if error.kind in ("cancelled", "version") else "stranger"
            raise DynamoError(kind, str(error)) from None
        assert isinstance(info, ManagerInfo), "what the login returns"
        return info

    def switch_to_control(self, back: socket.socket) -> None:
        """Use the control connection from here on."""
        self._hang_up()
        self._stream, self._channel = back, CONTROL

    def run_script(self, run: Script) -> object:
        """Run the script on the control connection and return its result. Raises DynamoError."""
        return self._run_console(Console(run))

    def _accept_login(self, until: float, ended: Callable[[], bool]) -> socket.socket:
        raise NotImplementedError

    def _connect_back(self, info: ManagerInfo, ended: Callable[[], bool]) -> socket.socket:
        raise NotImplementedError

    def _run_console(self, console: Console) -> object:
        """Run a console on the stream to its end."""
        self._why = ""
        ends: Optional[float] = None
        now = looked = clock()
        self._take_turn(console, console.start_script(now), now)
        while not console.over:
            ready = self._wait_ready(console, looked + TICK, ends)
            now = clock()
            if self._stopper in ready:
                self._stopper.drain()
            if self._stopper.stopped and ends is None:
                ends = now + self.ENDING
                self._take_turn(console, console.cancel(now), now)
            if ends is not None and now > ends:
                raise DynamoError("cancelled", "stopped on request; dynamo did not become idle")
            if self._stream in ready:
                self._receive(console)
            self._take_turn(console, console.tick(clock()), clock())
            if now >= looked + TICK:
                looked = now
                self._check_idle(console, now)
        if console.failure is not None:
            raise DynamoError("host", self._why) if self._why else console.failure
        return console.result

    def _wait_ready(self, console: Console, look: float, ends: Optional[float]) -> List[Watched]:
        dues = [due for due in (console.deadline, look, ends) if due is not None]
        wait = max(0.0, min(dues) - clock())
        assert self._stream is not None
        watched: List[Watched] = [self._stream, self._stopper]
        return select.select(watched, [], [], wait)[0]

    def _check_idle(self, console: Console, now: float) -> None:
        if not self._why:
            self._why = self._look(now)
            if self._why:
                self._take_turn(console, console.cancel(now), now)

    def _receive(self, console: Console) -> None:
        assert self._stream is not None
        try:
            data = self._stream.recv(PIECE)
        except OSError:
            data = b""
        now = clock()
        self._take_turn(console, console.feed(data, now) if data else console.closed(now), now)

    def _take_turn(self, console: Console, turn: Turn, now: float) -> None:
        assert self._stream is not None
        if turn.send:
            try:
                self._stream.sendall(turn.send)
            except OSError:
                self._take_turn(console, console.closed(now), now)
                return
        for event in turn.events:
            if isinstance(event, Logged):
                self._writer.write_message(event.direction, self._channel, event.at, event.raw)
                continue
            trouble = self._tell(event, now)
            if isinstance(event, Paused):
                # The request of the event took its time.
                now = clock()
                self._take_turn(console, console.resume(now, trouble), now)

    def _hang_up(self) -> None:
        if self._stream is not None:
            with contextlib.suppress(OSError):
                self._stream.close()
            self._stream = None


class Link(Transport):
    """The sockets for a dynamo on this machine; it listens from the beginning."""

    def __init__(
        self,
        writer: Writer,
        stopper: StopSignal,
        event: Callable[[object, float], str],
        idle: Callable[[float], str],
    ) -> None:
        super().__init__(writer, stopper, event, idle)
        self._listener = socket.socket()
        self._listener.bind((LOOPBACK, 0))
        self._listener.listen(8)
        self.port: int = self._listener.getsockname()[1]

    def close(self) -> None:
        self._listener.close()
        super().close()

    def _accept_login(self, until: float, ended: Callable[[], bool]) -> socket.socket:
        while clock() < until:
            watched: List[Watched] = [self._listener, self._stopper]
            ready = select.select(watched, [], [], 0.2)[0]
            if self._stopper.stopped:
                raise DynamoError("cancelled", "stopped on request")
            if self._listener in ready:
                return set_socket_options(self._listener.accept()[0])
            if ended():
                raise DynamoError("host", "dynamo ended before it logged in")
        raise DynamoError("timeout", f"dynamo did not log in within {LOGGING_IN:.0f} s")

    def _connect_back(self, info: ManagerInfo, ended: Callable[[], bool]) -> socket.socket:
        return connect_back((LOOPBACK, info.port), lambda: ended() or self._stopper.stopped)


def connect_back(address: "tuple[str, int]", given_up: Callable[[], bool]) -> socket.socket:
    """Connect to dynamo. It listens only a moment after it has read our answer, so the first tries may be refused."""
    until = clock() + CONNECTING
    while True:
        try:
            return set_socket_options(socket.create_connection(address, CONNECTING))
        except OSError as error:
            if clock() > until or given_up():
                raise DynamoError("host", f"cannot connect back to dynamo: {error}") from None
        time.sleep(RETRY)


def set_socket_options(stream: socket.socket) -> socket.socket:
    stream.settimeout(30.0)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # A machine that lost its power sends nothing; by default the kernel would probe it only after two hours.
    for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, name):
            stream.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return stream


# only the last lines
NOW = "now.json"
# number of these lines: the sampler's ticks and ours are not in step, and no second may be missed
RECENT_LINES = 3
# s between two lines during a file layout
LAYOUT_INTERVAL_S = 1.0


class Live:
    """Writes the live figures. Set `updates.ticks` once dynamo has reported it."""

    def __init__(self, path: Path, began: float) -> None:
        self.updates = Updates()
        self._path, self._began = path, began
        self._phase = ""
        self._said = 0.0
        self._last: List[str] = []
        path.write_text("")

    def handle_event(self, event: object, now: float) -> None:
        if isinstance(event, Phase):
            self._phase = event.name
            self.updates.reset()
            self._write_line(now, {})
        elif isinstance(event, ResultsReported) and event.purpose == wire.REPORT_UPDATE:
            self._write_line(now, self.updates.update_figures(event))

    def laid_out(self, written: int, total: int, now: float) -> None:
        """Record the progress after each piece of a file."""
        if written == total or now >= self._said + LAYOUT_INTERVAL_S:
            self._said = now
            self._write_line(now, {"done": written / total})

    def _write_line(self, now: float, more: Dict[str, object]) -> None:
        fields = {"t": round(now - self._began, 3), "phase": self._phase}
        line = json.dumps(dict(fields, **more)) + "\n"
        with self._path.open("a") as file:
            file.write(line)
        self._last = [*self._last, line][-RECENT_LINES:]
        # The sampler reads this file at each of its ticks.
        half = self._path.with_name(NOW + ".part")
        half.write_text("".join(self._last))
        half.replace(self._path.with_name(NOW))


class Updates:
    """Figures of each update. `ticks` per second as dynamo reports them or, if that is wrong, as measured meanwhile."""

    def __init__(self, ticks: float = 0.0) -> None:
        self.ticks = ticks
        self._first: Optional[Poll] = None

    def reset(self) -> None:
        """Forget earlier updates, as another phase begins."""
        self._first = None

    def update_figures(self, event: ResultsReported) -> Dict[str, object]:
        """The figures since the last update; {} if they make no sense, as the transcript has the real ones."""
        try:
            workers = [
                results.decode_worker_results(raw, targets, self.ticks)
                for raw, targets in zip(event.answer.parts[1:], event.active)
            ]
            poll = Poll(event.answer.sent_at, event.answer.times[1], workers[0].last)
            self._first = self._first or poll
            ticks = calibrate_rate(self.ticks, [[self._first, poll]]).used
        except (DynamoError, IndexError):
            return {}
        parts: List[figures.Figures] = []
        for worker in workers:
            if worker.last <= worker.first:
                return {}
            seconds = (worker.last - worker.first) / ticks
            parts += [figures.target_figures(target, seconds, ticks) for target in worker.targets]
        whole = figures.sum_figures(parts)
        return {
            "iops": whole.combined.iops,
            "read.iops": whole.reads.iops,
            "write.iops": whole.writes.iops,
            "bandwidth": whole.combined.bandwidth,
            "lat.mean": whole.combined.mean,
            "lat.max": whole.combined.slowest,
            "errors": whole.combined.errors,
        }
