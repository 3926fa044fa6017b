"""Mistakes and omissions of the real dynamo, and settings that it must never get."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from agents.dynamo import account, specs, transcript, wire
from agents.dynamo.messages import AccessSpec
from agents.dynamo.wire import Message
from tests.agents import dynamo_sim, dynamo_sim_rules
from tests.agents.dynamo_beside.beside import (
    config,
    console,
    figures,
    result,
)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("true", ["2.16", "0.5"])
def test_a_wrong_tick_rate_is_measured_and_both_are_kept(work: Path, true: str) -> None:
    config(work, duration=2.0)
    assert console(work, f"true={true}").returncode == 0
    found = figures(work)
    (test,) = account.reconstruct_tests(
        transcript.parse_transcript((work / "messages.bin").read_bytes())
    )
    near = test.rate.doubt + 2e-3  # what the time that two answers took leaves open
    assert near < 0.3
    assert found["tick_rate.reported"] == 1e9
    assert found["tick_rate.measured"] == pytest.approx(float(true) * 1e9, rel=near)
    assert found["iops"] == pytest.approx(1000, rel=2 * near)
    assert found["lat.mean"] == pytest.approx(0.004, rel=2 * near)
    assert 1 < found["runtime"] < 4
    # 4 ms fell into a bin whose bounds were reckoned with the wrong rate: they are scaled
    assert found["lat.p99.low"] <= 0.004 * (1 + 2 * near)
    assert found["lat.p99.high"] >= 0.004 * (1 - 2 * near)
    said = next(row[4] for row in result(work)["metrics"] if row[0] == "iops")
    assert "the measured rate is used" in said


def test_the_first_release_candidate_is_told_and_warned_of(work: Path) -> None:
    config(work, targets=2)
    assert console(work, "rc1").returncode == 0
    rows = result(work)["metrics"]
    assert "1.1.0-rc1" in rows[0][4] and "page cache" in rows[0][4]
    assert not [row for row in rows if row[0] == "lat.bin"]


def test_more_than_64_cpus_leave_no_cpu_figures(work: Path) -> None:
    config(work)
    assert console(work, "many_cpus").returncode == 0
    rows = {row[0]: row for row in result(work)["metrics"] if not row[3]}
    assert rows["cpu.busy"][1] is None and "64 CPUs" in rows["cpu.busy"][4]
    assert rows["iops"][1] == pytest.approx(1000, rel=0.02)


def test_a_mean_no_disk_reaches_is_told(work: Path) -> None:
    config(work)
    assert console(work, "too_fast").returncode == 0
    assert "too low for a disk" in result(work)["metrics"][0][4]


def test_a_dynamo_without_address_is_connected_to_all_the_same(work: Path) -> None:
    config(work)
    assert console(work, "no_address").returncode == 0


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"binary": "no-such-dynamo"}, "put the Linux build of IOmeter"),
        ({"mount": "nowhere"}, "nowhere"),
        ({"pattern": 2}, "data pattern 2 is broken"),
        ({"size": 0}, "without one dynamo fills the disk"),
        ({"size": 1 << 60}, "bytes are free"),
        ({"access": ["8192,99,50,50"]}, "99 %, not 100 %"),
        ({"access": ["1000,100,50,50"]}, "not a multiple of 512"),
        ({"access": ["8192,100,50,50,10"]}, "a delay makes dynamo on Linux hang"),
        ({"access": ["2097152"]}, "larger than the target"),
        ({"outstanding": 0}, "at least one outstanding"),
        ({"outstanding": 10_000_000}, "fs.aio-max-nr"),
        ({"workers": 129}, "1 to 128 workers"),
        ({"mount": "", "volume": "/dev/null"}, "not a block device"),
        ({"surprise": 1}, "are not valid for this program"),
    ],
)
def test_what_cannot_be_is_said_before_anything_starts(
    work: Path, changes: dict[str, Any], said: str
) -> None:
    config(work, **changes)
    for verb in ("check", "run"):
        ran = console(work, verb=verb)
        assert ran.returncode == 1
        assert said in ran.stderr, ran.stderr
        assert not (work / "sim.log").exists()


def test_slots_of_asynchronous_io_that_ran_out_are_named(work: Path) -> None:
    config(work, outstanding=4)
    ran = console(work, "aio=3")
    assert ran.returncode == 1
    assert "AIO slots are taken" in ran.stderr and "fs.aio-max-nr" in ran.stderr
    assert console(work, "aio=4").returncode == 0


def test_a_path_may_have_other_letters_and_70_bytes(work: Path) -> None:
    base = work.parent / "mnt"
    room = 70 - len(f"{base}//iometer1".encode())
    for letters, fits in (("ä" + "x" * (room - 2), True), ("ä" + "x" * (room - 1), False)):
        (base / letters).mkdir()
        config(work, mount=str(base / letters))
        ran = console(work)
        assert (ran.returncode == 0) is fits, ran.stderr
        assert (base / letters / "iometer1" / "iobw.tst").exists() is fits
    assert "71 bytes; dynamo cuts paths above 70" in ran.stderr


def test_what_it_printed_is_told_though_it_comes_at_its_end(work: Path) -> None:
    config(work)
    said = console(work, "version=0x1332df7").stderr
    assert "dynamo printed: *** Incorrect version" in said
    assert console(work).returncode == 0
    read = transcript.parse_transcript((work / "messages.bin").read_bytes())
    notes = {key: value for _, note in read.notes for key, value in note.items()}
    assert str(notes["version"]).startswith("Dynamo version 1.1.0")


def test_a_program_without_its_loader_is_told(work: Path) -> None:
    (work / "dynamo").write_text("#!/no/such/ld-linux.so.2\n")
    config(work)
    assert "use the x86-64 build" in console(work).stderr


@pytest.mark.parametrize(
    ("said", "state"),
    [
        (Message(wire.REPORT_UPDATE, wire.MANAGER), "running"),  # in the ramp
        (Message(wire.RECORD_ON, wire.ALL_WORKERS), "started"),
        (Message(wire.SET_TARGETS, 1), "idle"),
        (Message(wire.START, wire.MANAGER), "idle"),
        (Message(wire.STOP, wire.ALL_WORKERS), "idle"),
        (Message(wire.REPORT_RESULTS, wire.ALL_WORKERS), "done"),
    ],
)
def test_the_simulation_forgives_no_request(said: Message, state: str) -> None:
    assert dynamo_sim_rules.wrong(said, state, 1)


@pytest.mark.parametrize("workers", [0, 2])
def test_the_simulation_takes_an_access_of_all_workers(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also before there are any, as the real one was seen to."""
    monkeypatch.chdir(tmp_path)
    request = Message(wire.SET_ACCESS, wire.ALL_WORKERS)
    assert dynamo_sim_rules.wrong(request, "idle", workers) == ""
    assert dynamo_sim_rules.wrong(Message(wire.START, wire.ALL_WORKERS), "idle", 0)
    spec = AccessSpec("x", (specs.parse_access_line("4096"),))
    sim = dynamo_sim.Sim({}, {})
    sim.access = [None] * workers
    ours, sim.stream = socket.socketpair()
    with ours, sim.stream, sim.listener, sim.log:
        monkeypatch.setattr(sim, "data", spec.encode)
        sim.do_set_access(request)
        assert wire.decode_message(ours.recv(8)) == Message(wire.SET_ACCESS, 1)
    assert sim.access == [spec] * workers
