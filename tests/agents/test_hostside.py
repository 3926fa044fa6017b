"""All that goes wrong on a host: stops, lost leaders, reboots, reused numbers, hostile directories."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from agents.contracts import AgentError
from agents.jobs import job
from agents.jobs.job import Did, State
from tests.agents.conftest import sh, work
from tests.agents.spools import (
    eventually,
    in_group,
    lives,
    notes,
    rewrite,
    running,
    works_in,
)

ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not ROOT, reason="needs root")


def test_stop_ends_the_group_and_nothing_else(shell, here, base):
    other = job.Spool("attempt-2", root=ROOT, base=str(base))
    stranger = running(shell, other, work("sleep", "60"))
    pids = running(shell, here, sh("sleep 61 & sleep 62 & wait"))
    eventually(lambda: len(in_group(pids["tool"])) == 3)
    eventually(lambda: len(in_group(pids["tool"])) == 3)
    assert job.stop_job(shell, here) == job.Stopped(Did.TERMINATED, State.KILLED)
    assert in_group(pids["tool"]) == [] and not lives(pids["leader"])
    assert lives(stranger["tool"])
    assert job.stop_job(shell, here) == job.Stopped(Did.NOTHING, State.KILLED)
    assert job.poll(shell, here).exit_code == 143
    assert job.fetch(shell, here).meta.state is State.KILLED
    job.stop_job(shell, other)


def test_stop_kills_what_does_not_listen(shell, here):
    running(shell, here, sh("trap '' TERM; : >deaf; while :; do sleep 0.1; done"))
    eventually(Path(here.base, f"benchlab-{os.geteuid()}", here.name, "work", "deaf").exists)
    assert job.stop_job(shell, here) == job.Stopped(Did.KILLED, State.KILLED)
    assert job.poll(shell, here).exit_code == 137


def test_stop_of_what_never_started(shell, here):
    assert job.stop_job(shell, here) == job.Stopped(Did.NOTHING, State.ABSENT)


def test_stop_right_after_start(shell, here):
    job.start_job(shell, here, work("sleep", "60"))
    assert job.stop_job(shell, here).state is State.KILLED
    eventually(lambda: not [p for p in Path("/proc").glob("[0-9]*") if works_in(p, here)])


def test_a_killed_leader_is_vanished_and_its_tool_is_stopped(shell, here):
    pids = running(shell, here, sh("sleep 61 & sleep 62 & wait"))
    eventually(lambda: len(in_group(pids["tool"])) == 3)
    os.kill(pids["leader"], signal.SIGKILL)
    eventually(lambda: job.poll(shell, here).state is State.VANISHED)
    assert len(in_group(pids["tool"])) == 3
    assert job.stop_job(shell, here).did is Did.TERMINATED
    assert in_group(pids["tool"]) == []
    assert job.fetch(shell, here).meta.exit_code is None


def test_orphans_of_a_killed_tool_are_stopped(shell, here):
    pids = running(shell, here, sh("sleep 61 & sleep 62 & wait"))
    eventually(lambda: len(in_group(pids["tool"])) == 3)
    os.kill(pids["leader"], signal.SIGKILL)
    os.kill(pids["tool"], signal.SIGKILL)
    # The leader's death takes its time, too
    eventually(lambda: job.poll(shell, here).state is State.VANISHED)
    eventually(lambda: not lives(pids["tool"]))
    with pytest.raises(AgentError, match="stop it before"):
        job.remove_spool(shell, here)
    assert job.stop_job(shell, here).did is Did.TERMINATED
    assert in_group(pids["tool"]) == []
    job.remove_spool(shell, here)


def test_what_a_tool_leaves_behind_ends_with_it(shell, here):
    pids = running(shell, here, sh("sleep 61 & sleep 0.5"))
    assert job.poll(shell, here, 10).state is State.EXITED
    eventually(lambda: in_group(pids["tool"]) == [])


def test_a_reboot_is_seen(shell, here):
    pids = running(shell, here, work("sleep", "60"))
    boot = notes(here)["boot"]
    rewrite(here, "begun", boot, "00000000-0000-0000-0000-000000000000")
    assert job.poll(shell, here, 5).state is State.REBOOTED
    assert job.stop_job(shell, here) == job.Stopped(Did.NOTHING, State.REBOOTED)
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
    assert job.stop_job(shell, here).did is Did.NOTHING
    assert lives(pids["tool"])
    os.kill(pids["tool"], signal.SIGTERM)


def test_helpers_go_with_a_vanished_leader(shell, here):
    pids = running(shell, here, work("sleep", "60"))
    helpers = [int(word) for word in notes(here)["helpers"].split()[::2]]
    assert all(lives(pid) for pid in helpers)
    os.kill(pids["leader"], signal.SIGKILL)
    eventually(lambda: not lives(pids["leader"]))
    job.stop_job(shell, here)
    eventually(lambda: not any(lives(pid) for pid in helpers), 3)


def test_a_sampler_that_somebody_stopped_does_not_hold_the_end(shell, here):
    job.start_job(shell, here, sh("sleep 1"), ("/proc/stat",))
    eventually(lambda: job.poll(shell, here).state is State.RUNNING)
    for pid in notes(here)["helpers"].split()[::2]:
        os.kill(int(pid), signal.SIGSTOP)
    assert job.poll(shell, here, 5).state is job.State.EXITED


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="this system has no /proc/PID/stat"
)
def test_a_tool_that_somebody_stopped_and_continued_is_told(shell, here):
    job.start_job(shell, here, sh("sleep 2"), ("/proc/stat",), interval_s=0.1)
    eventually(lambda: job.poll(shell, here).state is State.RUNNING)
    tool = int(notes(here)["tool"].split()[0])
    os.kill(tool, signal.SIGSTOP)
    time.sleep(0.5)
    os.kill(tool, signal.SIGCONT)
    assert job.poll(shell, here, 5).state is job.State.EXITED
    assert job.fetch(shell, here).meta.halted > 0
