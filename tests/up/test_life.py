"""`manage.py up` as a person meets it: start, a second start, a crash, `down`. Takes some ten seconds."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchlab.up.bootstrap import ROOT
from benchlab.up.leftovers import recorded
from benchlab.up.ports import free_port
from benchlab.up.procs import Identity, identity_from_json
from benchlab.up.state import State
from tests.up.walked import Walk

# Ours to start here, not the test run's own.
NOT_PASSED_ON = ("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "BENCHLAB_KEY", "ALLOWED_HOSTS")


class Lab:
    """One state directory, and `manage.py` on it."""

    def __init__(self, place: Path) -> None:
        self.state, self.port = State(place), free_port()
        kept = {key: value for key, value in os.environ.items() if key not in NOT_PASSED_ON}
        self.env = {**kept, "BENCHLAB_STATE": str(place), "BENCHLAB_NO_BOOTSTRAP": "1"}

    def manage(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "manage.py", *words],
            cwd=ROOT,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def up(self) -> tuple[subprocess.Popen[str], str]:
        """Started and answering; returns it with what it said so far."""
        process = self.manage("up", "--no-campaign", "--port", str(self.port))
        said = ""
        assert process.stdout
        while "manage.py down" not in said:
            line = process.stdout.readline()
            assert line, f"it ended: {said}"
            said += line
        return process, said

    def say(self, *words: str) -> tuple[int, str]:
        process = self.manage(*words)
        said, _ = process.communicate(timeout=60)
        return process.returncode, said

    def children(self) -> list[Identity]:
        supervisor = identity_from_json(json.loads(self.state.running.read_text()))
        assert supervisor
        return [supervisor, *recorded(self.state)]


@pytest.fixture
def lab() -> Iterator[Lab]:
    with tempfile.TemporaryDirectory(prefix="benchlab-life-", ignore_cleanup_errors=True) as place:
        found = Lab(Path(place))
        yield found
        found.say("down")


def wait_until_gone(found: list[Identity]) -> None:
    deadline = time.monotonic() + 15
    while any(identity.alive for identity in found) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [identity.name for identity in found if identity.alive] == []


def static_files_are_kept_by_browsers(url: str) -> None:
    """They are named by their content and come compressed, and so do pages."""
    asked = urllib.request.Request(f"{url}login/", headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(asked) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        page = gzip.decompress(answer.read()).decode()
    named = re.search(r'href="/(static/benchlab\.[0-9a-f]{12}\.css)"', page)
    assert named, page
    asked = urllib.request.Request(url + named[1], headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(asked) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert "immutable" in answer.headers["Cache-Control"]


def wait_for_the_library(walk: Walk) -> None:
    """A first start answers while its worker still stores the articles; the walk follows two of a kind."""
    deadline = time.monotonic() + 60
    while len(walk.campaigns("/library/")) < 2:
        assert time.monotonic() < deadline, "the library stays empty"
        time.sleep(0.2)


def every_link_leads_somewhere(url: str, said: str) -> None:
    """The documents once did not, and no test saw it."""
    walk = Walk(url)
    [password] = re.findall(r"admin  with password  (\S+)", said)
    walk.log_in("admin", password)
    wait_for_the_library(walk)
    seen, wrong = walk.everywhere()
    assert wrong == []
    pictures = {one for one in seen if one.startswith("/docs/pictures/")}
    # How many links there are depends on how far the first campaign is.
    assert {"/", "/campaigns/", "/hosts/", "/docs/method/"} <= set(seen) and pictures


@pytest.mark.slow
@pytest.mark.one_in(1)
def test_from_the_first_start_to_down(lab):
    process, said = lab.up()
    assert "Log in as  admin  with password" in said
    url = f"http://127.0.0.1:{lab.port}/"
    assert urllib.request.urlopen(f"{url}healthz").read() == b"ok\n"
    static_files_are_kept_by_browsers(url)
    every_link_leads_somewhere(url, said)
    assert lab.say("up") == (0, f"BenchLab is already running: {url} (process {process.pid})\n")

    before = lab.children()
    os.kill(process.pid, signal.SIGKILL)  # a crash of the supervisor leaves nothing behind for long
    process.communicate()
    wait_until_gone(before)

    process, said = lab.up()
    assert "password" not in said
    before = lab.children()
    code, said = lab.say("down")
    assert (code, said.split(".")[0]) == (0, "BenchLab is stopped")
    wait_until_gone(before)
    assert process.wait(10) == 0
    process.communicate()
    assert lab.say("down") == (0, "BenchLab is not running.\n")


def test_ctrl_c_at_any_moment_leaves_no_process(lab):
    for moment in (0.3, 0.8, 1.5):
        process = lab.manage("up", "--no-campaign", "--port", str(lab.port))
        time.sleep(moment)
        found = lab.children() if lab.state.running.exists() else []
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        wait_until_gone(found)
        assert not lab.state.running.exists()
