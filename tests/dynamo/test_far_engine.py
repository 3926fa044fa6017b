"""Campaigns whose console is played by a worker, through a real sshd: to the figures, and with the worker killed."""

from __future__ import annotations

import hashlib
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchlab.campaigns.models import Campaign, Workload
from benchlab.dynamo import dynamo_player, run_part
from benchlab.dynamo.models import Binary, ConsoleLines
from benchlab.engine import tasks as engine
from benchlab.engine.new_runs import create_campaign
from benchlab.hosts import registration
from benchlab.hosts.models import Host
from benchlab.runs.models import Attempt
from benchlab.topologies.models import Topology
from tests.agents import dynamo_sim
from tests.agents.sshd import sshd
from tests.dynamo.database import environment
from tests.programs import roots_directory
from tests.runs import drive

pytestmark = pytest.mark.django_db(transaction=True)
# A worker, as far as layouts are concerned, on a host whose Python is not to be seen.
WORKER = """
import sys, time, django
django.setup()
from benchlab.engine import tasks as engine
from benchlab.dynamo import dynamo_player
dynamo_player.has_python = lambda tools: False
while True:
    engine.step_until_waiting(int(sys.argv[1]))
    time.sleep(0.2)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with roots_directory() as made:
        made.chmod(0o755)
        yield made


@pytest.fixture
def here(team, folder) -> Iterator[Host]:
    (folder / "sshd").mkdir()
    with sshd(folder / "sshd") as address:
        key = registration.upload_credential(team, "key", address.private_key.value)
        made = registration.add_host(
            team, "here", "127.0.0.1", key, port=address.port, user=address.user
        )
        yield registration.change_host(made, host_key=address.host_key)


def campaign_on(host: Host, folder: Path, user: Any, **options: Any) -> Campaign:
    program = folder / "dynamo"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {dynamo_sim.__file__} "$@"\n')
    program.chmod(0o755)
    stack = [{"kind": "directory", "options": {"path": str(folder / "s")}, "devices": []}]
    topology = Topology.objects.create(team=host.team, name="scratch", stack=stack)
    chosen = {"binary": str(program), "size": 1 << 20, "runtime_s": 1, "ramp_s": 0, **options}
    load = Workload.objects.create(team=host.team, name="8k", tool="dynamo", options=chosen)
    return create_campaign(
        team=host.team, user=user, name="far", question="", hosts=[host], topologies=[topology],
        workloads=[load], repeats=1, order="as_written",
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.one_in(1)
def test_a_worker_plays_and_the_figures_are_there(here, folder, user, monkeypatch):
    monkeypatch.setattr(dynamo_player, "has_python", lambda tools: False)
    campaign = campaign_on(here, folder, user, runtime_s=2)
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign, 120)
    attempt = Attempt.objects.get()
    assert attempt.outcome == "succeeded", attempt.reason_text
    assert campaign.layouts.get().outcome == "succeeded"
    assert attempt.measurements.get(name="iops").value == pytest.approx(1000, rel=0.1)
    assert {"messages.bin", "samples", "stdout", "stderr"} <= set(
        attempt.artifacts.values_list("name", flat=True)
    )
    assert attempt.meta["console"] == "in BenchLab, through SSH tunnels"
    assert "SHA-256" in attempt.tool_version
    assert not ConsoleLines.objects.exists()
    assert not list((folder / "s").iterdir())


@pytest.mark.slow
@pytest.mark.one_in(1)
def test_beside_dynamo_where_python_is_there(here, folder, user):
    campaign = campaign_on(here, folder, user)
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign, 120)
    attempt = Attempt.objects.get()
    assert attempt.outcome == "succeeded", attempt.reason_text
    assert attempt.meta["console"] == "beside dynamo, on the host"
    assert attempt.artifacts.filter(name="live.jsonl").exists()
    assert b"now.json" in bytes(attempt.artifacts.get(name="samples").content)
    assert "Dynamo version 1.1.0" in attempt.tool_version


@pytest.mark.slow
def test_each_update_reaches_the_page_before_the_next(here, folder, user):
    campaign = campaign_on(here, folder, user, runtime_s=18)
    drive.plan_and_start(campaign)
    shown_at: dict[float, float] = {}
    steps: list[float] = []

    def look() -> bool:
        attempt = Attempt.objects.get()
        for row in run_part.live_figures(attempt).get("recent", ()):
            shown_at.setdefault(row["t"], time.monotonic())
        return attempt.phase in ("collecting", "done")

    layout = campaign.layouts.get()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine, "BUDGET_S", 0.0)  # look after each poll, as a page does meanwhile
        while not look():
            began = time.monotonic()
            engine.step_until_waiting(layout.pk)
            steps.append(time.monotonic() - began)
    drive.to_the_end(campaign, 60)
    said = [json.loads(line) for line in
            bytes(Attempt.objects.get().artifacts.get(name="live.jsonl").content).splitlines()]  # fmt: skip
    told = [line["t"] for line in said if "iops" in line]
    assert 3 <= len(told) <= 6
    seen = sorted(shown_at)
    # None is passed over; the last may come with the end of the job
    assert seen[: len(told) - 1] == told[:-1]
    # Most of them: a busy machine may be late with one.
    gaps = [shown_at[b] - shown_at[a] for a, b in itertools.pairwise(seen)]
    assert statistics.median(gaps) < 4.5, gaps
    assert max(steps[1:]) < 9.0  # no step is as long as the benchmark, half of it at most


@pytest.mark.slow
def test_a_killed_worker_costs_the_attempt_and_nothing_is_half_stored(here, folder, user, monkeypatch):  # fmt: skip
    monkeypatch.setattr(dynamo_player, "has_python", lambda tools: False)
    campaign = campaign_on(here, folder, user, runtime_s=5)
    drive.plan_and_start(campaign)
    layout = campaign.layouts.get()
    argv = [sys.executable, "-c", WORKER, str(layout.pk)]
    with subprocess.Popen(argv, env=environment()) as worker:
        deadline = time.monotonic() + 60
        while not ConsoleLines.objects.filter(lines__contains="record").exists():
            assert time.monotonic() < deadline and worker.poll() is None
            time.sleep(0.2)
        worker.kill()
    drive.to_the_end(campaign, 120)
    lost, made = Attempt.objects.order_by("number")
    assert (lost.outcome, lost.reason, lost.measurements.count()) == (
        "interrupted",
        "worker_lost",
        0,
    )
    assert not lost.artifacts.filter(name="messages.bin").exists()
    assert made.outcome == "succeeded", made.reason_text
    assert campaign.layouts.get().outcome == "succeeded"
    assert not list((folder / "s").iterdir())


def program(team: Any) -> Binary:
    raw = f'#!/bin/sh\nexec {sys.executable} {dynamo_sim.__file__} "$@"\n'.encode()
    digest = hashlib.sha256(raw).hexdigest()
    return Binary.objects.create(
        team=team, name="d", version="1.1.0", sha256=digest, size=len(raw), content=raw
    )


@pytest.mark.slow
@pytest.mark.parametrize("far", [False, True])
def test_an_uploaded_program_is_sent_along(here, folder, user, team, monkeypatch, far):
    if far:
        monkeypatch.setattr(dynamo_player, "has_python", lambda tools: False)
        if not list(Path("/lib").glob("*/libaio.so.1*")):
            pytest.skip("no libaio here")
    campaign = campaign_on(here, folder, user, binary=f"sha256:{program(team).sha256}")
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign, 120)
    attempt = Attempt.objects.get()
    assert attempt.outcome == "succeeded", attempt.reason_text


def test_a_program_that_nobody_uploaded_is_told_before_it_runs(here, folder, user, other_user):
    theirs = program(other_user.teams.get())
    campaign = campaign_on(here, folder, user, binary=f"sha256:{theirs.sha256}")
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign, 60)
    attempt = Attempt.objects.get()
    assert (attempt.outcome, attempt.reason) == ("failed", "tool_missing")
    assert "was uploaded by this team" in attempt.reason_text
