"""kill -9 of a real Celery worker in the middle of a run: the run completes with its result, once, and its host does
not wait until what the worker had in hand is due again.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from contextlib import ExitStack
from datetime import timedelta
from statistics import median

import pytest
from django.utils import timezone

from benchlab.campaigns.models import Run
from benchlab.runs.models import Attempt, Layout, Transition
from tests.chaos.conftest import WRITES
from tests.runs import drive
from tests.stack import Process, redis_url, wait_for, worker

pytestmark = [pytest.mark.slow, pytest.mark.one_in(1), pytest.mark.django_db(transaction=True)]

RUN_S = 6
KILLS = 5


def kill(one: Process) -> float:
    """When that was, by time.monotonic()."""
    os.killpg(one.pid, signal.SIGKILL)
    one.wait()
    return time.monotonic()


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed here")
def test_the_run_completes_once(campaign, tmp_path):
    redis, log = redis_url(15), tmp_path / "worker.log"
    with worker(tmp_path, redis) as first:
        drive.plan_and_start(campaign)
        wait_for(lambda: Attempt.objects.filter(phase="running").exists(), log, 60)
        time.sleep(1.0)  # in the middle of it
        kill(first)
    assert Attempt.objects.get().phase == "running"
    # As if it was put off for long
    Layout.objects.update(next_step_at=timezone.now() + timedelta(hours=1))
    with worker(tmp_path, redis):
        wait_for(lambda: Layout.objects.filter(phase="done").exists(), log, 120)
    attempt = Attempt.objects.get()
    assert attempt.outcome == "succeeded", attempt.reason_text
    assert attempt.measurements.get(name="write.iops").value
    moves = Transition.objects.filter(attempt=attempt).values_list("new", flat=True)
    assert list(moves) == ["starting", "running", "collecting", "done"]
    assert attempt.meta["ended_mono"] - attempt.meta["started_mono"] == pytest.approx(6, abs=3)


@pytest.mark.night
@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed here")
@pytest.mark.parametrize("others", [0, 1])
def test_what_a_kill_costs_the_host(campaign, tmp_path, others):
    """Seconds until its job is polled again: by the worker that is started in the place of the killed one, or by one
    that lives. The limit is generous; docs/operating.md has what was measured.
    """
    Run.objects.update(options=WRITES | {"runtime_s": 900})
    redis, log = redis_url(15), tmp_path / "worker.log"
    took = []
    with ExitStack() as all_of_them:
        workers = [all_of_them.enter_context(worker(tmp_path, redis)) for _ in range(1 + others)]
        drive.plan_and_start(campaign)
        wait_for(lambda: Attempt.objects.filter(phase="running").exists(), log, 60)
        for number in range(KILLS):
            time.sleep(15.0 + 0.7 * number)  # all have started, and polls are under way
            killed = kill(workers.pop(0))
            at = timezone.now()
            if not others:
                time.sleep(1.0)  # as `up` does
                workers.append(all_of_them.enter_context(worker(tmp_path, redis)))
            wait_for(Layout.objects.filter(seen_at__gt=at).exists, log, 60)
            took.append(time.monotonic() - killed)
            if others:
                workers.append(all_of_them.enter_context(worker(tmp_path, redis)))
    print(f"{others} others:", *(f"{one:.1f} s" for one in took), f"load {os.getloadavg()[0]:.1f}")
    assert median(took) < 30
