"""The state directory when two commands of manage.py begin at once: one makes it, the other waits and says so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchlab.up.bootstrap import ROOT
from benchlab.up.ports import free_port
from benchlab.up.state import State, changing
from tests.up.test_life import NOT_PASSED_ON

WAITING = "Waiting for "


@pytest.fixture
def state() -> Iterator[State]:
    with tempfile.TemporaryDirectory(prefix="benchlab-lock-", ignore_cleanup_errors=True) as place:
        yield State(Path(place))  # 0711 by `create`: PostgreSQL's own user may enter it


def manage(state: State, *words: str) -> subprocess.Popen[str]:
    env = {key: value for key, value in os.environ.items() if key not in NOT_PASSED_ON}
    env.pop("BENCHLAB_NO_BOOTSTRAP", None)
    return subprocess.Popen(
        [sys.executable, "manage.py", *words],
        cwd=ROOT,
        env={**env, "BENCHLAB_STATE": str(state.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> tuple[str, str]:
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return output, errors


def test_two_commands_make_one_database(state):
    """Without a lock the second deletes the first one's, which initdb is still writing."""
    ended = [
        finished(process)
        for process in [manage(state, "diffsettings"), manage(state, "diffsettings")]
    ]
    messages = "".join(errors for _, errors in ended)
    assert messages.count(WAITING) == messages.count("\n") == 1, messages
    assert "manage.py diffsettings" in messages and str(state.path) in messages
    assert [path.name for path in (state.path / "postgres").iterdir() if path.is_dir()] == ["18"]


@pytest.mark.slow
def test_a_command_during_the_first_start_waits_for_it(state):
    up = manage(state, "up", "--no-campaign", "--port", str(free_port()))
    try:
        deadline = time.monotonic() + 30
        while not (state.path / "postgres" / "18.unfinished").exists():
            assert up.poll() is None and time.monotonic() < deadline, "initdb did not begin"
            time.sleep(0.005)
        output, errors = finished(manage(state, "showmigrations", "team"))
        assert f"{WAITING}`python3 manage.py up` (process {up.pid})" in errors
        assert "unfinished" not in errors and "[X]" in output and "[ ]" not in output
    finally:
        up.send_signal(signal.SIGTERM)
        said, _ = up.communicate(timeout=60)
    assert up.returncode == 0 and "BenchLab answers at" in said, said


def test_who_waits_changes_nothing(state, capfd):
    state.create()
    with changing(state):
        waiting = manage(state, "diffsettings")
        assert waiting.stderr and waiting.stderr.readline().startswith(WAITING)
        assert {path.name for path in state.path.iterdir()} == {"logs", "ssh", state.busy.name}
        waiting.terminate()
        waiting.communicate(timeout=30)
    begun = time.monotonic()
    with changing(state):
        assert time.monotonic() - begun < 1
    assert WAITING not in capfd.readouterr().err
