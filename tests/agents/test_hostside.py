"""What goes wrong on a host: stops, lost leaders, reboots, reused numbers, hostile directories."""

from __future__ import annotations

import io
import os
import signal
import tarfile
import time
from pathlib import Path

import pytest

from agents import job, spool
from agents.contracts import AgentError, ParseError, Reason
from agents.job import Did, State
from tests.agents.conftest import sh, shell_as, work
from tests.agents.local_shell import LocalShell

ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not ROOT, reason="needs root")


def notes(here: job.Spool) -> dict[str, str]:
    folder = Path(here.base, f"benchlab-{os.geteuid()}", here.name)
    texts = [(folder / name).read_text() for name in ("begun", "tool", "running")]
    return {
        k: v.strip('"')
        for k, _, v in (line.partition("=") for t in texts for line in t.split("\n"))
    }


def rewrite(here: job.Spool, name: str, old: str, new: str) -> None:
    path = Path(here.base, f"benchlab-{os.geteuid()}", here.name, name)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def running(shell, here, tool) -> dict[str, int]:
    """Starts the tool, waits until it runs; the PIDs of leader and tool."""
    job.start(shell, here, tool)
    eventually(lambda: job.poll(shell, here).state is State.RUNNING)
    noted = notes(here)
    return {name: int(noted[name].split()[0]) for name in ("leader", "tool")}


def eventually(true, within_s: float = 10.0) -> None:
    limit = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < limit, "it never came true"
        time.sleep(0.05)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def works_in(process: Path, here: job.Spool) -> bool:
    try:
        return (process / "cwd").readlink().is_relative_to(here.base)
    except OSError:
        return False


def in_group(pgid: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "stat").read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        if int(words[2]) == pgid and words[0] not in "ZX":
            found.append(int(entry.name))
    return found


def test_stop_ends_the_group_and_nothing_else(shell, here, base):
    other = job.Spool("attempt-2", root=ROOT, base=str(base))
    stranger = running(shell, other, work("sleep", "60"))
    pids = running(shell, here, sh("sleep 61 & sleep 62 & wait"))
    eventually(lambda: len(in_group(pids["tool"])) == 3)
    eventually(lambda: len(in_group(pids["tool"])) == 3)
    assert job.stop(shell, here) == job.Stopped(Did.TERMINATED, State.KILLED)
    assert in_group(pids["tool"]) == [] and not lives(pids["leader"])
    assert lives(stranger["tool"])
    assert job.stop(shell, here) == job.Stopped(Did.NOTHING, State.KILLED)
    assert job.poll(shell, here).exit_code == 143
    assert job.fetch(shell, here).meta.state is State.KILLED
    job.stop(shell, other)


def test_stop_kills_what_does_not_listen(shell, here):
    running(shell, here, sh("trap '' TERM; while :; do sleep 0.1; done"))
    time.sleep(0.2)  # let it set its trap
    assert job.stop(shell, here) == job.Stopped(Did.KILLED, State.KILLED)
    assert job.poll(shell, here).exit_code == 137


def test_stop_of_what_never_started(shell, here):
    assert job.stop(shell, here) == job.Stopped(Did.NOTHING, State.ABSENT)


def test_stop_right_after_start(shell, here):
    job.start(shell, here, work("sleep", "60"))
    assert job.stop(shell, here).state is State.KILLED
    assert not [p for p in Path("/proc").glob("[0-9]*") if works_in(p, here)]


def test_a_killed_leader_is_vanished_and_its_tool_is_stopped(shell, here):
    pids = running(shell, here, sh("sleep 61 & sleep 62 & wait"))
    eventually(lambda: len(in_group(pids["tool"])) == 3)
    os.kill(pids["leader"], signal.SIGKILL)
    eventually(lambda: job.poll(shell, here).state is State.VANISHED)
    assert len(in_group(pids["tool"])) == 3
    assert job.stop(shell, here).did is Did.TERMINATED
    assert in_group(pids["tool"]) == []
    assert job.fetch(shell, here).meta.exit_code is None


def test_orphans_of_a_killed_tool_are_stopped(shell, here):
    pids = running(shell, here, sh("sleep 61 & sleep 62 & wait"))
    eventually(lambda: len(in_group(pids["tool"])) == 3)
    os.kill(pids["leader"], signal.SIGKILL)
    os.kill(pids["tool"], signal.SIGKILL)
    eventually(lambda: not lives(pids["tool"]))
    assert job.poll(shell, here).state is State.VANISHED
    with pytest.raises(AgentError, match="stop it before"):
        job.remove(shell, here)
    assert job.stop(shell, here).did is Did.TERMINATED
    assert in_group(pids["tool"]) == []
    job.remove(shell, here)


def test_what_a_tool_leaves_behind_ends_with_it(shell, here):
    pids = running(shell, here, sh("sleep 61 & sleep 0.5"))
    assert job.poll(shell, here, 10).state is State.EXITED
    eventually(lambda: in_group(pids["tool"]) == [])


def test_a_reboot_is_seen(shell, here):
    pids = running(shell, here, work("sleep", "60"))
    boot = notes(here)["boot"]
    rewrite(here, "begun", boot, "00000000-0000-0000-0000-000000000000")
    assert job.poll(shell, here, 5).state is State.REBOOTED
    assert job.stop(shell, here) == job.Stopped(Did.NOTHING, State.REBOOTED)
    assert lives(pids["tool"])  # the number belongs to somebody of the new boot
    assert job.fetch(shell, here).meta.clock_step is None
    rewrite(here, "begun", "00000000-0000-0000-0000-000000000000", boot)


def test_a_reused_number_is_left_alone(shell, here):
    pids = running(shell, here, work("sleep", "60"))
    os.kill(pids["leader"], signal.SIGKILL)
    born = notes(here)["tool"].split()[1]
    rewrite(here, "tool", f"{pids['tool']} {born}", f"{pids['tool']} 1")
    rewrite(here, "tool", f"home={pids['tool']}", "home=1234567")
    eventually(lambda: not lives(pids["leader"]))
    assert job.stop(shell, here).did is Did.NOTHING
    assert lives(pids["tool"])
    os.kill(pids["tool"], signal.SIGTERM)


def test_helpers_go_with_a_vanished_leader(shell, here):
    pids = running(shell, here, work("sleep", "60"))
    helpers = [int(word) for word in notes(here)["helpers"].split()[::2]]
    assert all(lives(pid) for pid in helpers)
    os.kill(pids["leader"], signal.SIGKILL)
    eventually(lambda: not lives(pids["leader"]))
    job.stop(shell, here)
    eventually(lambda: not any(lives(pid) for pid in helpers), 3)


def archive(tool) -> bytes:
    return spool.archive(tool, (), 1.0)


def test_a_torn_start_starts_nothing_and_leaves_nothing(shell, here):
    tool = work("true", inputs={"big": b"x" * 100_000})
    for size in (0, 700, 50_000, len(archive(tool)) - 12_000):
        ran = shell.run(spool.script(here, "start"), stdin=archive(tool)[:size])
        assert ran.exit_code == 3 and b"did not arrive whole" in ran.stderr
        assert job.poll(shell, here).state is State.ABSENT
    assert not job.start(shell, here, tool).already


def test_a_directory_without_our_marker_is_not_ours(shell, here, base):
    job.start(shell, here, work("true"))
    job.poll(shell, here, 10)
    folder = base / f"benchlab-{os.geteuid()}" / here.name
    (folder / "benchlab").unlink()
    with pytest.raises(AgentError, match="not a job of ours"):
        job.remove(shell, here)
    assert folder.exists()
    (folder / "benchlab").touch()


def test_a_link_in_our_place_is_refused(shell, here, base, tmp_path):
    (tmp_path / "trap").mkdir(mode=0o700)
    (base / f"benchlab-{os.geteuid()}").symlink_to(tmp_path / "trap")
    with pytest.raises(AgentError, match="somebody else made it"):
        job.start(shell, here, work("true"))
    assert list((tmp_path / "trap").iterdir()) == []


def test_a_directory_open_to_others_is_refused(shell, here, base):
    spools = base / f"benchlab-{os.geteuid()}"
    spools.mkdir()
    spools.chmod(0o777)
    with pytest.raises(AgentError, match="open to other users"):
        job.start(shell, here, work("true"))


@needs_root
def test_a_directory_of_somebody_else_is_refused(shell, here, base):
    spools = base / "benchlab-0"
    spools.mkdir(mode=0o700)
    os.chown(spools, 65534, 65534)
    with pytest.raises(AgentError, match="somebody else made it"):
        job.start(shell, here, work("true"))


@needs_root
def test_a_user_without_root(base):
    plain_user = shell_as("dash", base / "bin", uid=65534)
    here = job.Spool("attempt-1", root=False, base=str(base))
    tool = job.Job(("id", "-u"), root=False)
    job.start(plain_user, here, tool, ("/proc/diskstats",))
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
    job.start(few, here, sh("sleep 0.6; exit 4"), ("/proc/stat",), 0.2)
    assert job.poll(few, here, 10).exit_code == 4
    assert len(job.frames(job.fetch(few, here).samples)) >= 3
    job.remove(few, here)
    running(few, here, sh("sleep 61 & sleep 62 & wait"))
    assert job.stop(few, here).state is State.KILLED
    assert not [p for p in Path("/proc").glob("[0-9]*") if works_in(p, here)]


def test_an_output_that_is_a_link_is_refused(shell, here):
    tool = sh("ln -s /etc/passwd out.txt", outputs=("out.txt",))
    job.start(shell, here, tool)
    job.poll(shell, here, 10)
    with pytest.raises(AgentError, match="no plain file"):
        job.fetch(shell, here, tool.outputs)


def tar_of(*names: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in names:
            tar.addfile(tarfile.TarInfo(name))
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["../out", "/etc/passwd", "work/../x", "unasked"])
def test_names_that_nobody_asked_for_are_refused(name):
    with pytest.raises(AgentError, match="no plain file"):
        spool.unpack(tar_of(name, "benchlab"), {"stdout": "stdout"})


def test_a_cut_answer_is_seen():
    whole = tar_of("stdout", "benchlab")
    assert spool.unpack(whole, {"stdout": "stdout"}) == {"stdout": b""}
    for size in (0, 100, 512, 700):
        with pytest.raises(AgentError, match="whole"):
            spool.unpack(whole[:size], {"stdout": "stdout"})


@pytest.mark.parametrize("answer", [b"", b"garbage", b"\xff\n\n", b"state=unheard-of\n\n"])
def test_an_answer_without_sense_is_an_agent_error(answer, here):
    class Fool:
        def run(self, argv, **_):
            return job.Ran(tuple(argv), 0, answer, b"")

    for ask in (job.poll, job.stop, job.remove, job.fetch):
        with pytest.raises(AgentError):
            ask(Fool(), here)


def test_a_full_disk_is_said(here):
    class Full:
        def run(self, argv, **_):
            return job.Ran(tuple(argv), 3, b"", b"tar: No space left on device\nnot whole")

    with pytest.raises(AgentError) as caught:
        job.start(Full(), here, work("true"))
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
