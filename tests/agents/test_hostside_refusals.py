"""All that the runner refuses, on the host and in what comes back: torn, foreign, hostile, or without sense."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from agents.contracts import AgentError, ParseError, Ran, Reason
from agents.jobs import job, spool
from agents.jobs.job import State
from tests.agents.conftest import sh, shell_as, work
from tests.agents.local_shell import LocalShell
from tests.agents.spools import (
    archive,
    running,
    works_in,
)

ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not ROOT, reason="needs root")


def test_a_torn_start_starts_nothing_and_leaves_nothing(shell, here):
    tool = work("true", inputs={"big": b"x" * 100_000})
    for size in (0, 700, 50_000, len(archive(tool)) - 12_000):
        ran = shell.run(spool.script(here, "start"), stdin=archive(tool)[:size])
        assert ran.exit_code == 3 and b"arrived incomplete" in ran.stderr
        assert job.poll(shell, here).state is State.ABSENT
    assert not job.start_job(shell, here, tool).already


def test_a_directory_without_our_marker_is_not_ours(shell, here, base):
    job.start_job(shell, here, work("true"))
    job.poll(shell, here, 10)
    folder = base / f"benchlab-{os.geteuid()}" / here.name
    (folder / "benchlab").unlink()
    with pytest.raises(AgentError, match="not a BenchLab job"):
        job.remove_spool(shell, here)
    assert folder.exists()
    (folder / "benchlab").touch()


def test_a_link_in_our_place_is_refused(shell, here, base, tmp_path):
    (tmp_path / "trap").mkdir(mode=0o700)
    (base / f"benchlab-{os.geteuid()}").symlink_to(tmp_path / "trap")
    with pytest.raises(AgentError, match="another user created it"):
        job.start_job(shell, here, work("true"))
    assert list((tmp_path / "trap").iterdir()) == []


def test_a_directory_open_to_others_is_refused(shell, here, base):
    spools = base / f"benchlab-{os.geteuid()}"
    spools.mkdir()
    spools.chmod(0o777)
    with pytest.raises(AgentError, match="accessible to other users"):
        job.start_job(shell, here, work("true"))


@needs_root
def test_a_directory_of_somebody_else_is_refused(shell, here, base):
    spools = base / "benchlab-0"
    spools.mkdir(mode=0o700)
    os.chown(spools, 65534, 65534)
    with pytest.raises(AgentError, match="another user created it"):
        job.start_job(shell, here, work("true"))


@needs_root
def test_a_user_without_root(base):
    plain_user = shell_as("dash", base / "bin", uid=65534)
    here = job.Spool("attempt-1", root=False, base=str(base))
    tool = job.Job(("id", "-u"), root=False)
    job.start_job(plain_user, here, tool, ("/proc/diskstats",))
    assert job.poll(plain_user, here, 10).exit_code == 0
    fetched = job.fetch(plain_user, here)
    assert fetched.files["stdout"] == b"65534\n"
    assert fetched.meta.caches == "refused"
    frames = job.frames(fetched.samples)
    assert frames[0].at <= fetched.meta.started_mono <= frames[-1].at  # one clock, to 10 ms
    assert (base / "benchlab-65534").stat().st_mode & 0o777 == 0o700


def test_without_flock_and_setsid(base, tmp_path):
    """A host with little more than a shell and tar."""
    folder = tmp_path / "few"
    folder.mkdir()
    for name in ("dash", "tar", "sleep", "mkdir", "ls", "rm", "id", "dd", "date", "sync", "true"):
        (folder / ("sh" if name == "dash" else name)).symlink_to(Path("/bin", name))
    few = LocalShell({"PATH": str(folder)})
    # The runner looks into the sbins too, where neither program lives.
    here = job.Spool("attempt-1", root=ROOT, base=str(base))
    job.start_job(few, here, sh("sleep 0.6; exit 4"), ("/proc/stat",), 0.2)
    assert job.poll(few, here, 10).exit_code == 4
    assert len(job.frames(job.fetch(few, here).samples)) >= 3
    job.remove_spool(few, here)
    running(few, here, sh("sleep 61 & sleep 62 & wait"))
    assert job.stop_job(few, here).state is State.KILLED
    assert not [p for p in Path("/proc").glob("[0-9]*") if works_in(p, here)]


def test_an_output_that_is_a_link_is_refused(shell, here):
    tool = sh("ln -s /etc/passwd out.txt", outputs=("out.txt",))
    job.start_job(shell, here, tool)
    job.poll(shell, here, 10)
    with pytest.raises(AgentError, match="not a plain file"):
        job.fetch(shell, here, tool.outputs)


def tar_of(*names: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in names:
            tar.addfile(tarfile.TarInfo(name))
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["../out", "/etc/passwd", "work/../x", "unasked"])
def test_names_that_nobody_asked_for_are_refused(name):
    with pytest.raises(AgentError, match="not a plain file"):
        spool.unpack(tar_of(name, "benchlab"), {"stdout": "stdout"})


def test_a_cut_answer_is_seen():
    whole = tar_of("stdout", "benchlab")
    assert spool.unpack(whole, {"stdout": "stdout"}) == {"stdout": b""}
    for size in (0, 100, 512, 700):
        with pytest.raises(AgentError, match="incomplete"):
            spool.unpack(whole[:size], {"stdout": "stdout"})


@pytest.mark.parametrize("answer", [b"", b"garbage", b"\xff\n\n", b"state=unheard-of\n\n"])
def test_an_answer_without_sense_is_an_agent_error(answer, here):
    class Fool:
        def run(self, argv, **_):
            return job.Ran(tuple(argv), 0, answer, b"")

    for ask in (job.poll, job.stop_job, job.remove_spool, job.fetch):
        with pytest.raises(AgentError):
            ask(Fool(), here)


def test_a_full_disk_is_said(here):
    class Full:
        def run(self, argv, **_):
            return job.Ran(tuple(argv), 3, b"", b"tar: No space left on device\nnot whole")

    with pytest.raises(AgentError) as caught:
        job.start_job(Full(), here, work("true"))
    assert caught.value.reason is Reason.NO_SPACE


def test_frames_are_read_and_a_torn_one_dropped():
    raw = b"@ 1500000000\n# /a\n one\n two\n# /b\n.\n@ 2500000000\n# /a\n thr"
    (frame,) = job.frames(raw)
    assert (frame.at, dict(frame.files)) == (1.5, {"/a": "one\ntwo\n", "/b": ""})
    assert job.frames(b"") == job.frames(b"@ 1") == []
    for size in range(len(raw)):
        assert len(job.frames(raw[:size])) <= 1


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        (b"@ 1\n one\n.\n", 2),
        (b"# /a\n.\n", 1),
        (b"@ 1\n# /a\n@ 2\n.\n", 3),
        (b"@ 1\n# /a\nnothing\n.\n", 3),
        (b"@ soon\n.\n", 1),
    ],
)
def test_other_damage_is_an_error_with_its_line(raw, line):
    with pytest.raises(ParseError) as caught:
        job.frames(raw)
    assert caught.value.line == line


@pytest.mark.parametrize("said", [b"Welcome\n", b"state=dancing\n", b"state=exited\nexit=999\n"])
def test_an_answer_that_is_not_ours_is_the_hosts_fault(said):
    with pytest.raises(AgentError, match="unexpected answer from the host") as caught:
        job.polled(Ran((), 0, said, b"", 0.1), job.Spool("attempt-1"), 0, None)
    assert caught.value.reason is Reason.COMMAND_FAILED
