"""The identity of a process, and ending it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchlab.up import procs
from benchlab.up.leftovers import end_leftovers
from benchlab.up.state import State, write_json

ENV = {"PATH": os.defpath}


@pytest.fixture
def sleeper():
    process = procs.spawn(["sleep", "60"], ENV, subprocess.DEVNULL)
    yield process
    process.kill()
    process.wait()


def test_a_process_is_known_by_pid_and_start_time(sleeper):
    found = procs.identify("sleep", sleeper.pid)
    assert found and found.alive
    assert not procs.Identity("sleep", found.pid, found.started - 1).alive
    assert procs.identity_from_json(found.as_json()) == found


@pytest.mark.parametrize("damaged", [None, {}, [], {"name": "x", "pid": "y", "started": 1}])
def test_damaged_records_name_nobody(damaged):
    assert procs.identity_from_json(damaged) is None


def test_a_zombie_is_not_alive():
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert procs.start_time(process.pid) is None
    process.wait()


def test_ending_takes_the_whole_group():
    process = procs.spawn(["sh", "-c", "sleep 60 & echo $!; wait"], ENV, subprocess.PIPE)
    assert process.stdout
    child = int(process.stdout.readline())
    found = procs.identify("sh", process.pid)
    assert found
    assert procs.end([found]) == []
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + 5
    while procs.start_time(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert procs.start_time(child) is None


def test_who_does_not_listen_is_killed():
    code = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    )
    process = procs.spawn([sys.executable, "-c", code], ENV, subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    found = procs.identify("deaf", process.pid)
    assert found
    assert procs.end([found], patience_s=0.2) == [found]
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()


def test_children_die_with_the_supervisor(tmp_path):
    code = (
        "import os, signal; from benchlab.up.procs import spawn;"
        "print(spawn(['sleep', '60'], {'PATH': os.defpath}, 2).pid, flush=True);"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False)
    child = int(done.stdout)
    deadline = time.monotonic() + 5
    while procs.start_time(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert procs.start_time(child) is None


def test_processes_are_found_by_their_environment():
    marker = f"BENCHLAB_TEST={os.getpid()}"
    env = {**ENV, "BENCHLAB_TEST": str(os.getpid())}
    process = procs.spawn(["sleep", "60"], env, subprocess.DEVNULL)
    try:
        assert [found.pid for found in procs.with_environment(marker)] == [process.pid]
        assert procs.with_environment(f"{marker}0") == []
    finally:
        process.kill()
        process.wait()


def test_leftovers_are_ended_but_no_stranger_of_the_same_pid(tmp_path, sleeper):
    state = State(tmp_path)
    found = procs.identify("worker", sleeper.pid)
    assert found
    stranger = {**found.as_json(), "started": found.started - 1}
    write_json(state.children, {"children": [stranger]})
    assert end_leftovers(state) == []
    assert found.alive
    write_json(state.children, {"children": [found.as_json()]})
    assert end_leftovers(state) == ["worker"]
    assert not found.alive


def test_no_record_no_leftovers(tmp_path):
    Path(tmp_path, "children.json").write_text("{")
    assert end_leftovers(State(tmp_path)) == []
