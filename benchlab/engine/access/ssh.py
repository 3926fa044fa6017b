# SPDX-License-Identifier: Apache-2.0
"""A host that we log in to: layers are built there, tools are started and polled."""

from __future__ import annotations

from agents.jobs import job
from agents.ssh.lasting_shell import lasting
from benchlab.engine import access, jobs
from benchlab.engine.checks import condition
from benchlab.engine.decide import BUILT
from benchlab.engine.decide.built import MANUAL_WAIT_S
from benchlab.engine.decisions import (
    Build,
    CheckManualStep,
    CheckOverdue,
    CollectOutput,
    EndAttempt,
    GrowStage,
    Poll,
    ReportProgress,
    RetryRun,
    RollBackBuild,
    SettleStage,
    StartRun,
    Stop,
    StopTool,
    TakeDown,
)
from benchlab.engine.phases import end_attempts, grow, provision, run_attempts
from benchlab.engine.polls import PollRequest, StepRows, polls
from benchlab.hosts import ssh_access
from benchlab.runs import conclusion
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.verdict import Verdict

KIND = "ssh"
RULES = BUILT
# Beyond the poll's own time. After that the answer counts as lost, and the sweeper has the host polled again.
ANSWER_GRACE_S = 15.0


def build_layers(rows: StepRows, decided: Build) -> float:
    return 0.0 if provision.build_layout(rows.layout) else MANUAL_WAIT_S


def check_manual_step(rows: StepRows, decided: CheckManualStep) -> float:
    return (
        0.0
        if provision.accept_step(rows.layout, ssh_access.connect_to_host(rows.layout.host))
        else MANUAL_WAIT_S
    )


def roll_back_build(rows: StepRows, decided: RollBackBuild) -> float:
    provision.roll_back_build(rows.layout)
    return 0.0


def report_progress(rows: StepRows, decided: ReportProgress) -> float:
    grow.store_progress(rows.layout)
    return decided.seconds


def grow_stage(rows: StepRows, decided: GrowStage) -> float:
    return grow.begin_growth(rows.layout)


def settle_stage(rows: StepRows, decided: SettleStage) -> float:
    return grow.settle_layers(rows.layout)


def start_run(rows: StepRows, decided: StartRun) -> float:
    run_attempts.start_attempt(*_layout_and_attempt(rows))
    return 0.0


def poll_job(rows: StepRows, decided: Poll) -> float:
    """Poll the job in a coroutine, whose end has this layout stepped."""
    layout, attempt = _layout_and_attempt(rows)
    work = end_attempts.attempt_job(layout, attempt)
    request = PollRequest(
        attempt_id=attempt.pk,
        spool=jobs.job_spool(attempt, work),
        wait_s=polls.patience_s(run_attempts.poll_wait_s(attempt)) if decided.waits else 0.0,
        offset=run_attempts.stored_sample_bytes(attempt) if rows.offset is None else rows.offset,
        outputs=work.outputs if decided.fetches else None,
    )
    is_answered = polls.submit_poll(layout.pk, request, ssh_access.unconnected_shell(layout.host))
    return 0.0 if is_answered else request.wait_s + ANSWER_GRACE_S


def check_overdue(rows: StepRows, decided: CheckOverdue) -> float:
    layout, attempt = _layout_and_attempt(rows)
    with lasting(ssh_access.connect_to_host(layout.host)) as quick:
        condition.check_overdue_run(layout, attempt, quick)
    return 0.0


def stop_tool(rows: StepRows, decided: StopTool) -> float:
    layout, attempt = _layout_and_attempt(rows)
    work = end_attempts.attempt_job(layout, attempt)
    job.stop_job(ssh_access.connect_to_host(layout.host), jobs.job_spool(attempt, work))
    return poll_job(rows, Poll())


def collect_output(rows: StepRows, decided: CollectOutput) -> float:
    layout, attempt = _layout_and_attempt(rows)
    if rows.polled is not None:
        run_attempts.store_output(layout, attempt, rows.polled)
    else:
        run_attempts.collect_attempt(layout, attempt)
    return 0.0


def retry_run(rows: StepRows, decided: RetryRun) -> float:
    run_attempts.retry_attempt(*_layout_and_attempt(rows))
    return 0.0


def end_attempt(rows: StepRows, decided: EndAttempt) -> float:
    layout, attempt = _layout_and_attempt(rows)
    if decided.stop:
        end_attempts.stop_attempt(layout, attempt, ssh_access.connect_to_host(layout.host))
    conclusion.end_attempt(attempt, Verdict(decided.outcome, decided.reason, decided.text))
    return 0.0


def take_down(rows: StepRows, decided: TakeDown) -> float | None:
    down = provision.end_unbuilt if decided.nothing else provision.tear_down
    return None if down(rows.layout) else MANUAL_WAIT_S


def _layout_and_attempt(rows: StepRows) -> tuple[Layout, Attempt]:
    assert rows.attempt is not None, "what is started or polled is an attempt"
    return rows.layout, rows.attempt


ACTIONS: access.Actions = {
    **access.COMMON,
    Build: build_layers,
    CheckManualStep: check_manual_step,
    RollBackBuild: roll_back_build,
    Stop: end_attempts.cancel_running,
    ReportProgress: report_progress,
    GrowStage: grow_stage,
    SettleStage: settle_stage,
    StartRun: start_run,
    Poll: poll_job,
    CheckOverdue: check_overdue,
    StopTool: stop_tool,
    RetryRun: retry_run,
    CollectOutput: collect_output,
    EndAttempt: end_attempt,
    TakeDown: take_down,
}
