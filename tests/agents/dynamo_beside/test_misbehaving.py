"""A dynamo that answers wrongly, late or not at all, strangers, and being stopped."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest

from agents.dynamo import account, summary, transcript
from agents.dynamo.wire import DynamoError, Message
from tests.agents.dynamo_beside.beside import (
    MIB,
    SIM,
    asked,
    config,
    console,
    leftovers,
    result,
    started,
)

FAILURES = {
    "version=0x1332df7": "only 1.1.0 is supported",
    "size=917520": "917520 bytes",
    "no_name": "dynamo ended before it logged in; dynamo printed: Getting host name",
    "no_workers": "dynamo made 0 of 1 workers",
    "no_memory": "no memory for its buffer",
    "refuses_targets": "a directory is missing or not writable",
    "cannot_open": "could not open one",
    "crashes_at=START": "closed the connection",
    "crashes_at=REPORT_UPDATE": "killed by signal 11",
    "crashes_at=REPORT_RESULTS": "while asking for results",
    "vanishes_at_stop": "while waiting for the outstanding I/Os to end",
    "answers_wrongly=SET_ACCESS": "out of sync",
    "answers_wrongly=RECORD_OFF": "out of sync",
    "says_more_after=START": "out of sync",
    "says_more_after=RECORD_OFF": "out of sync",
    "backwards": "cannot be trusted",
    "cut=ADD_WORKERS:3": "3 of 8 bytes had arrived",
    "cut=SET_TARGETS:100000": "99992 of 888840 bytes had arrived",
    "cut=REPORT_RESULTS:888841": "1 of 888840 bytes had arrived",
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("sim", FAILURES)
def test_misbehaving(work: Path, sim: str) -> None:
    config(work)
    ran = console(work, sim)
    assert ran.returncode == 1
    assert FAILURES[sim] in ran.stderr.replace("A directory", "a directory")
    assert ran.stderr.count("\n") == 1 and "Traceback" not in ran.stderr
    assert set(result(work)) == {"error", "kind"}
    with pytest.raises(DynamoError):
        for test in account.reconstruct_tests(
            transcript.parse_transcript((work / "messages.bin").read_bytes())
        ):
            summary.summary_rows(test)
    if (work / "sim.log").exists() and "EXIT" in asked(work) and "BEGIN_IO" in asked(work):
        assert sim == "cannot_open" or "STOP" in asked(work)
    assert not leftovers(work)


@pytest.mark.parametrize(
    ("phase", "size"), [("record", MIB), ("ramp", MIB), ("prepare", 2048 * MIB)]
)
def test_term_stops_in_good_order(work: Path, phase: str, size: int) -> None:
    config(work, duration=30.0, ramp=30.0 if phase == "ramp" else 0.0, size=size)
    process = started(work, "", phase)
    time.sleep(0.2)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 1
    assert said == b"console: stopped on request\n"
    assert time.monotonic() - began < 5
    if phase == "prepare":
        assert not (work / "sim.log").exists()
        assert list((work.parent / "mnt").iterdir()) == []
    else:
        names = asked(work)
        assert names[-2:] == ["STOP", "EXIT"]
        assert ("RECORD_OFF" in names) == (phase == "record")
    assert not leftovers(work)


def test_a_dynamo_that_hangs_is_ended_when_stopped(work: Path) -> None:
    config(work, duration=30.0, ramp=0.0)
    process = started(work, "silent=STOP", "record")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=20)
    assert b"did not become idle" in said
    assert not leftovers(work)


def test_dynamo_dies_with_a_killed_console(work: Path) -> None:
    config(work, duration=30.0, ramp=0.0)
    process = started(work, "", "record")
    process.kill()
    process.communicate()
    for _ in range(40):
        if not leftovers(work):
            break
        time.sleep(0.05)
    assert not leftovers(work)
    with pytest.raises(DynamoError, match="truncated"):
        transcript.parse_transcript((work / "messages.bin").read_bytes())


def test_a_stranger_at_the_login_port_is_sent_away(work: Path) -> None:
    config(work)
    text = (
        (work / "dynamo")
        .read_text()
        .replace("exec ", f'SIM=name=stranger {sys.executable} {SIM} "$@"\nexec ')
    )
    (work / "dynamo").write_text(text)
    ran = console(work)
    assert ran.returncode == 0, ran.stderr
    assert "Incorrect version" in (work / "dynamo.log").read_text()


def test_a_foreign_connection_that_says_nothing_does_not_block(work: Path) -> None:
    config(work)
    text = (work / "dynamo").read_text()
    knock = (
        "import socket, sys\n"
        's = socket.create_connection(("127.0.0.1", int(sys.argv[1])))\n'
        's.sendall(b"GET / HTTP/1.0")'
    )
    (work / "dynamo").write_text(text.replace("exec ", f"{sys.executable} -c '{knock}' $6\nexec "))
    ran = console(work)
    assert ran.returncode == 0, ran.stderr


def test_an_unknown_purpose_is_one_that_dynamo_ends_on() -> None:
    assert Message(0x01000001, 0).purpose_name == "purpose 0x01000001"
