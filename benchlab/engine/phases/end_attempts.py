# SPDX-License-Identifier: Apache-2.0
"""The end of attempts: stopped, skipped, cancelled, or over by themselves."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence

from django.db import InterfaceError, OperationalError, transaction

from agents.contracts import RETRYABLE, AgentError, Job, Reason, Shell
from agents.jobs import job
from benchlab.engine import jobs
from benchlab.engine.checks import condition, planning
from benchlab.engine.decisions import Stop
from benchlab.engine.jobs import StepRows
from benchlab.hosts import ssh_access
from benchlab.runs import artifacts, attempt_meta, conclusion, transitions
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.states import AttemptPhase, Outcome
from benchlab.runs.verdict import Verdict, judge_attempt

log = logging.getLogger(__name__)
# file systems write what was removed within half a minute
LAST_REMOVED = 8


def attempt_job(layout: Layout, attempt: Attempt) -> Job:
    """Job of an attempt, as far as polling and collecting are concerned."""
    return jobs.attempt_console(attempt).fit(
        jobs.build_job(attempt, layout), planning.facts_at_ready(layout)
    )


def cancel_running(rows: StepRows, decided: Stop) -> float:
    """Stop only what we started, keep its output, and begin the teardown."""
    layout, attempt = rows.layout, rows.attempt
    if attempt is not None and attempt.phase != AttemptPhase.QUEUED:
        stop_attempt(layout, attempt, ssh_access.connect_to_host(layout.host))
    end_cancelled(layout)
    return 0.0


def end_cancelled(layout: Layout) -> None:
    """End the attempts of a layout, whose processes are stopped or are not ours to stop, and begin the teardown."""
    verdict = Verdict(Outcome.CANCELLED, Reason.CANCELLED, "cancelled")
    end_open_attempts(layout, verdict)
    transitions.begin_teardown(layout, verdict.outcome, verdict.reason, verdict.text)


def stop_attempt(layout: Layout, attempt: Attempt, shell: Shell) -> None:
    """Stop an attempt's process group and keep what it wrote. Does nothing when there is nothing."""
    try:
        work = (
            attempt_job(layout, attempt)
            if layout.facts_ready_id
            else jobs.build_job(attempt, layout)
        )
    except AgentError:
        # options that make no job started none
        return
    spool = jobs.job_spool(attempt, work)
    stopped = job.stop_job(shell, spool)
    if stopped.did == job.Did.SURVIVED:
        raise AgentError(
            f"Processes of {spool.name} survive KILL: the kernel holds them in I/O.",
            Reason.COMMAND_FAILED,
        )
    # What could not be fetched when it ended must not hold the host now.
    over = attempt.phase == AttemptPhase.DONE
    samples = attempt.artifacts.filter(name=artifacts.SAMPLES)
    if stopped.state != job.State.ABSENT and not over and not samples.exists():
        try:
            artifacts.store_outputs(layout, attempt, shell, spool, work.outputs)
        except AgentError as error:
            if error.reason in RETRYABLE:
                raise
            artifacts.give_up(attempt, spool, error)


def _end_finished(layout: Layout, attempt: Attempt) -> bool:
    """End an attempt whose tool was through before anybody stopped it: it has its result, whatever became of the
    layout since. False: it was not.
    """
    through = attempt.meta.get("state") == job.State.EXITED and "during" not in attempt.meta
    on_host = attempt.phase in (AttemptPhase.RUNNING, AttemptPhase.COLLECTING)
    if (
        not on_host
        or not through
        or jobs.attempt_console(attempt).is_played(planning.facts_at_ready(layout))
    ):
        return False
    condition.mark_unchecked(attempt, "the layout was lost")
    try:
        verdict, figures = conclusion.conclude_attempt(
            attempt, judge_attempt(attempt, attempt_job(layout, attempt))
        )
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        # our own parser may be what broke the layout: `reparse` makes up for it
        log.exception("attempt %s", attempt.pk)
        return False
    with transaction.atomic():
        if attempt.phase == AttemptPhase.RUNNING:
            transitions.move_attempt(attempt, AttemptPhase.COLLECTING, "it had ended by itself")
        conclusion.end_attempt(attempt, with_unfetched_output(attempt, verdict), figures)
    return True


def with_unfetched_output(attempt: Attempt, verdict: Verdict) -> Verdict:
    """The verdict on an attempt whose output was too large to be fetched."""
    message = attempt.meta.get(attempt_meta.ON_HOST)
    if not message:
        return verdict
    if verdict.outcome == Outcome.SUCCEEDED:
        return Verdict(Outcome.FAILED, Reason.TOO_LARGE, message)
    return dataclasses.replace(verdict, text=f"{verdict.text} {message}")


def remove_spool(layout: Layout, attempt: Attempt, shell: Shell) -> None:
    """Remove a spool directory whose output is stored; one that holds more than could be stays."""
    if attempt_meta.ON_HOST not in attempt.meta:
        job.remove_spool(shell, jobs.job_spool(attempt, jobs.build_job(attempt, layout)))
        attempt.meta[attempt_meta.REMOVED] = True


def attempts_with_spool(layout: Layout) -> list[Attempt]:
    """Attempts that were started, and whose spool directories were not removed since."""
    started = layout.attempts.exclude(started_at=None).select_related("run")
    return list(started.exclude(meta__has_key=attempt_meta.REMOVED))


def attempts_removed_before(layout: Layout, boot_id: str) -> list[Attempt]:
    """Attempts whose spool directories were removed in another boot: where power was lost soon after, they are there
    again. Of more than the last few the removal is long on the disk.
    """
    removed = layout.attempts.filter(meta__has_key=attempt_meta.REMOVED).exclude(boot_id=boot_id)
    return list(removed.select_related("run").order_by("-started_at")[:LAST_REMOVED])


def skip_moment(layout: Layout, stage: str) -> None:
    """End every attempt of a moment that is over and that has measured nothing."""
    text = "The resync or reshape finished before this run could start."
    verdict = Verdict(Outcome.SKIPPED, Reason.TOO_LATE, text)
    phases = [AttemptPhase.QUEUED, AttemptPhase.STARTING]
    _end_attempts(list(layout.attempts.filter(phase__in=phases, run__stage=stage)), verdict)


def end_open_attempts(layout: Layout, verdict: Verdict) -> None:
    """End every attempt that is not over, one that had ended by itself as it did; `stop` kept its artifacts."""
    cancelled = verdict.outcome == Outcome.CANCELLED
    still_open = layout.attempts.exclude(phase=AttemptPhase.DONE).select_related("run")
    _end_attempts(
        [attempt for attempt in still_open if cancelled or not _end_finished(layout, attempt)],
        verdict,
    )


def _end_attempts(attempts: Sequence[Attempt], verdict: Verdict) -> None:
    """End attempts that never began all at once: there may be hundreds."""
    unbegun = list[Attempt]()
    for attempt in attempts:
        if attempt.phase == AttemptPhase.QUEUED and not attempt.meta:
            unbegun.append(attempt)
        else:
            conclusion.end_attempt(attempt, with_unfetched_output(attempt, verdict))
    conclusion.end_unbegun_attempts(unbegun, verdict)
