"""The engine and a host that lies: about how long its job runs, how it ended, and what it found."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from agents.contracts import Reason
from agents.jobs import job
from benchlab.engine import access, jobs, load_state
from benchlab.engine.checks import planning
from benchlab.engine.decide import built
from benchlab.engine.decisions import Decision, Poll
from benchlab.engine.phases import end_attempts
from benchlab.hosts import ssh_access
from benchlab.runs import artifacts, conclusion
from benchlab.runs.models import Attempt
from benchlab.runs.states import AttemptPhase, LayoutPhase, Outcome
from benchlab.runs.verdict import Verdict
from tests.runs.conftest import campaign, host, make_layout  # noqa: F401
from tests.security.hostile import ALL, TERMINAL


@pytest.fixture
def attempt(make_layout) -> Attempt:  # noqa: F811
    layout = make_layout(phase=LayoutPhase.READY)
    found = layout.attempts.get()
    Attempt.objects.filter(pk=found.pk).update(
        phase=AttemptPhase.RUNNING, timeout_s=60, started_at=timezone.now()
    )
    found.refresh_from_db()
    return found


@pytest.fixture
def lying(monkeypatch, attempt):
    """A host on which the job runs, whatever it is asked."""
    asked: list[str] = []
    monkeypatch.setattr(end_attempts, "attempt_job", lambda layout, attempt: job.Job(("x",)))
    monkeypatch.setattr(jobs, "build_job", lambda attempt, layout: job.Job(("x",)))
    monkeypatch.setattr(jobs, "job_spool", lambda attempt, work: job.Spool("attempt-1"))
    monkeypatch.setattr(planning, "facts_at_ready", lambda layout: None)
    monkeypatch.setattr(ssh_access, "connect_to_host", lambda row: None)

    def stop(*given):
        asked.append("stop")
        return job.Stopped(job.Did.NOTHING, job.State.ABSENT)

    monkeypatch.setattr(job, "stop_job", stop)
    return asked


def told(attempt: Attempt, seconds: float, polled: job.Polled) -> Decision:
    """Decision, carried out unless it is to ask again, when the host tells this so long after the start."""
    Attempt.objects.filter(pk=attempt.pk).update(
        started_at=timezone.now() - timedelta(seconds=seconds)
    )
    rows = load_state.load_rows(attempt.layout_id)
    rows.polled = polled
    found = built.decide_ready(replace(load_state.load_state(rows), polled=polled.state))
    if not isinstance(found, Poll):
        access.ACTIONS[type(found)](rows, found)
    attempt.refresh_from_db()
    return found


STILL = job.Polled(job.State.RUNNING, None, b"", 0, False)
OVER = job.Polled(job.State.EXITED, 0, b"", 0, False, None)


def test_a_job_that_is_said_to_run_for_ever_is_ended(attempt, lying, settings):
    told(attempt, 61 + settings.BENCHLAB_LOST_AFTER_S, STILL)
    assert (attempt.outcome, attempt.reason) == (Outcome.FAILED, Reason.JOB_TIMEOUT)
    assert lying == ["stop"]


def test_one_within_its_time_is_waited_for(attempt, lying, settings):
    assert told(attempt, 50 + settings.BENCHLAB_LOST_AFTER_S, STILL) == Poll()
    assert attempt.outcome == "" and lying == []


def test_one_that_ended_while_nobody_looked_keeps_its_result(attempt, lying):
    """A server that was off for a week loses nothing."""
    told(attempt, 7 * 86400, OVER)
    assert attempt.phase == AttemptPhase.COLLECTING and lying == []


def test_what_the_runner_noted_is_kept_whatever_it_is(attempt):
    notes = "".join(f"{name}={ALL}\0\n" for name in ("boot", "dropped")).replace("\n\n", "\n")
    meta = job._meta(job._parse_pairs(f"state=exited\nexit=0\n{notes}"), 0)
    files = {"stdout": (ALL + "\0").encode(), "stderr": b"\xff\xfe" + TERMINAL.encode()}
    artifacts.store_fetched(attempt, job.Fetched(files, b"\0" * 100, b"", meta))
    attempt.refresh_from_db()
    assert attempt.artifacts.get(name="stdout").content == files["stdout"]


def test_output_that_makes_no_sense_is_a_run_that_failed(attempt):
    meta = job._meta({"state": "exited", "exit": "0"}, 0)
    raw = b'{"jobs": [' + b"[" * 2000 + ALL.encode() + b"\0"
    artifacts.store_fetched(
        attempt, job.Fetched({"stdout": raw, "stderr": raw, "fio.json": raw}, raw, b"", meta)
    )
    attempt.refresh_from_db()
    verdict, figures = conclusion.conclude_attempt(attempt, Verdict(Outcome.SUCCEEDED))
    assert verdict.outcome == Outcome.FAILED and verdict.reason == Reason.PARSE_FAILED
    assert "\x1b" not in verdict.text and "\0" not in verdict.text
    assert not figures.metrics
