# SPDX-License-Identifier: Apache-2.0
"""One dynamo's session as a state machine over any byte stream: no socket, no clock, no file. Runs on the host.

A script (script.py), which is a generator of steps, says what to do. The console frames and logs messages both ways,
keeps the time-outs and cancels cleanly. The owner of the stream does this, with `now` in seconds of a monotonic clock:

    console = Console(script)
    turn = console.start(now)
    each turn:  write all of turn.send to the stream, then handle turn.events
    then wait for the first of these, and get the next turn from it:
        bytes came           console.feed(data, now)
        the stream ended     console.closed(now)
        console.deadline     console.tick(now)         (None: nothing is due)
        somebody stops it    console.cancel(now)
        after a Paused event, when what it asks for is done   console.resume(now, trouble="")
    until console.over; then close the stream. console.failure says why, or console.result is what the script returned.

There are two streams: the login connection (script.login) and the control connection (script.session), each with a
console of its own. After a failure only close the stream: dynamo ends cleanly by that, even in the middle of I/O.
"""

from typing import Any, Generator, List, NamedTuple, Optional, Tuple, Union

from agents.dynamo.wire import SIZES, DynamoError, Inbox

# s; dynamo looks at its preparation every 3 s, and was seen to take 5.5 s
CANCELLING = 20.0
KINDS = {"M": "message", "D": "data"}


class Send(NamedTuple):
    """A step: messages to send, and the expected answer. The script gets an Answer."""

    # the current action, for errors: "starting the workers"
    activity: str
    parts: Tuple[bytes, ...]
    # one letter for each: M an 8-byte message, D a data message
    awaits: str = ""
    # seconds; 0: none
    timeout: float = 0.0
    # sent if somebody stops the session meanwhile; the awaited answer then comes early
    cancel: bytes = b""


class Sleep(NamedTuple):
    """A step: nothing until then. The script gets the time."""

    until: float


class Emit(NamedTuple):
    """A step: an event for the owner. The script gets the time."""

    event: object


class Pause(NamedTuple):
    """A step: the owner does something and calls resume(). The script gets the time."""

    reason: str


Step = Union[Send, Sleep, Emit, Pause]
# Any: the value that a script gets depends on its step (an Answer or the time); its result, on the script.
Script = Generator[Step, Any, Any]


class Answer(NamedTuple):
    """Parts of an answer, each with the time when it was complete, and the time when the request was sent."""

    sent_at: float
    parts: Tuple[bytes, ...]
    times: Tuple[float, ...]


class Logged(NamedTuple):
    """An event: one whole message went out (">") or came in ("<")."""

    direction: str
    at: float
    raw: bytes


class Paused(NamedTuple):
    """An event: the script waits for resume()."""

    reason: str
    at: float


class Turn(NamedTuple):
    send: bytes
    events: Tuple[object, ...]


class Cancelled(DynamoError):
    """Thrown into the script where it stands; it brings dynamo to rest and raises it again."""

    def __init__(self) -> None:
        super().__init__("cancelled", "stopped on request")


class Console:
    def __init__(self, script: Script) -> None:
        self.over = False
        self.failure: Optional[DynamoError] = None
        self.result: object = None
        self.deadline: Optional[float] = None
        self._script = script
        self._inbox = Inbox()
        self._step: Optional[Step] = None
        self._came: List[Tuple[bytes, float]] = []
        self._sent_at = 0.0
        # "": not requested, "asked": requested, "thrown": raised in the script
        self._cancel = ""
        self._send: List[bytes] = []
        self._events: List[object] = []

    def start_script(self, now: float) -> Turn:
        self._advance(None, now)
        return self._turn()

    def feed(self, data: bytes, now: float) -> Turn:
        """Take bytes that arrived, in pieces of any size."""
        if not self.over:
            self._inbox.feed(data)
            self._receive(now)
        return self._turn()

    def tick(self, now: float) -> Turn:
        """Take note of the time. Harmless if nothing is due."""
        if not self.over and self.deadline is not None and now >= self.deadline:
            if isinstance(self._step, Sleep):
                self._advance(now, now)
            else:
                self._fail(
                    DynamoError("timeout", f"dynamo did not answer in time: {self._position()}")
                )
        return self._turn()

    def closed(self, now: float) -> Turn:
        """Take note that the other side closed the stream."""
        if not self.over and self._cancel:
            # Whatever dynamo makes of it, this was requested.
            self._fail(Cancelled())
        elif not self.over:
            self._fail(
                DynamoError(
                    "closed",
                    f"dynamo closed the connection (it may have crashed): {self._position()}",
                )
            )
        return self._turn()

    def cancel(self, now: float) -> Turn:
        """End the session soon: recording off, STOP, EXIT. Harmless if repeated."""
        if not self.over and not self._cancel:
            self._cancel = "asked"
            if isinstance(self._step, Send):
                if self._step.cancel:
                    self._send_message(self._step.cancel, now)
                    self.deadline = now + CANCELLING
            else:
                self._advance(now, now)
        return self._turn()

    def resume(self, now: float, trouble: str = "") -> Turn:
        """Continue after a Paused event; `trouble` ends the session."""
        if not self.over and isinstance(self._step, Pause):
            self._advance(DynamoError("host", trouble) if trouble else now, now)
        return self._turn()

    def _turn(self) -> Turn:
        turn = Turn(b"".join(self._send), tuple(self._events))
        self._send, self._events = [], []
        return turn

    def _receive(self, now: float) -> None:
        while len(self._inbox):
            step = self._step
            if self.over or not isinstance(step, Send):
                if not self.over:
                    self._fail(
                        DynamoError(
                            "protocol",
                            f"dynamo sent {len(self._inbox)} unexpected bytes: {self._position()}",
                        )
                    )
                return
            raw = self._inbox.take_message(KINDS[step.awaits[len(self._came)]])
            if raw is None:
                return
            self._events.append(Logged("<", now, raw))
            self._came.append((raw, now))
            if len(self._came) == len(step.awaits):
                self._advance(self._build_answer(), now)

    def _build_answer(self) -> Answer:
        parts, times = zip(*self._came) if self._came else ((), ())
        return Answer(self._sent_at, tuple(parts), tuple(times))

    def _advance(self, value: object, now: float) -> None:
        """Run the script up to the next step that takes time."""
        while True:
            try:
                step = self._next_step(value)
            except StopIteration as stop:
                self._finish(stop.value)
                return
            except DynamoError as error:
                self._fail(error)
                return
            self._step, self._came, self.deadline = step, [], None
            if isinstance(step, Emit):
                self._events.append(step.event)
                value = now
            elif isinstance(step, Send):
                self._begin_step(step, now)
                if step.awaits:
                    return
                value = self._build_answer()
            else:
                if isinstance(step, Sleep):
                    self.deadline = step.until
                else:
                    self._events.append(Paused(step.reason, now))
                if self._cancel != "asked":
                    return
                value = now

    def _next_step(self, value: object) -> Step:
        if isinstance(value, DynamoError):
            return self._script.throw(value)
        if self._cancel == "asked" and self._step is not None:
            self._cancel = "thrown"
            return self._script.throw(Cancelled())
        return self._script.send(value)

    def _begin_step(self, step: Send, now: float) -> None:
        self._sent_at = now
        if step.timeout:
            self.deadline = now + step.timeout
        for part in step.parts:
            self._send_message(part, now)

    def _send_message(self, raw: bytes, now: float) -> None:
        self._send.append(raw)
        self._events.append(Logged(">", now, raw))

    def _finish(self, result: object) -> None:
        self.over, self.result, self.deadline = True, result, None

    def _fail(self, error: DynamoError) -> None:
        self._script.close()
        self.over, self.failure, self.deadline = True, error, None

    def _position(self) -> str:
        step = self._step
        if isinstance(step, Send):
            size = SIZES[KINDS[step.awaits[len(self._came)]]] if step.awaits else 0
            return f"while {step.activity}; {len(self._inbox)} of {size} bytes had arrived"
        return "while waiting" if isinstance(step, Sleep) else "between two steps"
