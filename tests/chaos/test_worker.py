"""kill -9 of a real Celery worker in the middle of a run: the run completes with its result, once."""

from __future__ import annotations

import os
import shutil
import signal
import time

import pytest

from benchlab.campaigns.models import Workload
from benchlab.engine.new_campaign import create_campaign
from benchlab.runs.models import Attempt, Layout, Transition
from benchlab.topologies.models import Topology
from tests.runs import drive, local_host
from tests.stack import redis_url, wait_for, worker

pytestmark = [pytest.mark.slow, pytest.mark.one_in(1), pytest.mark.django_db(transaction=True)]

# About six seconds: a pipe's worth of bytes, one synced block after the other would be too fast or too slow to plan.
WORK = {"rw": "write", "size": 1 << 20, "runtime_s": 6, "ioengine": "psync", "direct": False}


@pytest.fixture
def campaign(team, user, tmp_path):
    with local_host.served(tmp_path / "state") as (state, port):
        host = local_host.register(team, state, port)
        (tmp_path / "scratch").mkdir()
        stack = [
            {"kind": "directory", "options": {"path": str(tmp_path / "scratch")}, "devices": []}
        ]
        yield create_campaign(
            team=team, user=user, name="killed", question="", hosts=[host],
            topologies=[Topology.objects.create(team=team, name="scratch", stack=stack)],
            workloads=[Workload.objects.create(team=team, name="fio", tool="fio", options=WORK)],
            repeats=1, order="as_written", seed=1,
        )  # fmt: skip


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed here")
def test_the_run_completes_once(campaign, tmp_path):
    redis, log = redis_url(15), tmp_path / "worker.log"
    with worker(tmp_path, redis) as first:
        drive.plan_and_start(campaign)
        wait_for(lambda: Attempt.objects.filter(phase="running").exists(), log, 60)
        time.sleep(1.0)  # in the middle of it
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    assert Attempt.objects.get().phase == "running"
    with worker(tmp_path, redis):
        wait_for(lambda: Layout.objects.filter(phase="done").exists(), log, 120)
    attempt = Attempt.objects.get()
    assert attempt.outcome == "succeeded", attempt.reason_text
    assert attempt.measurements.get(name="write.iops").value
    moves = Transition.objects.filter(attempt=attempt).values_list("new", flat=True)
    assert list(moves) == ["starting", "running", "collecting", "done"]
    assert attempt.meta["ended_mono"] - attempt.meta["started_mono"] == pytest.approx(6, abs=3)
