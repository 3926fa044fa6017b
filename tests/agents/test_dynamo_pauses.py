"""Pauses of the console for its owner, and of dynamo, which ends before its owner's word reaches it."""

from __future__ import annotations

import contextlib
from typing import Any

from agents.dynamo import script, wire
from agents.dynamo.console import Answer, Console, Paused, Send, Sleep
from agents.dynamo.specs import Trial
from agents.dynamo.wire import Message
from tests.agents import dynamo_scripts as scripts
from tests.agents.dynamo_vectors import Replay, on


def test_recording_begins_when_the_owner_has_counted() -> None:
    vectors = on("twotargets", "control")
    asked = next(v for v in vectors if v.kind == "RECORD_ON")
    both = (scripts.target("disk1", 4), scripts.target("disk2", 2, scripts.SEED + 1))
    test = Trial(scripts.MIXED, (both,), (both,), 0.5, 2.0, 0)
    console = Console(script.session([test], report=True))
    console.start_script(vectors[0].t)
    began = 0.0
    for vector in (v for v in vectors if v.seq < asked.seq and v.direction == "d2c"):
        turn = console.feed(vector.whole, vector.t)
        for event in turn.events:
            if isinstance(event, Paused) and event.reason == script.CHECK_PREPARED:
                turn = console.resume(vector.t)
    while not (turn.events and isinstance(turn.events[-1], Paused)):
        assert console.deadline is not None
        turn = console.tick(console.deadline)
        began = vector.t
    assert turn.events[-1].reason == script.BEFORE_RECORDING and turn.send == b""
    assert turn.events[-2] == script.Phase("record")
    later = began + 1000.0  # the counters of a far host may take their time
    assert console.resume(later).send == asked.whole
    # All of the recording is still to come
    assert console.deadline is not None and console.deadline >= later


def asked_at(took: float, test: Trial) -> list[float]:
    """Times at which updates are asked for, seconds since recording began, where each answer takes so long."""
    made, now = script.record_test(test, [False]), 0.0
    said: Any = None
    found: list[float] = []
    with contextlib.suppress(StopIteration):
        while True:
            step = made.send(said)
            if isinstance(step, Sleep):
                said = now = max(now, step.until)
            elif isinstance(step, Send) and step.awaits.startswith("D"):
                found.append(now)
                said, now = Answer(now, (b"",), (now + took,)), now + took
            elif isinstance(step, Send):
                said = Answer(now, (Message(wire.RECORD_OFF, wire.ALL_WORKERS).encode(),), (now,))
            else:
                said = now
    return found


def test_updates_that_take_long_are_put_off() -> None:
    """On a host with one CPU, asked each second, up to half of the IOPS were lost."""
    both = (scripts.target("disk1", 4), scripts.target("disk2", 2, scripts.SEED + 1))
    test = Trial(scripts.MIXED, (both,), (), 0.0, 60.0, 3.0)
    assert asked_at(0.002, test) == [3.0 * n for n in range(1, 21)]
    assert asked_at(0.05, test) == [3.0, 9.0, 15.0, 21.0, 27.0, 33.0, 39.0, 45.0, 51.0, 57.0]
    assert asked_at(0.2, test) == [3.0, 24.0, 45.0]
    assert asked_at(7.0, test) == [3.0]  # one at least, to see how fast its clock ticks
    assert asked_at(0.05, test._replace(poll=0)) == []


def test_a_dynamo_that_ends_when_it_is_stopped_was_stopped() -> None:
    """Whatever it makes of that: nobody is told of a crash who asked for the end."""
    vectors = on("stopprep", "control")
    asked = next(v for v in vectors if v.kind == "PREP_DISKS")
    made = Replay(scripts.stop_preparing(), vectors[0].t)
    made.play([v for v in vectors if v.seq <= asked.seq])
    made.cancel()
    made.closed()
    assert made.console.failure is not None and made.console.failure.kind == "cancelled"
