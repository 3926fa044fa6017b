"""The workload as the engine runs it: a detached job under runner.sh, a simulated dynamo beside it."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.contracts import Job, Target
from agents.jobs import job
from agents.jobs.job import Did, State
from agents.jobs.spool import Spool
from agents.tools import dynamo
from tests.agents import dynamo_sim
from tests.agents.dynamo_beside.beside import leftovers
from tests.agents.local_shell import LocalShell


@pytest.fixture
def base() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bl") as made:
        path = Path(made)
        (path / "mnt").mkdir()
        binary = path / "dynamo"
        binary.write_text(f'#!/bin/sh\nexec {sys.executable} {dynamo_sim.__file__} "$@"\n')
        binary.chmod(0o755)
        yield path


def options(base: Path, **changes: Any) -> dynamo.Options:
    plain: dict[str, Any] = {"size": 1 << 20, "ramp_s": 0, "runtime_s": 1, "outstanding_ios": 4}
    return dynamo.Options(binary=str(base / "dynamo"), **{**plain, **changes})


def harmless(work: Job) -> Job:
    """Leaves the machine's page cache alone."""
    return replace(work, drop_caches=False, root=os.geteuid() == 0)


def test_it_runs_detached_and_its_messages_are_fetched_and_read(base: Path) -> None:
    shell, spool = LocalShell(), Spool("attempt-1", root=os.geteuid() == 0, base=str(base))
    given = options(base)
    work = harmless(dynamo.build_job(given, Target("bl1", mount=str(base / "mnt"))))
    precheck = dynamo.build_precheck(given, Target("bl1", mount=str(base / "mnt")))
    assert precheck is not None
    ran = job.run_short(shell, precheck)
    assert ran.exit_code == 0, ran.stderr
    assert json.loads(ran.stdout)["binary"] == given.binary
    job.start_job(shell, spool, work)
    polled = job.poll(shell, spool, 30, outputs=work.outputs)
    assert (polled.state, polled.exit_code) == (State.EXITED, 0)
    assert polled.fetched is not None
    assert set(work.outputs) <= set(polled.fetched.files)
    found = {m.name: m.value for m in dynamo.parse(polled.fetched.files, given) if not m.labels}
    assert found["iops"] == pytest.approx(1000, rel=0.05)
    (rate,) = (s for s in dynamo.parse_series(polled.fetched.files, given) if s.metric == "iops")
    assert 1 <= len(rate.values) <= 4  # what is late or takes long is left out
    assert list((base / "mnt").iterdir()) == [base / "mnt" / "iometer1"]


def test_a_stopped_job_leaves_nobody(base: Path) -> None:
    shell, spool = LocalShell(), Spool("attempt-1", root=os.geteuid() == 0, base=str(base))
    work = harmless(
        dynamo.build_job(options(base, runtime_s=60), Target("bl1", mount=str(base / "mnt")))
    )
    job.start_job(shell, spool, work)
    here = next(base.glob("benchlab-*/attempt-1/work"))
    for _ in range(400):
        if (here / "live.jsonl").exists() and '"record"' in (here / "live.jsonl").read_text():
            break
        time.sleep(0.05)
    stopped = job.stop_job(shell, spool)
    assert (stopped.did, stopped.state) == (Did.TERMINATED, State.KILLED)
    names = [line.split()[0] for line in (here / "sim.log").read_text().splitlines()]
    assert names[-3:] == ["RECORD_OFF", "STOP", "EXIT"]
    assert not leftovers(here)
    said = job.fetch(shell, spool, work.outputs)
    assert json.loads(said.files["result.json"]) == {
        "error": "stopped on request",
        "kind": "cancelled",
    }
