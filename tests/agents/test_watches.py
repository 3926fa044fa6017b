"""Commands that run beside a tool for a sampler; the runner in FreeBSD's words, over programs that imitate its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from agents.contracts import Frame, ParseError, Watch
from agents.jobs import job, spool
from agents.jobs.job import Did, State
from agents.samplers import _frames
from tests.agents.conftest import sh
from tests.agents.local_shell import LocalShell
from tests.agents.spools import archive, eventually, lives, running

EACH = Watch(("sh", "-c", "printf 'one\\ntwo lines, no end'"))
LASTING = Watch(
    ("sh", "-c", "i=0; while :; do i=$((i+1)); echo report $i; echo row; sleep 0.2; done"),
    lasting=True,
    begins="report*",
)
ABSENT = Watch(("no-such-program", "-x"), lasting=True)


def watched(shell, here) -> list[Frame]:
    job.start_job(shell, here, sh("sleep 1.3"), ("/proc/uptime", EACH, LASTING, ABSENT), 0.3)
    assert job.poll(shell, here, 20).state is State.EXITED
    fetched = job.fetch(shell, here)
    assert b"not found" not in fetched.log
    return job.frames(fetched.samples)


def test_what_commands_print_is_in_the_frames(shell, here):
    frames = watched(shell, here)
    assert all(f.files[EACH.file_key] == "one\ntwo lines, no end\n" or
               f.files[EACH.file_key] == "one\n" for f in frames)  # fmt: skip
    assert {f.files[ABSENT.file_key] for f in frames} == {""}
    said = _frames.stamped_lines(frames, LASTING)
    texts = [line.text for line in said]
    reports = [f"report {n}" for n in range(1, len(said) // 2 + 1)]
    assert (
        texts[::2][: len(reports)] == reports and set(texts[1::2]) == {"row"} and len(reports) > 2
    )
    for report, row in zip(said[::2], said[1::2], strict=False):
        assert report.at == row.at
    assert [line.at for line in said] == sorted(line.at for line in said)
    assert -0.5 < said[0].at < said[-1].at < frames[-1].at - frames[0].at


def test_a_run_that_ends_in_the_middle_of_a_frame_loses_no_line(shell, here):
    """That frame is never written, for a slow command may take longer than one waits: the last has its lines."""
    slow = Watch(("sh", "-c", "echo >>ticks; [ $(wc -l <ticks) != 3 ] || sleep 5"))
    job.start_job(shell, here, sh("sleep 1.6"), (LASTING, slow), 0.3)
    assert job.poll(shell, here, 20).state is State.EXITED
    frames = job.frames(job.fetch(shell, here).samples)
    texts = [line.text for line in _frames.stamped_lines(frames, LASTING)]
    assert len(texts) >= 8
    assert texts[::2] == [f"report {n}" for n in range(1, len(texts[::2]) + 1)]


def test_a_command_whose_stack_is_not_here_is_never_run(shell, here, tmp_path):
    (tmp_path / "pools" / "bl17").mkdir(parents=True)
    ran = tmp_path / "ran"

    def touching(name, *where, lasting=False):
        return Watch(("touch", f"{ran}-{name}"), lasting=lasting, where=where)

    watches = (
        touching("a", f"{tmp_path}/none/*/", f"{tmp_path}/pools/*/"),
        touching("b", f"{tmp_path}/none/*/", f"{tmp_path}/none"),
        touching("c", f"{tmp_path}/pools", lasting=True),
        touching("d", f"{tmp_path}/nowhere", lasting=True),
    )
    job.start_job(shell, here, sh("sleep 1"), watches, 0.3)
    assert job.poll(shell, here, 20).state is State.EXITED
    assert sorted(path.name for path in tmp_path.glob("ran-*")) == ["ran-a", "ran-c"]
    frames = job.frames(job.fetch(shell, here).samples)
    assert set(frames[-1].files) == {watches[0].file_key, watches[2].file_key}


def test_a_stamp_that_is_none_is_an_error():
    with pytest.raises(ParseError, match="no time"):
        _frames.stamped_lines([Frame(1.0, {LASTING.file_key: "row\n"})], LASTING)


def test_no_command_outlives_its_job(shell, here):
    job.start_job(shell, here, sh("sleep 60"), (LASTING,), 0.3)
    eventually(lambda: job.poll(shell, here).state is State.RUNNING)
    job.stop_job(shell, here)
    spools = str(Path(here.base, f"benchlab-{os.geteuid()}", here.name))
    eventually(lambda: not [p for p in Path("/proc").glob("[0-9]*") if cwd(p) == spools])


def cwd(process: Path) -> str:
    try:
        return str((process / "cwd").readlink())
    except OSError:
        return ""


def test_a_job_that_is_being_unpacked_is_starting(shell, here):
    """Whoever asks meanwhile must not be told that it vanished."""
    whole = archive(sh("true", inputs={"big": b"x" * 300_000}))
    argv = spool.script(here, "start")
    env = {**os.environ, **shell.env}
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdin
        process.stdin.write(whole[:-20_000])
        process.stdin.flush()
        eventually(lambda: job.poll(shell, here).state is State.STARTING)
        process.stdin.write(whole[-20_000:])
        process.stdin.close()
        assert process.wait(10) == 0
    assert job.poll(shell, here, 10).state is State.EXITED


# FreeBSD's words. In a mount namespace without /proc; ps, stat, sysctl, date and procstat print what FreeBSD's would.

IMITATED = {
    "sysctl": """
        case "$*" in *boot_id*) exit 1 ;; esac
        read -r up _ <"$REAL_PROC/uptime"; now=$(/bin/date +%s)
        echo "{ sec = $((now - ${up%.*})), usec = 0 } Thu Jun 26 15:25:00 2014" """,
    "stat": """
        case "$2" in %Fm) exec /usr/bin/stat -c %.9Y "$3" ;; esac
        echo 1403796312""",
    "date": """
        case "$1" in -j) exec /bin/date -d "$4" "$5" ;; esac
        exec /bin/date "$@" """,
    "ps": """
        read -r up _ <"$REAL_PROC/uptime"; now=$(/bin/date +%s); boot=$((now - ${up%.*}))
        case "$*" in *-axo*) cd "$REAL_PROC"; set -- [0-9]*; all=yes ;;
            *) for pid; do :; done; set -- "$pid"; all= ;; esac
        for pid; do
            IFS= read -r stat 2>/dev/null <"$REAL_PROC/$pid/stat" || continue
            set -- ${stat##*) }
            if [ "$all" ]; then echo "$pid $3"; continue; fi
            echo "$3 $1 $(/bin/date -d @$((boot + ${20} / 100)) '+%a %b %e %T %Y')"
        done""",
    "procstat": """
        echo "$2 some name             cwd v d r-------   -       - -   $(readlink "$REAL_PROC/$2/cwd")" """,
}
PLAIN = ("tar", "sleep", "mkdir", "mkfifo", "mv", "ls", "rm", "id", "dd", "sync", "true", "grep")


@pytest.fixture
def freebsd(tmp_path):
    """A shell whose host has no Linux /proc, and FreeBSD's programs only."""
    proc, programs = tmp_path / "proc", tmp_path / "bin"
    proc.mkdir()
    programs.mkdir()
    hide = f"mount --rbind /proc {proc} && mount -t tmpfs none /proc"
    if subprocess.run(["unshare", "-m", "sh", "-c", hide], capture_output=True).returncode:
        pytest.skip("no mount namespace may be made here")
    for name, body in IMITATED.items():
        (programs / name).write_text(f"#!/bin/dash\n{body}\n")
        (programs / name).chmod(0o755)
    for name in PLAIN:
        (programs / name).symlink_to(shutil.which(name) or name)
    (programs / "readlink").symlink_to("/bin/readlink")
    enter = hide.replace("mount ", "/bin/mount ") + '; exec /bin/dash "$@"'
    (programs / "sh").write_text(
        '#!/bin/dash\n[ -r /proc/self/stat ] || exec /bin/dash "$@"\n'
        f"exec /usr/bin/unshare -m /bin/dash -c '{enter}' sh \"$@\"\n"
    )
    (programs / "sh").chmod(0o755)
    # The runner looks into the sbins too, where no setsid or flock lives.
    return LocalShell({"PATH": str(programs), "REAL_PROC": str(proc), "TZ": "UTC"})


@pytest.fixture
def there(base, freebsd):
    made = job.Spool("attempt-1", root=os.geteuid() == 0, base=str(base))
    yield made
    job.stop_job(freebsd, made)


def test_a_job_in_the_words_of_freebsd(freebsd, there):
    job.start_job(freebsd, there, sh("echo hello; sleep 2; exit 3"), (LASTING,), 0.5)
    polled = job.poll(freebsd, there, 20)
    assert (polled.state, polled.exit_code) == (State.EXITED, 3)
    fetched = job.fetch(freebsd, there)
    assert fetched.files["stdout"] == b"hello\n" and fetched.log == b""
    meta = fetched.meta
    assert meta.boot_id == "dmesg-1403796312" and meta.cached_before is None
    assert (
        0.5 < meta.ended_mono - meta.started_mono < 30 and abs(meta.started_at - time.time()) < 30
    )
    frames = job.frames(fetched.samples)
    assert len(frames) >= 3 and len(_frames.stamped_lines(frames, LASTING)) > 4
    job.remove_spool(freebsd, there)


def test_stop_and_a_second_start_in_the_words_of_freebsd(freebsd, there):
    pids = running(freebsd, there, sh("sleep 61 & sleep 62 & wait"))
    assert job.start_job(freebsd, there, sh("true")).already
    assert job.stop_job(freebsd, there) == job.Stopped(Did.TERMINATED, State.KILLED)
    assert not any(map(lives, pids.values()))
    assert job.stop_job(freebsd, there).did is Did.NOTHING
