"""The program on the host against a simulated dynamo over real sockets: whole tests, and every way it can go wrong."""

from __future__ import annotations

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.dynamo import account, bundle, summary, transcript
from agents.dynamo.wire import DynamoError, Message
from tests.agents import dynamo_sim

SIM = Path(dynamo_sim.__file__)
MIB = 1 << 20


@pytest.fixture
def work() -> Iterator[Path]:
    """A spool with the program and the simulated dynamo in it; ../mnt is for the files (dynamo needs short paths)."""
    with tempfile.TemporaryDirectory(prefix="bl") as base:
        (Path(base) / "mnt").mkdir()
        spool = Path(base) / "spool"
        spool.mkdir()
        (spool / bundle.NAME).write_bytes(bundle.build())
        binary = spool / "dynamo"
        binary.write_text(f'#!/bin/sh\nexec {sys.executable} {SIM} "$@"\n')
        binary.chmod(0o755)
        yield spool


def config(work: Path, **changes: Any) -> None:
    plain = {
        "binary": str(work / "dynamo"), "access": ["8192,100,50,50"], "mount": str(work.parent / "mnt"),
        "size": MIB, "duration": 0.3, "poll": 0.1,
    }  # fmt: skip
    (work / "config.json").write_text(json.dumps({**plain, **changes}))


def console(work: Path, sim: str = "", verb: str = "run", python: str = sys.executable,
            **env: str) -> subprocess.CompletedProcess[str]:  # fmt: skip
    return subprocess.run(
        [python, bundle.NAME, verb, "config.json"], cwd=work, timeout=60, capture_output=True,
        text=True, env={**os.environ, "SIM": sim, **env}, check=False,
    )  # fmt: skip


def result(work: Path) -> dict[str, Any]:
    return json.loads((work / "result.json").read_text())


def figures(work: Path) -> dict[str, float]:
    return {row[0]: row[1] for row in result(work)["metrics"] if not row[3]}


def asked(work: Path) -> list[str]:
    return [line.split()[0] for line in (work / "sim.log").read_text().splitlines()]


def test_a_whole_test(work: Path) -> None:
    config(work, duration=1.0, poll=0.25, ramp=0.1)
    ran = console(work)
    assert (ran.returncode, ran.stderr) == (0, "")
    found = figures(work)
    assert found["iops"] == pytest.approx(1000, rel=0.03)
    assert found["read.iops"] + found["write.iops"] == found["iops"]
    assert found["bandwidth"] == pytest.approx(8192e3, rel=0.03)
    assert found["lat.mean"] == pytest.approx(0.004, rel=0.03)
    assert found["runtime"] == pytest.approx(1.0, abs=0.05)
    assert (found["lat.p99.low"], found["lat.p99.high"]) == pytest.approx((0.002, 0.004), rel=0.03)
    assert found["tick_rate.reported"] == 1e9
    assert found["tick_rate.measured"] == pytest.approx(1e9, rel=0.03)
    assert found["cpu.busy"] == 0.25
    names = asked(work)
    assert names.index("STOP") < names.index("EXIT")
    assert "REPORT_TARGETS" not in names  # it would touch every disk of the host
    assert names.count("REPORT_UPDATE") == 4
    assert (work.parent / "mnt" / "iometer1" / "iobw.tst").stat().st_size == MIB


def test_live_lines_come_each_poll(work: Path) -> None:
    config(work, duration=1.0, poll=0.25)
    assert console(work).returncode == 0
    lines = [json.loads(line) for line in (work / "live.jsonl").read_text().splitlines()]
    rates = [line["iops"] for line in lines if "iops" in line]
    assert len(rates) == 4
    assert rates == pytest.approx([1000] * 4, rel=0.1)
    phases = [line["phase"] for line in lines]
    assert [p for n, p in enumerate(phases) if p not in phases[:n]] == [
        "set up", "prepare", "start", "ramp", "record", "stop", "results", "exit",
    ]  # fmt: skip


def test_ready_files_are_used_again_and_short_ones_made_anew(work: Path) -> None:
    config(work)
    assert console(work).returncode == 0
    file = work.parent / "mnt" / "iometer1" / "iobw.tst"
    before = file.stat().st_mtime_ns
    assert console(work).returncode == 0
    assert "PREP_DISKS" not in asked(work)
    assert file.stat().st_mtime_ns == before
    config(work, size=2 * MIB)
    assert console(work).returncode == 0
    assert file.stat().st_size == 2 * MIB  # appended to, it would have 3


def test_files_are_removed_where_they_are_not_to_be_kept(work: Path) -> None:
    config(work, keep=False)
    assert console(work).returncode == 0
    assert list((work.parent / "mnt").iterdir()) == []


def test_several_workers_and_targets(work: Path) -> None:
    config(work, workers=2, targets=2, outstanding=3)
    assert console(work).returncode == 0
    rows = result(work)["metrics"]
    assert [r[1] for r in rows if r[0] == "iops"] == pytest.approx(
        [4000, 2000, 1000, 1000, 2000, 1000, 1000], rel=0.02
    )
    labels = [r[3] for r in rows if r[0] == "iops"]
    assert labels[1:3] == [{"worker": "1"}, {"worker": "1", "target": "1"}]
    (test,) = account.tests(transcript.read((work / "messages.bin").read_bytes()))
    seeds = [target.random for worker in test.workers for target in worker.targets]
    assert len(set(seeds)) == 4
    assert asked(work).count("SET_TARGETS") == 4


def test_workers_with_files_of_their_own(work: Path) -> None:
    config(work, workers=2, own=True)
    assert console(work).returncode == 0
    assert sorted(path.name for path in (work.parent / "mnt").iterdir()) == ["iometer1", "iometer2"]


@pytest.mark.parametrize("true", ["2.16", "0.5"])
def test_a_wrong_tick_rate_is_measured_and_both_are_kept(work: Path, true: str) -> None:
    config(work, duration=2.0)
    assert console(work, f"true={true}").returncode == 0
    found = figures(work)
    assert found["tick_rate.reported"] == 1e9
    assert found["tick_rate.measured"] == pytest.approx(float(true) * 1e9, rel=0.01)
    assert found["iops"] == pytest.approx(1000, rel=0.02)
    assert found["lat.mean"] == pytest.approx(0.004, rel=0.02)
    assert found["runtime"] == pytest.approx(2.0, rel=0.02)
    # 4 ms fell into a bin whose bounds were reckoned with the wrong rate: they are scaled
    assert found["lat.p99.low"] <= 0.0041 and found["lat.p99.high"] >= 0.0039
    said = next(row[4] for row in result(work)["metrics"] if row[0] == "iops")
    assert "the measured one is used" in said


FAILURES = {
    "version=0x1332df7": "only 1.1.0 can be driven",
    "size=917520": "917520 bytes",
    "no_name": "dynamo ended before it logged in; dynamo said: Dynamo version",
    "no_workers": "dynamo made 0 of 1 workers",
    "no_memory": "no memory for its buffer",
    "refuses_targets": "a directory is missing or not writable",
    "cannot_prepare": "dynamo could not begin",
    "prepares_little": "iobw.tst has 4096 of 1048576 bytes",
    "cannot_open": "could not open one",
    "crashes_at=START": "closed the connection",
    "crashes_at=REPORT_UPDATE": "killed by signal 11",
    "crashes_at=REPORT_RESULTS": "while asking for results",
    "vanishes_at_stop": "while waiting for the outstanding I/Os to end",
    "answers_wrongly=SET_ACCESS": "out of step",
    "answers_wrongly=RECORD_OFF": "out of step",
    "says_more_after=START": "out of step",
    "says_more_after=RECORD_OFF": "out of step",
    "backwards": "cannot be trusted",
    "cut=ADD_WORKERS:3": "3 of 8 bytes had come",
    "cut=SET_TARGETS:100000": "99992 of 888840 bytes had come",
    "cut=REPORT_RESULTS:888841": "1 of 888840 bytes had come",
}


@pytest.mark.parametrize("sim", FAILURES)
def test_misbehaving(work: Path, sim: str) -> None:
    config(work)
    ran = console(work, sim)
    assert ran.returncode == 1
    assert FAILURES[sim] in ran.stderr.replace("A directory", "a directory")
    assert ran.stderr.count("\n") == 1 and "Traceback" not in ran.stderr
    assert set(result(work)) == {"error", "kind"}
    with pytest.raises(DynamoError):
        for test in account.tests(transcript.read((work / "messages.bin").read_bytes())):
            summary.rows(test)
    if (work / "sim.log").exists() and "EXIT" in asked(work) and "BEGIN_IO" in asked(work):
        assert sim == "cannot_open" or "STOP" in asked(work)
    assert not leftovers(work)


def leftovers(work: Path) -> list[str]:
    """Processes that still work in the spool."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").readlink() == work:
                found.append((entry / "cmdline").read_text())
        except OSError:
            continue
    return found


def test_a_file_half_made_is_removed(work: Path) -> None:
    config(work)
    console(work, "prepares_little")
    assert list((work.parent / "mnt").iterdir()) == []


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
    assert "no disk's" in result(work)["metrics"][0][4]


def test_a_dynamo_without_address_is_connected_to_all_the_same(work: Path) -> None:
    config(work)
    assert console(work, "no_address").returncode == 0


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
        ({"access": ["8192,100,50,50,10"]}, "a delay makes dynamo on Linux wait for ever"),
        ({"access": ["2097152"]}, "larger than the target"),
        ({"outstanding": 0}, "at least one outstanding"),
        ({"outstanding": 10_000_000}, "fs.aio-max-nr"),
        ({"workers": 129}, "1 to 128 workers"),
        ({"mount": "", "volume": "/dev/null"}, "no block device"),
        ({"surprise": 1}, "do not fit this program"),
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


@pytest.fixture
def loop(work: Path) -> Iterator[str]:
    """A block device of 64 MiB that is nobody's."""
    image = work.parent / "disk"
    with image.open("wb") as file:
        file.truncate(64 * MIB)
    made = subprocess.run(
        ["losetup", "-f", "--show", str(image)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no loop device here: {made.stderr.strip()}")
    yield made.stdout.strip()
    subprocess.run(["losetup", "-d", made.stdout.strip()], check=True)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("losetup"), reason="needs root")
def test_a_raw_volume_is_used_as_it_is(work: Path, loop: str) -> None:
    config(work, mount="", volume=loop, size=0, workers=2, own=True)
    ran = console(work)
    assert ran.returncode == 0, ran.stderr
    (test,) = account.tests(transcript.read((work / "messages.bin").read_bytes()))
    targets = [target for worker in test.workers for target in worker.targets]
    assert [target.name for target in targets] == [loop, loop]  # without a suffix
    assert [target.type for target in targets] == [0xCC000000] * 2
    assert [t.details.maximum_size * t.details.sector_size for t in targets] == [32 * MIB] * 2  # type: ignore[union-attr]
    assert [t.details.starting_sector for t in targets] == [0, 65536]  # type: ignore[union-attr]
    assert "PREP_DISKS" not in asked(work)
    assert "kernel.read.bytes" in figures(work)


def test_check_tells_what_would_run(work: Path) -> None:
    config(work)
    said = json.loads(console(work, verb="check").stdout)
    assert said["binary"] == str(work / "dynamo")
    assert len(said["sha256"]) == 64
    assert list((work.parent / "mnt").iterdir()) == []


def started(work: Path, sim: str, until: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, bundle.NAME, "run", "config.json"], cwd=work, env={**os.environ, "SIM": sim},
        stderr=subprocess.PIPE,
    )  # fmt: skip
    for _ in range(300):
        if (work / "live.jsonl").exists() and f'"{until}"' in (work / "live.jsonl").read_text():
            return process
        time.sleep(0.05)
    raise AssertionError(f"no phase {until}")


@pytest.mark.parametrize(
    ("phase", "sim"), [("record", ""), ("ramp", ""), ("prepare", "prepares_for_ever")]
)
def test_term_stops_in_good_order(work: Path, phase: str, sim: str) -> None:
    config(work, duration=30.0, ramp=30.0 if phase == "ramp" else 0.0)
    process = started(work, sim, phase)
    time.sleep(0.2)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 1
    assert said == b"console: stopped on request\n"
    assert time.monotonic() - began < 5
    names = asked(work)
    if phase == "prepare":
        assert names[-2:] == ["STOP_PREPARE", "EXIT"]
        assert list((work.parent / "mnt").iterdir()) == []
    else:
        assert names[-2:] == ["STOP", "EXIT"]
        assert ("RECORD_OFF" in names) == (phase == "record")
    assert not leftovers(work)


def test_a_dynamo_that_hangs_is_ended_when_stopped(work: Path) -> None:
    config(work, duration=30.0, ramp=0.0)
    process = started(work, "silent=STOP", "record")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=20)
    assert b"did not come to rest" in said
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
    with pytest.raises(DynamoError, match="cut off"):
        transcript.read((work / "messages.bin").read_bytes())


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


def test_the_bundle_is_python_3_6_and_stands_alone() -> None:
    for name, text in bundle.sources().items():
        tree = ast.parse(text, name, feature_version=(3, 6))
        for node in ast.walk(tree):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.module != "__future__", name
                names = [node.module or ""]
            for module in names:
                own = module.startswith("agents.dynamo")
                assert own or module.split(".")[0] in sys.stdlib_module_names, (name, module)
    assert bundle.build() == bundle.build()


def old_python(minor: int) -> tuple[str, dict[str, str]] | None:
    """An interpreter of that age, if there is one."""
    name = f"python3.{minor}"
    if not shutil.which(name):
        return None
    installed = [""]
    if pyenv := shutil.which("pyenv"):
        said = subprocess.run(
            [pyenv, "versions", "--bare"], capture_output=True, text=True, check=False
        )
        installed += [v for v in said.stdout.split() if v.startswith(f"3.{minor}.")]
    for version in installed:
        env = {"PYENV_VERSION": version} if version else {}
        ran = subprocess.run(
            [name, "--version"], env={**os.environ, **env}, capture_output=True, check=False
        )
        if ran.returncode == 0:
            return name, env
    return None


@pytest.mark.parametrize("minor", [6, 8])
def test_an_old_python_runs_it(work: Path, minor: int) -> None:
    if (found := old_python(minor)) is None:
        pytest.skip(f"no Python 3.{minor} here")
    config(work)
    python, env = found
    ran = console(work, python=python, **env)
    assert ran.returncode == 0, ran.stderr
    assert figures(work)["iops"] == pytest.approx(1000, rel=0.02)


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
    assert Message(0x01000001, 0).name == "purpose 0x01000001"
