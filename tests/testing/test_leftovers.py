"""A run of tests that is killed leaves nothing behind, and the next one says what was cleared."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchlab.practice.paths import cache_root, locked
from benchlab.testing import guardian, leftovers
from benchlab.up.bootstrap import ROOT
from benchlab.up.procs import start_time

# A run that names itself as `manage.py test` does, and leaves one of each behind.
RUN = """
import os, subprocess, sys, time
from pathlib import Path
from benchlab.testing import leftovers
os.environ[leftovers.RUN] = leftovers.this_run()
place, elsewhere = Path(sys.argv[1]), Path(sys.argv[2])
place.mkdir()
elsewhere.mkdir()
leftovers.own(place, elsewhere)
left = subprocess.Popen(["sleep", "300"], start_new_session=True)
if os.geteuid() == 0:
    name = f"practice-rig-{os.getpid()}-1-0"
    subprocess.run(["ip", "netns", "add", name], check=True)
    (place / "mounted").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", str(place / "mounted")], check=True)
print(left.pid, flush=True)
time.sleep(300)
"""
# A test that hangs, with a process that would outlive it.
HANGS = """
import subprocess, time
def test_it():
    left = subprocess.Popen(["sleep", "299"], start_new_session=True)
    open({told!r}, "w").write(f"{{left.pid}} {{__import__('os').environ['BENCHLAB_STATE']}}")
    time.sleep(300)
"""


@pytest.fixture(autouse=True)
def nobody_else_clears(tmp_path_factory, monkeypatch) -> Iterator[None]:
    """Keep other runs away: what a test here leaves on purpose, any run of tests on this machine would find and tell.

    Those wait for the machine's lock; what this test starts has a cache, and thereby a lock, of its own.
    """
    with locked(cache_root() / "clearing.lock"):
        monkeypatch.setenv("BENCHLAB_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def until(true: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)


def test_what_a_dead_run_left_is_cleared_and_named(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    place, elsewhere = tmp_path / f"{leftovers.PLACES}1", tmp_path / "elsewhere"
    argv = [sys.executable, "-c", RUN, str(place), str(elsewhere)]
    run = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    left = int(run.stdout.readline())
    try:
        assert not [line for line in leftovers.clear() if str(left) in line or str(place) in line]
        assert place.exists() and start_time(left)
    finally:
        run.kill()
        run.wait()
        run.stdout.close()
    found = leftovers.clear()
    assert f"process {left} (sleep)" in found
    assert f"directory {place}" in found and f"directory {elsewhere}" in found
    assert start_time(left) is None
    assert not place.exists() and not elsewhere.exists()
    if os.geteuid() == 0:
        assert f"network namespace practice-rig-{run.pid}-1-0" in found
        assert f"mount {place}/mounted" in found
        assert not Path(f"/run/netns/practice-rig-{run.pid}-1-0").exists()
    assert leftovers.clear() == []


def test_a_directory_that_names_no_run_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    for name, text in (("a", ""), ("b", "{}"), ("c", '{"run": "x"}'), ("d", '["run"]')):
        place = tmp_path / f"{leftovers.PLACES}{name}"
        place.mkdir()
        (place / leftovers.OWNER).write_text(text)
    assert not [line for line in leftovers.clear() if str(tmp_path) in line]
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_killed_leaves_nothing(tmp_path, how):
    """The real command: killed outright a guardian clears up after it, told to end it does so itself."""
    told = tmp_path / "told"
    (tmp_path / "test_hangs.py").write_text(HANGS.format(told=str(told)))
    dropped = ("DATABASE_URL", "REDIS_URL", "BENCHLAB_STATE", "BENCHLAB_RIG", leftovers.RUN)
    env = {key: value for key, value in os.environ.items() if key not in dropped}
    argv = [sys.executable, str(ROOT / "manage.py"), "test", str(tmp_path / "test_hangs.py")]
    with (tmp_path / "log").open("wb") as log:
        run = subprocess.Popen(
            argv, cwd=ROOT, env=env, stdout=log, stderr=log, preexec_fn=in_the_background
        )
    until(lambda: told.exists() and " " in told.read_text(), 90)
    left, place = told.read_text().split()
    postmaster = int(next(Path(place).rglob("postmaster.pid")).read_text().split()[0])
    assert start_time(int(left)) and start_time(postmaster)
    run.send_signal(how)
    run.wait(30)
    until(lambda: not Path(place).exists() and start_time(int(left)) is None)
    until(lambda: start_time(postmaster) is None)
    if how == signal.SIGKILL:
        until(guardian.said_file().exists)
        assert f"process {left} (sleep)" in guardian.said_file().read_text()
    else:
        assert f"Left by a test, and cleared away: process {left}" in (tmp_path / "log").read_text()


def in_the_background() -> None:
    """As a shell starts what ends in `&`: Ctrl-C is for others. A night's run is often started so."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def test_files_of_a_host_that_was_half_removed_go(tmp_path, monkeypatch):
    """Their record goes first, so nobody is named as their owner; their name has the pid of who made them."""
    monkeypatch.setenv("BENCHLAB_HOSTS", str(tmp_path))
    ended = subprocess.Popen(["true"])
    ended.wait()
    for name in (f"rig-{ended.pid}-1", f"rig-{os.getpid()}-1", "practice", "rig-x-1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "disk1.img").write_text("x")
        (tmp_path / f"{name}.lock").touch()
    assert f"host rig-{ended.pid}-1 (its files)" in leftovers.clear()
    left = {path.name.removesuffix(".lock") for path in tmp_path.iterdir()}
    assert left == {f"rig-{os.getpid()}-1", "practice", "rig-x-1"}
    shutil.rmtree(tmp_path / f"rig-{os.getpid()}-1")


def test_what_a_guardian_cleared_is_said_once():
    assert guardian.take_said() == []
    guardian.said_file().write_text("host rig-1-1\n")
    assert guardian.take_said() == ["host rig-1-1"]
    assert guardian.take_said() == []
