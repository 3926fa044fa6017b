"""The console played through SSH tunnels, by a real sshd, to a simulated dynamo without Python beside it."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.contracts import AgentError, Target
from agents.dynamo import account, remote_probe, summary, transcript, tunnel
from agents.dynamo.remote_probe import RemoteHost
from agents.dynamo.wire import DynamoError
from agents.jobs import job
from agents.jobs.spool import Spool
from agents.ssh import shell
from agents.tools import dynamo as tool
from tests.agents import dynamo_sim
from tests.agents.sshd import sshd
from tests.programs import roots_directory

SIM = Path(dynamo_sim.__file__)


@pytest.fixture
def folder() -> Iterator[Path]:
    with roots_directory() as made:
        (made / "mnt").mkdir()
        yield made


@pytest.fixture
def host(folder: Path) -> Iterator[shell.SshShell]:
    (folder / "sshd").mkdir()
    with sshd(folder / "sshd") as address:
        yield shell.connect_shell(address)


def wished(folder: Path, sim: str = "", **options: Any) -> tuple[Any, bytes]:
    """The job for the console beside dynamo, and its settings."""
    program = folder / "dynamo"
    program.write_text(f'#!/bin/sh\nSIM="{sim}" exec {sys.executable} {SIM} "$@"\n')
    program.chmod(0o755)
    chosen = tool.Options(
        binary=str(program), **{"size": 1 << 20, "runtime_s": 1, "ramp_s": 0, **options}
    )
    work = tool.build_job(chosen, Target("bl1", mount=str(folder / "mnt")))
    work = replace(work, root=os.geteuid() == 0, drop_caches=False)
    return work, work.inputs[tool.CONFIG]


def played(
    host: shell.SshShell, folder: Path, work: Any, config: bytes, halt_in: str = ""
) -> tuple[bytes, list[Any]]:
    spool = Spool("attempt-1", work.root, str(folder))
    told: list[Any] = []
    door = shell.Tunnel(host.address)
    halt = tunnel.Halt()
    try:
        session = tunnel.Session(host, door, work, config)
        job.start_job(host, spool, session.remote_job)

        def tell(line: Any) -> None:
            told.append(line)
            if halt_in and line["phase"] == halt_in:
                halt.request_stop()

        ended = lambda: job.poll(host, spool).state.is_over  # noqa: E731
        return session.play(halt, ended, tell), told
    finally:
        door.close_tunnel()
        job.stop_job(host, spool)
        job.remove_spool(host, spool)
        halt.close()


@pytest.mark.slow
@pytest.mark.one_in(1)
def test_a_whole_test_through_tunnels(host: shell.SshShell, folder: Path) -> None:
    work, config = wished(folder, runtime_s=3)
    raw, told = played(host, folder, work, config)
    (test,) = account.reconstruct_tests(transcript.parse_transcript(raw))
    rows = {row.name: row.value for row in summary.summary_rows(test) if not row.labels}
    assert rows["iops"] == pytest.approx(1000, rel=0.05)
    assert rows["lat.mean"] == pytest.approx(0.004, rel=0.05)
    assert test.notes["far"] is True and len(str(test.notes["sha256"])) == 64
    assert [line["phase"] for line in told if not {"iops", "done"} & set(line)] == [
        "prepare", "set up", "start", "ramp", "record", "stop", "results", "exit",
    ]  # fmt: skip
    rates = [line["iops"] for line in told if "iops" in line]
    assert len(rates) <= 3 and rates == pytest.approx([1000] * len(rates), rel=0.2)
    assert (folder / "mnt" / "iometer1" / "iobw.tst").stat().st_size == 1 << 20
    assert tool.parse({"messages.bin": raw}, tool.Options())


def test_the_kernels_count_is_of_a_known_time(host: shell.SshShell) -> None:
    stat = Path("/proc/diskstats").read_text().split()
    device, seat = ":".join(stat[:2]), RemoteHost(host, os.geteuid() == 0)
    (first, before), (second, after) = (
        remote_probe.read_disk_counts(seat, device),
        remote_probe.read_disk_counts(seat, device),
    )
    assert first is not None and second is not None and 0 <= second - first < 30
    assert set(before) == set(after) == {device}


@pytest.mark.slow
def test_live_figures_are_right_though_its_clock_is_not(host: shell.SshShell, folder: Path) -> None:
    rates: list[float] = []
    for runtime_s in (9, 27):  # a busy machine is asked more seldom: perhaps once in nine seconds
        if len(rates) < 2:
            work, config = wished(folder, "true=2.16", runtime_s=runtime_s)
            _, told = played(host, folder, work, config)
            rates = [line["iops"] for line in told if "iops" in line]
    assert rates[0] == pytest.approx(1000 / 2.16, rel=0.2)  # nothing is known yet
    assert rates[1:] == pytest.approx([1000] * len(rates[1:]), rel=0.2) and rates[1:]


@pytest.mark.parametrize("pattern", [0, 1])
def test_files_are_laid_out_in_pieces(
    host: shell.SshShell, folder: Path, monkeypatch: pytest.MonkeyPatch, pattern: int
) -> None:
    monkeypatch.setattr(remote_probe, "FIRST_PIECE", 1 << 20)
    _, config = wished(folder, size=(5 << 20) + 4096, targets=2, data_pattern=pattern)
    wanted = tunnel.areas.parse_settings(json.loads(config))
    seat = RemoteHost(host, os.geteuid() == 0)
    (folder / "mnt" / "iometer1").mkdir()
    (folder / "mnt" / "iometer1" / "iobw.tst").write_bytes(b"short")
    seen: list[tuple[int, int]] = []
    remote_probe.lay_out(
        seat, remote_probe.probe_host(seat, wanted), pattern, lambda *at: seen.append(at)
    )
    assert remote_probe.layout_error(seat, wanted) == ""
    for number in (1, 2):
        file = folder / "mnt" / f"iometer{number}" / "iobw.tst"
        assert file.stat().st_size == (5 << 20) + 4096
        assert file.stat().st_blocks * 512 >= file.stat().st_size  # no holes
        first = file.read_bytes()[:4096]
        assert (len(set(first)) == 1) is (pattern == 0)
    assert len(seen) > 4 and seen[-1] == (2 * ((5 << 20) + 4096),) * 2


@pytest.mark.slow
def test_a_layout_far_away_can_be_stopped(host: shell.SshShell, folder: Path) -> None:
    work, config = wished(folder, size=256 << 20)
    raw, told = played(host, folder, work, config, halt_in="prepare")
    assert transcript.parse_transcript(raw).end["outcome"] == "cancelled"
    assert {line["phase"] for line in told} == {"prepare"}
    assert list((folder / "mnt").iterdir()) == []


@pytest.mark.slow
def test_ready_files_are_used_again(host: shell.SshShell, folder: Path) -> None:
    work, config = wished(folder)
    for _ in range(2):
        raw, told = played(host, folder, work, config)
    assert "prepare" not in [line["phase"] for line in told]
    assert account.reconstruct_tests(transcript.parse_transcript(raw))


@pytest.mark.slow
@pytest.mark.one_in(1)
@pytest.mark.parametrize(
    ("sim", "said"),
    [
        ("crashes_at=REPORT_UPDATE", "closed the connection"),
        ("version=0x1332df7", "only 1.1.0 is supported"),
        ("no_name", "ended before it logged in"),
    ],
)
def test_misbehaving(host: shell.SshShell, folder: Path, sim: str, said: str) -> None:
    work, config = wished(folder, sim)
    raw, _ = played(host, folder, work, config)
    with pytest.raises(DynamoError, match=said):
        account.reconstruct_tests(transcript.parse_transcript(raw))


def test_it_can_be_stopped(host: shell.SshShell, folder: Path) -> None:
    work, config = wished(folder, runtime_s=30)
    raw, _ = played(host, folder, work, config, halt_in="record")
    assert transcript.parse_transcript(raw).end["outcome"] == "cancelled"


def test_a_lost_connection_ends_the_test(host: shell.SshShell, folder: Path) -> None:
    work, config = wished(folder, runtime_s=30)
    spool = Spool("attempt-2", work.root, str(folder))
    door = shell.Tunnel(host.address)
    session = tunnel.Session(host, door, work, config)
    job.start_job(host, spool, session.remote_job)
    halt = tunnel.Halt()

    def tell(line: Any) -> None:
        if line["phase"] == "record" and "iops" not in line:
            threading.Thread(target=door.close_tunnel).start()

    raw = session.play(halt, lambda: False, tell)
    halt.close()
    assert transcript.parse_transcript(raw).end["outcome"] in ("host", "closed")
    assert job.poll(host, spool, 10.0).state.is_over  # dynamo saw its stream end


def test_what_cannot_work_is_said_before(host: shell.SshShell, folder: Path) -> None:
    work, config = wished(folder)
    settings = json.loads(config)
    for change, said in (
        ({"binary": "/nowhere/dynamo"}, "dynamo is not at"),
        ({"mount": str(folder / "gone")}, "no such directory"),
        ({"size": 1 << 60}, "bytes are free"),
    ):
        with pytest.raises((DynamoError, AgentError), match=said):
            tunnel.check_remote(host, work, json.dumps({**settings, **change}).encode())
    tunnel.check_remote(host, work, config)


def test_a_refused_port_is_refused(host: shell.SshShell) -> None:
    door = shell.Tunnel(host.address)
    with pytest.raises(OSError):
        door.connect_port(1)
    door.close_tunnel()


@pytest.mark.parametrize(
    ("line", "there"),
    [("Python 3.11.2", True), ("Python 3.6.8", True), ("Python 3.4.9", False), ("", False)],
)
def test_which_way_is_taken(line: str, there: bool) -> None:
    assert remote_probe.has_python({"python3": line} if line else {}) is there


@pytest.mark.skipif(shutil.which("ldd") is None, reason="no ldd here")
@pytest.mark.slow
def test_missing_libraries_are_named(host: shell.SshShell, folder: Path) -> None:
    fake = folder / "bin"
    fake.mkdir()
    (fake / "ldd").write_text("#!/bin/sh\necho '\tlibaio.so.1 => not found'\n")
    (fake / "ldd").chmod(0o755)
    work, config = wished(folder)

    class With(shell.SshShell):
        def run(self, argv: Any, **more: Any) -> Any:
            return super().run(("env", f"PATH={fake}:/usr/bin:/bin:/usr/sbin:/sbin", *argv), **more)

    with pytest.raises(DynamoError, match="needs libaio"):
        remote_probe.probe_host(
            RemoteHost(With(host.address), work.root),
            tunnel.areas.parse_settings(json.loads(config)),
        )
