"""`up` with its first campaign as a normal user with passwordless sudo: it runs as that user, and `down` ends all."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchlab.up.ports import free_port
from benchlab.up.state import State
from tests.up import another_user
from tests.up.test_life import NOT_PASSED_ON

pytestmark = pytest.mark.skipif(bool(another_user.lacking()), reason=another_user.lacking())

SUDO = "sudo -n id -u"
CANCEL = (
    "from benchlab.engine import wishes; from benchlab.campaigns.models import Campaign;"
    "wishes.cancel(Campaign.objects.get(name__startswith='First'))"
)
OUTCOMES = (
    "from benchlab.runs.models import Attempt;"
    "print(*Attempt.objects.exclude(outcome__in=['', 'succeeded']).values_list('outcome', 'reason'))"
)


class Lab:
    """Eve's state directory, and her `manage.py`."""

    def __init__(self, home: Path) -> None:
        self.eve = another_user.Eve(home)
        self.state = State(home / "state")
        self.port = free_port()
        kept = {key: value for key, value in os.environ.items() if key not in NOT_PASSED_ON}
        self.env = {**kept, "BENCHLAB_STATE": str(self.state.path), "BENCHLAB_NO_BOOTSTRAP": "1"}

    def manage(self, *words: str) -> subprocess.Popen[str]:
        return self.eve.start([sys.executable, "manage.py", *words], self.env)

    def up(self) -> subprocess.Popen[str]:
        """Started, its first run on the way."""
        process = self.manage("up", "--port", str(self.port))
        assert process.stdout
        said = ""
        while "manage.py down" not in said:
            line = process.stdout.readline()
            assert line, f"it ended: {said}"
            said += line
        self.eve.enter(process)
        return process

    def say(self, *words: str) -> str:
        process = self.manage(*words)
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 0, said
        return said

    def django(self, *words: str) -> str:
        """A Django command beside the `up` that runs: as `down` is, with the address of our stores."""
        env = {key: value for key, value in self.env.items() if key != "BENCHLAB_NO_BOOTSTRAP"}
        process = self.eve.start([sys.executable, "manage.py", *words], env)
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 0, said
        return said

    def layouts(self) -> list[Path]:
        """Directories that layouts made in the scratch directory."""
        return sorted((self.state.path / "scratch").glob("*"))

    def tools(self) -> list[tuple[int, str]]:
        """Runs of the campaign that go on now: a job's leader and what it started."""
        return [found for found in self.eve.processes() if "runner.sh lead" in found[1]]


@pytest.fixture
def lab() -> Iterator[Lab]:
    home = Path(tempfile.mkdtemp(prefix="benchlab-eve-"))
    found = Lab(home)
    yield found
    for pid, _ in found.eve.processes():
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(home, ignore_errors=True)
    shutil.rmtree(f"/var/tmp/benchlab-{another_user.UID}", ignore_errors=True)


def wait_for(true: Callable[[], object], seconds: float, says: Callable[[], object]) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, says()
        time.sleep(0.05)


def test_she_may_use_sudo_and_is_known_nowhere_else(lab):
    process = lab.eve.start(["sh", "-c", f"id -un; {SUDO}"], lab.env)
    assert process.communicate()[0].split() == [another_user.NAME, "0"]
    assert another_user.NAME not in Path("/etc/passwd").read_text()


@pytest.mark.night
def test_down_in_the_middle_of_the_first_campaign_leaves_nothing(lab):
    process = lab.up()
    wait_for(lab.tools, 90, lambda: list(lab.eve.processes()))
    assert {Path(f"/proc/{pid}").stat().st_uid for pid, _ in lab.tools()} == {another_user.UID}
    lab.say("down")
    assert process.wait(10) == 0
    process.communicate()
    assert list(lab.eve.processes()) == []

    process = lab.up()  # the campaign is still there: it goes on, until it is cancelled
    wait_for(lab.tools, 90, lambda: list(lab.eve.processes()))
    files = [file for layout in lab.layouts() for file in (layout, *layout.rglob("*"))]
    assert {file.stat().st_uid for file in files} == {another_user.UID}
    # Of the run that `down` ended: its tool did not fail
    told = lab.django("shell", "-c", OUTCOMES)
    assert "('interrupted', 'job_vanished')" in told and "failed" not in told, told
    lab.django("shell", "-c", CANCEL)
    wait_for(lambda: not lab.layouts(), 60, lab.layouts)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert list(lab.eve.processes()) == []
