"""The console against the captured sessions, and against a dynamo that stops in the middle."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents.dynamo import link, script, wire
from agents.dynamo.console import Cancelled, Console, Script
from agents.dynamo.messages import ManagerInfo
from agents.dynamo.specs import Trial
from agents.dynamo.wire import DynamoError, Message
from tests.agents import dynamo_scripts as scripts
from tests.agents.dynamo_vectors import Replay, on, session, spoken

CONTROL: dict[str, Callable[[], Script]] = {
    "full": scripts.full,
    "twotargets": scripts.two_targets,
    "rc1": scripts.two_targets,
    "fail": scripts.failing,
}


@pytest.mark.parametrize("name", CONTROL)
@pytest.mark.parametrize("piece", [1 << 20, 70_001])
def test_the_control_connection_of_a_session(name: str, piece: int) -> None:
    vectors = on(name, "control")
    made = Replay(CONTROL[name](), vectors[0].t).play(vectors, piece)
    made.until(made.now + 1)
    assert made.sent == spoken(vectors)
    assert made.console.over
    if name == "fail":
        assert "could not open" in str(made.console.failure)
    else:
        assert made.console.failure is None


@pytest.mark.parametrize("name", ["full", "twotargets", "rc1", "fail", "stopprep"])
def test_a_login(name: str) -> None:
    vectors = on(name, "login")
    made = Replay(script.login("host-a")).play(vectors)
    assert made.sent == spoken(vectors)
    assert isinstance(info := made.console.result, ManagerInfo) and info.name == "host-a"


def test_a_login_that_is_refused() -> None:
    vectors = on("reject", "login")
    made = Replay(script.login("another")).play(vectors)
    assert made.sent == spoken(vectors)
    assert made.console.failure.kind == "stranger"
    assert "'host-a'" in str(made.console.failure)


def test_a_reset_and_a_second_login() -> None:
    login = [v for v in session("reset") if v.channel == "login"]
    half = len(login) // 2
    assert Replay(script.login()).play(login[:half]).sent == spoken(login[:half])
    control = on("reset", "control")
    made = Replay(scripts.resetting())
    assert made.sent == spoken(control)[:1]
    again = Replay(script.login()).play(login[half:])
    assert again.sent == spoken(login[half:])
    assert isinstance(info := again.console.result, ManagerInfo)
    assert info.port == 43279  # the same port again
    assert Replay(scripts.leaving()).sent == spoken(control)[1:]


def test_preparing_that_is_cancelled() -> None:
    vectors = on("stopprep", "control")
    stop = next(n for n, v in enumerate(vectors) if v.kind == "STOP_PREPARE")
    made = Replay(scripts.stop_preparing(), vectors[0].t).play(vectors[:stop])
    made.until(vectors[stop].t)
    made.cancel()
    made.play(vectors[stop:])
    assert made.sent == spoken(vectors)
    assert isinstance(made.console.failure, Cancelled)


def messages_until(made: Replay) -> list[str]:
    return [wire.decode_message(raw).purpose_name for raw in made.sent if len(raw) == 8]


@pytest.mark.parametrize("seconds", [0.2, 1.5, 2.6])
def test_stop_before_exit_whenever_it_is_cancelled(seconds: float) -> None:
    vectors = on("full", "control")
    begin = next(v for v in vectors if v.kind == "BEGIN_IO_reply")
    made = Replay(scripts.full(), vectors[0].t)
    made.play([v for v in vectors if v.seq <= begin.seq])
    replies = [v for v in vectors if v.seq > begin.seq and v.direction == "d2c"]
    while replies and replies[0].t < begin.t + seconds:
        made.play([replies.pop(0)])
    made.until(begin.t + seconds)
    made.cancel()
    made.cancel()  # twice is once
    recording = seconds > 1
    if recording:
        made.feed(Message(wire.RECORD_OFF, -4).encode())
    assert messages_until(made)[-1] == "STOP"
    made.feed(Message(wire.STOP, -4).encode())
    assert isinstance(made.console.failure, Cancelled)
    assert ("RECORD_OFF" in messages_until(made)) == recording
    assert "EXIT" not in messages_until(made)[:-1]


def whole_session() -> Script:
    both = (scripts.target("disk1", 4), scripts.target("disk2", 2, scripts.SEED + 1))
    yield from script.session([Trial(scripts.MIXED, (both,), (both,), 0.5, 2.0, 0)], report=True)


CUTS = [0, 1, 7, 8, 9, 4000, 888_839, 888_840, 888_841]


@pytest.mark.parametrize(
    "seq", [v.seq for v in on("twotargets", "control") if v.direction == "d2c"]
)
def test_a_stream_cut_at_any_byte_is_an_error(seq: int) -> None:
    vectors = on("twotargets", "control")
    for cut in CUTS:
        made = Replay(whole_session(), vectors[0].t).play([v for v in vectors if v.seq < seq])
        last = next(v for v in vectors if v.seq == seq)
        if cut >= last.wire:
            continue
        made.until(last.t)
        made.feed(last.whole[:cut])
        before = len(made.events)
        made.closed()
        assert made.console.failure.kind == "closed"
        assert f"{cut} of {last.wire} bytes had arrived" in str(made.console.failure)
        assert made.events[before:] == []  # no half message is ever told
        assert made.console.result is None


TIMEOUTS = {
    "ADD_WORKERS": 10.0, "SET_ACCESS": 10.0, "SET_TARGETS": 10.0, "START": 10.0, "BEGIN_IO": 30.0,
    "RECORD_OFF": 10.0, "STOP": 60.0, "REPORT_RESULTS": 10.1, "REPORT_TARGETS": 60.0,
}  # fmt: skip


@pytest.mark.parametrize("name", TIMEOUTS)
def test_a_dynamo_that_does_not_answer(name: str) -> None:
    vectors = on("twotargets", "control")
    asked = next(v for v in vectors if v.kind == name)
    made = Replay(whole_session(), vectors[0].t).play([v for v in vectors if v.seq <= asked.seq])
    sent = len(made.sent)
    made.until(asked.t + TIMEOUTS[name] - 0.1)
    assert not made.console.over
    made.until(asked.t + TIMEOUTS[name] + 0.1)
    assert made.console.failure.kind == "timeout"
    assert made.sent[sent:] == []  # above all no EXIT


def test_preparing_has_no_timeout() -> None:
    vectors = on("twotargets", "control")
    made = Replay(whole_session()).play([v for v in vectors if v.kind != "PREP_DISKS_reply"][:17])
    assert messages_until(made)[-1] == "PREP_DISKS"
    assert made.console.deadline is None


@pytest.mark.parametrize("reply", [Message(wire.STOP, -4), Message(0x12345678, 1), Message(0, 0)])
def test_an_answer_out_of_step_is_an_error_and_nothing_is_sent(reply: Message) -> None:
    made = Replay(script.session([Trial(scripts.HALF, ((scripts.target("disk1", 1),),))]))
    made.feed(reply.encode())
    assert made.console.failure.kind == "protocol"
    assert reply.purpose_name in str(made.console.failure)
    assert len(made.sent) == 1


def test_bytes_that_nobody_asked_for_are_an_error() -> None:
    def nothing() -> Script:
        yield script.Sleep(100.0)

    made = Replay(nothing())
    made.feed(b"x")
    assert "unexpected bytes" in str(made.console.failure)


def test_what_dynamo_refuses_ends_with_exit() -> None:
    made = Replay(script.session([Trial(scripts.HALF, ((scripts.target("disk1", 1),),))]))
    for raw in (
        Message(wire.ADD_WORKERS, 1),
        Message(wire.SET_ACCESS, 1),
        Message(wire.SET_TARGETS, 0),
    ):
        made.feed(raw.encode())
    made.feed(wire.pad_message(b""))
    assert made.console.failure.kind == "refused"
    assert "aio-max-nr" in str(made.console.failure)
    assert messages_until(made)[-1] == "EXIT"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_target_that_cannot_be_opened(workers: int) -> None:
    """With several workers some of them may have begun, so the stream is closed rather than EXIT sent."""
    test = Trial(scripts.HALF, tuple((scripts.target("disk1", 1, n),) for n in range(workers)))
    made = Replay(script.session([test]))
    made.feed(Message(wire.ADD_WORKERS, workers).encode())
    for _ in range(workers):
        made.feed(Message(wire.SET_ACCESS, 1).encode())
    for _ in range(workers):
        made.feed(Message(wire.SET_TARGETS, 1).encode() + wire.pad_message(b""))
    made.feed(Message(wire.START, 1).encode())
    made.feed(Message(wire.BEGIN_IO, 0).encode())
    assert made.console.failure.kind == "refused"
    assert (messages_until(made)[-1] == "EXIT") == (workers == 1)


def test_a_file_that_was_not_laid_out_never_reaches_start() -> None:
    """START on a missing file kills dynamo."""
    vectors = on("twotargets", "control")
    console = Console(whole_session())
    console.start_script(0.0)
    for vector in vectors[:16]:
        if vector.direction == "d2c":
            console.feed(vector.whole, vector.t)
    turn = console.resume(4.0, "iobw.tst has 4096 of 2097152 bytes")
    assert wire.decode_message(turn.send).purpose_name == "EXIT"
    assert isinstance(console.failure, DynamoError)
    assert "4096 of 2097152" in str(console.failure)


@pytest.mark.parametrize(
    ("version", "size"), [(20100207, 888840), (0x01000100, 917520), (0x02000000, 888840)]
)
def test_other_versions_are_refused_with_both_numbers(version: int, size: int) -> None:
    info = on("full", "login")[1].whole
    made = Replay(script.login())
    made.feed(Message(wire.LOGIN, version).encode() + size.to_bytes(4, "little") + info[4:])
    assert made.sent == [Message(wire.LOGIN, wire.WRONG_VERSION).encode()]
    assert f"0x{version:08x}" in str(made.console.failure)
    assert str(size) in str(made.console.failure)


def test_workers_stay_for_the_next_test_and_idle_ones_get_no_targets() -> None:
    one = Trial(
        scripts.HALF,
        ((scripts.target("a", 1, 1),), (scripts.target("b", 1, 2),)),
        duration=1,
        poll=0,
    )
    less = Trial(scripts.HALF, ((scripts.target("a", 2, 3),),), duration=1, poll=0)
    steps = drive(script.session([one, less]))
    assert steps.count("ADD_WORKERS") == 1
    assert steps.count("SET_TARGETS") == 4
    assert steps.count("EXIT") == 1


def drive(run: Script) -> list[str]:
    """The names of all requests of a script whose dynamo says yes to everything."""
    made, seen, names = Replay(run), 0, []
    targets: dict[int, int] = {}
    while True:
        while seen < len(made.sent):
            raw, seen = made.sent[seen], seen + 1
            if len(raw) > 8:
                continue
            request = wire.decode_message(raw)
            names.append(request.purpose_name)
            if request.purpose == wire.SET_TARGETS:
                targets[request.data] = int.from_bytes(made.sent[seen][4:8], "little")
            made.feed(yes(request, sum(map(bool, targets.values()))))
        if made.console.over:
            return names
        made.until(made.console.deadline)


def yes(request: Message, active: int) -> bytes:
    if request.purpose in (wire.RECORD_ON, wire.EXIT):
        return b""
    if request.purpose == wire.REPORT_RESULTS:
        return wire.pad_message(b"") * (1 + active)
    data = request.data if request.purpose == wire.ADD_WORKERS else 1
    more = wire.pad_message(b"") if request.purpose == wire.SET_TARGETS else b""
    return Message(request.purpose, data).encode() + more


@pytest.mark.parametrize(("purpose", "lines"), [(wire.REPORT_UPDATE, 1), (wire.REPORT_RESULTS, 0)])
def test_updates_alone_are_told_while_it_runs(tmp_path: Path, purpose: int, lines: int) -> None:
    shown = link.Live(tmp_path / "live.jsonl", 100.0)
    empty: Any = SimpleNamespace(parts=(), sent_at=100.0, times=(100.0, 100.0))
    shown.handle_event(script.ResultsReported(purpose, (), empty), 101.5)
    written = (tmp_path / "live.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in written] == [{"t": 1.5, "phase": ""}] * lines
