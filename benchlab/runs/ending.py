"""The end of attempts: stopped, skipped, cancelled, or over by themselves."""

from __future__ import annotations

from agents import job
from agents.contracts import AgentError, Job, Reason, Shell
from benchlab.hosts import services as hosts
from benchlab.runs import (
    byhand,
    collect,
    jobs,
    moves,
)
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.states import AttemptPhase, Outcome
from benchlab.runs.verdict import Verdict


def is_far(layout: Layout, attempt: Attempt) -> bool:
    """Whether its console is played from here."""
    assert layout.facts_ready, "a layout that is ready was looked at"
    return byhand.needed(attempt, hosts.facts_of(layout.facts_ready))


def work_of(layout: Layout, attempt: Attempt) -> Job:
    assert layout.facts_ready, "a layout that is ready was looked at"
    return byhand.fit(attempt, hosts.facts_of(layout.facts_ready), jobs.of(attempt, layout))


def cancel(layout: Layout, current: Attempt | None) -> None:
    """Stop only what we started, keep its output, and leave the way down."""
    if current is not None:
        shell = hosts.connect(layout.host)
        stop(layout, current, shell)
    verdict = Verdict(Outcome.CANCELLED, Reason.CANCELLED, "cancelled")
    end_open(layout, verdict)
    moves.begin_teardown(layout, verdict.outcome, verdict.reason, verdict.text)


def stop(layout: Layout, attempt: Attempt, shell: Shell) -> None:
    """Stop an attempt's process group and keep what it wrote. Does nothing when there is nothing."""
    try:
        work = work_of(layout, attempt) if layout.facts_ready else jobs.of(attempt, layout)
    except AgentError:
        return  # options that make no job started none
    spool = jobs.spool(attempt, work)
    stopped = job.stop(shell, spool)
    if stopped.did == job.Did.SURVIVED:
        raise AgentError(
            f"Processes of {spool.name} survive KILL: the kernel holds them in I/O.",
            Reason.COMMAND_FAILED,
        )
    kept = attempt.artifacts.filter(name=collect.SAMPLES)
    if stopped.state != job.State.ABSENT and not kept.exists():
        collect.store(attempt, job.fetch(shell, spool, work.outputs))


def forget(layout: Layout, attempt: Attempt, shell: Shell) -> None:
    """Remove a spool directory whose output is stored."""
    job.remove(shell, jobs.spool(attempt, jobs.of(attempt, layout)))


def end(attempt: Attempt, verdict: Verdict) -> None:
    moves.attempt(
        attempt,
        AttemptPhase.DONE,
        verdict.text,
        outcome=verdict.outcome,
        reason=verdict.reason,
        reason_text=verdict.text,
    )


def skip(layout: Layout, stage: str) -> None:
    """End every attempt of a moment that is over and that has measured nothing."""
    text = "The kernel was through before this run could start."
    verdict = Verdict(Outcome.SKIPPED, Reason.TOO_LATE, text)
    phases = [AttemptPhase.QUEUED, AttemptPhase.STARTING]
    for attempt in layout.attempts.filter(phase__in=phases, run__stage=stage):
        end(attempt, verdict)


def end_open(layout: Layout, verdict: Verdict) -> None:
    """End every attempt that is not over; the artifacts of a running one were kept by `stop`."""
    for attempt in layout.attempts.exclude(phase=AttemptPhase.DONE).select_related("layout"):
        end(attempt, verdict)
