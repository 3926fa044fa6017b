"""A test that hangs fails by its name, with the stack of where it hung, and the tests after it run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from benchlab.testing.profiles import FULL, PROFILE, QUICK
from benchlab.up.bootstrap import ROOT
from tests import limits, people

CONFTEST = """
from tests import limits
def pytest_configure(config):
    limits.register(config)
"""
HANGS = """
import threading, time
import pytest
pytestmark = pytest.mark.timeout(0.5)

@pytest.fixture
def hangs_at_the_end():
    yield
    wait_for_the_end()

def wait_for_the_end(): threading.Event().wait()
def wait_for_a_reply(): time.sleep(600)
def swallow_everything():
    while True:
        try: time.sleep(600)
        except BaseException: pass

def test_before(): pass
def test_hangs(hangs_at_the_end): wait_for_a_reply()
def test_between(): pass
"""
DEAF = "def test_deaf(): swallow_everything()\n"
AFTER = "def test_after(): pass\n"


def run(place: Path, tests: str, *words: str) -> str:
    """What pytest prints of these tests; it ends by itself."""
    (place / "pytest.toml").write_text("[pytest]\n")
    (place / "conftest.py").write_text(CONFTEST)
    (place / "test_it.py").write_text(tests)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "pytest_timeout", *words]
    done = subprocess.run(argv, env=env, cwd=place, capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


def test_one_that_hangs_fails_and_the_others_run(tmp_path):
    said = run(tmp_path, HANGS)
    assert "FAILED test_it.py::test_hangs - Failed: Timeout (>0.5s)" in said
    assert "def wait_for_a_reply(): time.sleep(600)" in said
    # Its tear-down hangs in turn.
    assert "ERROR test_it.py::test_hangs - Failed: Timeout (>0.5s)" in said
    assert "def wait_for_the_end(): threading.Event().wait()" in said
    assert "1 failed, 2 passed, 1 error" in said


def test_one_that_no_exception_ends_costs_its_process_and_the_others_run(tmp_path):
    words = ("-p", "xdist", "-n", "1", "--dist", "worksteal")
    said = run(tmp_path, HANGS + DEAF + AFTER, *words)
    assert "in swallow_everything" in said
    assert "crashed while running 'test_it.py::test_deaf'" in said
    assert "2 failed, 3 passed, 1 error" in said


@pytest.mark.parametrize(
    ("profile", "marks", "needs", "seconds"),
    [
        (QUICK, (), (), limits.PLAIN_S),
        (QUICK, ("browser",), (), limits.PLAIN_S),
        (QUICK, ("browser",), ("rig_host", "uml_image"), limits.HOST_S),
        (QUICK, ("rig",), (), limits.HOST_S),
        (QUICK, ("night",), (), limits.NIGHT_S),
        (FULL, (), (), limits.NIGHT_S),
    ],
)
def test_what_boots_hosts_or_runs_by_night_may_take_longer(
    monkeypatch, profile, marks, needs, seconds
):
    monkeypatch.setenv(PROFILE, profile)

    class Item:
        fixturenames = needs

        def get_closest_marker(self, name: str) -> bool:
            return name in marks

    item: Any = Item()
    assert limits.limit_s(item) == seconds


def test_every_test_here_has_a_limit(request):
    assert request.node.get_closest_marker("timeout").args[0] >= limits.PLAIN_S


def test_a_statement_that_waits_takes_no_connection_from_the_tests_after_it(
    transactional_db,
):
    def out_of_time(*_: object) -> None:
        pytest.fail("Timeout (>0.2s) from pytest-timeout.")

    before = signal.signal(signal.SIGUSR1, out_of_time)
    try:
        with pytest.raises(pytest.fail.Exception) as raised, connection.cursor() as cursor:
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
            cursor.execute("SELECT pg_sleep(600)")
    finally:
        signal.signal(signal.SIGUSR1, before)
    people.pytest_exception_interact(pytest.CallInfo(None, raised, 0, 0, 0, "call", _ispytest=True))
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
