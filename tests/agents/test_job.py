"""The life of a job on this machine, under each shell that a host may have."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import time
from contextlib import suppress

import pytest

from agents.contracts import AgentError, Reason
from agents.jobs import job
from agents.jobs.job import Did, State
from tests.agents.conftest import sh, work

FILES = ("/proc/diskstats", "/proc/stat", "/proc/no-such-file")


def finish(shell, spool, wait_s=10):
    polled = job.poll(shell, spool, wait_s)
    assert polled.state.is_over, polled
    return polled


def test_a_job_runs_and_is_fetched(shell, here):
    tool = sh("echo hello; echo oops >&2; cat given > out.txt; exit 3", outputs=("out.txt", "none"),
              inputs={"given": b"\x00\xffbytes"})  # fmt: skip
    assert job.start_job(shell, here, tool, FILES) == job.Started(already=False)
    polled = finish(shell, here)
    assert (polled.state, polled.exit_code) == (State.EXITED, 3)
    fetched = job.fetch(shell, here, tool.outputs)
    assert fetched.files == {"stdout": b"hello\n", "stderr": b"oops\n", "out.txt": b"\x00\xffbytes"}
    assert fetched.log == b""
    assert fetched.meta.exit_code == 3
    assert fetched.meta.caches == "no"
    assert abs(fetched.meta.started_at - time.time()) < 30
    assert 0 <= fetched.meta.ended_mono - fetched.meta.started_mono < 10
    assert fetched.meta.ended_at - fetched.meta.started_at == pytest.approx(
        fetched.meta.ended_mono - fetched.meta.started_mono, abs=1e-6
    )
    assert abs(fetched.meta.clock_step) < 0.5
    job.remove_spool(shell, here)
    assert job.poll(shell, here).state is State.ABSENT
    job.remove_spool(shell, here)


@pytest.fixture
def small_disk(base):
    """The jobs' directory on a file system of its own, of 1 MiB."""
    argv = ["mount", "-t", "tmpfs", "-o", "mode=755,size=1m", "small", str(base)]
    tried = subprocess.run(argv, capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {tried.stderr.strip()}")
    yield base
    subprocess.run(["umount", "--lazy", str(base)], check=True)


def test_the_end_is_noted_on_a_disk_that_the_tool_filled(shell, small_disk, here):
    """Without it a run that ended in order was called lost, and its output stayed on the host."""
    tool = sh("head -c 5000000 /dev/zero; echo over >&2; exit 7")
    job.start_job(shell, here, tool, FILES, interval_s=0.1)
    polled = job.poll(shell, here, 10, outputs=())
    assert (polled.state, polled.exit_code) == (State.EXITED, 7)
    fetched = polled.fetched or job.fetch(shell, here)
    assert fetched.meta.disk_full and fetched.meta.exit_code == 7
    assert 500_000 < len(fetched.files["stdout"]) < 1_000_000
    job.remove_spool(shell, here)
    assert list(small_disk.glob("benchlab-*/attempt*")) == []


def test_a_disk_that_others_fill_is_named(shell, small_disk, here):
    job.start_job(shell, here, sh("true"))
    finish(shell, here)
    for path in small_disk.rglob("reserve"):
        path.unlink()
    with (small_disk / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while filler.write(bytes(4096)):
            pass
    with pytest.raises(AgentError, match="No space left on device") as raised:
        job.fetch(shell, here)
    assert raised.value.reason is Reason.NO_SPACE
    (small_disk / "filler").unlink()
    assert job.fetch(shell, here).meta.exit_code == 0


def test_a_disk_that_became_read_only_is_called_that(shell, small_disk, here):
    job.start_job(shell, here, sh("true"))
    finish(shell, here)
    remount(small_disk, "ro")
    other = dataclasses.replace(here, name="attempt-2")
    for call in (lambda: job.fetch(shell, here), lambda: job.start_job(shell, other, sh("true"))):
        with pytest.raises(AgentError, match="Read-only file system") as raised:
            call()
        assert raised.value.reason is Reason.READ_ONLY
    remount(small_disk, "rw")
    assert job.fetch(shell, here).meta.exit_code == 0


def test_a_disk_without_inodes_is_called_full(shell, small_disk, here):
    job.start_job(shell, here, sh("true"))
    finish(shell, here)
    now = os.statvfs(small_disk)
    remount(small_disk, f"nr_inodes={now.f_files - now.f_ffree}")
    with pytest.raises(AgentError, match="No space left on device") as raised:
        job.fetch(shell, here)
    assert raised.value.reason is Reason.NO_SPACE


def remount(place, option):
    subprocess.run(["mount", "-o", f"remount,{option}", str(place)], check=True)


def test_frames_surround_the_tool(shell, here):
    job.start_job(shell, here, work("sleep", "0.7"), FILES, interval_s=0.2)
    finish(shell, here)
    fetched = job.fetch(shell, here)
    frames, meta = job.frames(fetched.samples), fetched.meta
    assert frames[0].at <= meta.started_mono <= meta.ended_mono <= frames[-1].at
    took = frames[-1].at - frames[0].at
    assert 3 <= len(frames) <= (took + 0.01) / 0.2 + 2  # late ticks are skipped, never hurried
    assert list(frames[0].files) == list(FILES[:2])
    assert "cpu0 " in frames[-1].files["/proc/stat"]
    assert meta.sample_bytes == len(fetched.samples)


def test_polls_read_on_from_their_offset(shell, here):
    job.start_job(shell, here, work("sleep", "0.6"), FILES, interval_s=0.1)
    collected, offset, polled = b"", 0, None
    while polled is None or not polled.state.is_over:
        polled = job.poll(shell, here, 0, offset)
        assert not polled.more
        collected, offset = collected + polled.new_samples, polled.offset
        time.sleep(0.1)
    last = job.poll(shell, here, 0, offset)
    assert collected + last.new_samples == job.fetch(shell, here).samples
    assert job.poll(shell, here, 0, last.offset).new_samples == b""


def test_the_end_is_seen_at_once(shell, here):
    job.start_job(shell, here, work("sleep", "0.5"))
    polled = finish(shell, here, 30)
    ended = job.fetch(shell, here).meta.ended_mono
    assert polled.state is State.EXITED
    assert time.monotonic() - ended < 15  # ms in truth; not when the poll's own time was over


def test_poll_comes_back_when_its_time_is_over(shell, here):
    job.start_job(shell, here, work("sleep", "30"))
    began = time.monotonic()
    assert job.poll(shell, here, 1).state in (State.RUNNING, State.STARTING)
    assert 0.7 < time.monotonic() - began < 5


def test_a_poll_waits_a_part_of_a_second(shell, here):
    job.start_job(shell, here, work("sleep", "30"))
    began = time.monotonic()
    assert job.poll(shell, here, 0.85).state in (State.RUNNING, State.STARTING)
    assert 0.6 < time.monotonic() - began < 5


def test_a_second_start_starts_nothing(shell, here):
    tool = sh("echo once >> ../work/count", outputs=("count",))
    assert not job.start_job(shell, here, tool).already
    assert job.start_job(shell, here, tool).already
    finish(shell, here)
    assert job.start_job(shell, here, tool).already
    assert job.fetch(shell, here, tool.outputs).files["count"] == b"once\n"


def test_signals_are_128_and_more(shell, here):
    job.start_job(shell, here, sh("kill -9 $$"))
    assert finish(shell, here).exit_code == 137


def test_a_missing_tool_is_127_and_says_so(shell, here):
    job.start_job(shell, here, work("no-such-tool"))
    assert finish(shell, here).exit_code == 127
    assert b"no-such-tool" in job.fetch(shell, here).files["stderr"]


def test_words_reach_the_tool_as_they_are(shell, here):
    words = ("a b", "it's", "$HOME `id` \\", "two\nlines", "", "*", "é")
    job.start_job(shell, here, work("printf", "%s|", *words, env={"ODD": "x'y $z"}))
    finish(shell, here)
    assert job.fetch(shell, here).files["stdout"].decode() == "".join(f"{w}|" for w in words)


def test_the_environment_reaches_the_tool(shell, here):
    job.start_job(shell, here, sh('printf %s "$ODD"', env={"ODD": "x'y $z\n"}))
    finish(shell, here)
    assert job.fetch(shell, here).files["stdout"] == b"x'y $z\n"


def test_its_time_is_over(shell, here):
    job.start_job(shell, here, sh("sleep 60 & wait", timeout_s=0.5))
    polled = finish(shell, here)
    assert (polled.state, polled.exit_code) == (State.TIMEOUT, 143)


def test_its_time_is_over_and_it_does_not_listen(shell, here):
    job.start_job(shell, here, sh("trap '' TERM; while :; do sleep 0.1; done", timeout_s=2.0))
    polled = finish(shell, here)
    assert (polled.state, polled.exit_code) == (State.TIMEOUT, 137)


def test_a_short_run_leaves_nothing(shell, base, here):
    tool = sh("cat given; echo bad >&2; exit 1", inputs={"given": b"options"})
    ran = job.run_short(shell, tool, base=str(base))
    assert (ran.exit_code, ran.stdout, ran.stderr) == (1, b"options", b"bad\n")
    assert ran.argv == tool.argv
    left = [entry.name for spools in base.iterdir() for entry in spools.iterdir()]
    assert left == [".private"]  # says that the directory was looked at


def test_a_running_job_is_not_removed(shell, here):
    job.start_job(shell, here, work("sleep", "30"))
    with pytest.raises(AgentError, match="stop it before"):
        job.remove_spool(shell, here)
    assert job.stop_job(shell, here).did is Did.TERMINATED
    job.remove_spool(shell, here)


def test_fetching_what_is_not_there_is_said(shell, here):
    with pytest.raises(AgentError, match="no such job") as caught:
        job.fetch(shell, here)
    assert caught.value.reason is Reason.HOST_LOST


@pytest.mark.parametrize("name", ["../x", "a/b", "-rf", ".hidden", "", "a b", "stdout", "é", "x*"])
def test_only_plain_names(name):
    with pytest.raises(AgentError, match="plain names"):
        job.Spool(name)


def test_a_poll_may_bring_what_a_finished_job_left(shell, here):
    job.start_job(shell, here, work("sh", "-c", "echo out; echo more >file", outputs=("file",)))
    polled = job.poll(shell, here, 10, 0, ("file",))
    assert polled.state is State.EXITED
    assert polled.fetched == dataclasses.replace(
        job.fetch(shell, here, ("file",)), meta=polled.fetched.meta
    )
    assert polled.fetched.files == {"stdout": b"out\n", "stderr": b"", "file": b"more\n"}
