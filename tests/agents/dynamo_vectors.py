"""Captured traffic of a real dynamo, and a console to replay it against."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from agents.dynamo.console import Console, Logged, Paused, Script, Turn

CASES = Path(__file__).parents[1] / "cases" / "dynamo"
SESSIONS = ("full", "twotargets", "rc1", "reject", "reset", "stopprep", "fail")


@dataclass(frozen=True)
class Vector:
    session: str
    seq: int
    kind: str
    direction: str  # "c2d" or "d2c"
    channel: str
    t: float
    raw: bytes
    wire: int
    decoded: Any
    derived: Any

    @property
    def whole(self) -> bytes:
        return self.raw.ljust(self.wire, b"\0")


@cache
def session(name: str) -> tuple[Vector, ...]:
    lines = (CASES / f"{name}.jsonl").read_text().splitlines()
    return tuple(_vector(name, number, json.loads(line)) for number, line in enumerate(lines, 1))


def everything() -> list[Vector]:
    return [vector for name in SESSIONS for vector in session(name)]


def _vector(name: str, number: int, row: dict[str, Any]) -> Vector:
    raw = base64.b64decode(row["stored"]).ljust(row["meaning"], b"\0")
    return Vector(name, number, row["kind"], row["direction"], row["channel"], row["t"], raw,
                  row["wire"], row["decoded"], row.get("derived_per_target"))  # fmt: skip


class Replay:
    """A console whose other side is a recording; keeps what it sent, one message each, and its events."""

    def __init__(self, script: Script, began: float = 0.0) -> None:
        self.console = Console(script)
        self.now = began
        self.sent: list[bytes] = []
        self.events: list[Any] = []
        self._turn(self.console.start_script(began))

    def _turn(self, turn: Turn) -> None:
        out = [e.raw for e in turn.events if isinstance(e, Logged) and e.direction == ">"]
        assert turn.send == b"".join(out)
        self.sent += out
        self.events += turn.events
        if any(isinstance(event, Paused) for event in turn.events):
            self._turn(self.console.resume(self.now))

    def until(self, now: float) -> None:
        """Lets time pass, and what is due happen."""
        while (due := self.console.deadline) is not None and due <= now:
            self.now = max(self.now, due)
            self._turn(self.console.tick(self.now))
        self.now = now

    def feed(self, data: bytes, piece: int = 1 << 20) -> None:
        for at in range(0, len(data), piece):
            self._turn(self.console.feed(data[at : at + piece], self.now))

    def cancel(self) -> None:
        self._turn(self.console.cancel(self.now))

    def closed(self) -> None:
        self._turn(self.console.closed(self.now))

    def play(self, vectors: Sequence[Vector], piece: int = 1 << 20) -> Replay:
        """Say what dynamo said, at the time when it said it."""
        for vector in vectors:
            self.until(vector.t)
            if vector.direction == "d2c":
                self.feed(vector.whole, piece)
        return self


def spoken(vectors: Sequence[Vector]) -> list[bytes]:
    """Messages of the console in the recording."""
    return [vector.whole for vector in vectors if vector.direction == "c2d"]


def on(name: str, channel: str) -> list[Vector]:
    return [vector for vector in session(name) if vector.channel == channel]
