# SPDX-License-Identifier: Apache-2.0
"""Actions that carry decisions out, by SSH; and all accesses to hosts: this one, and `access` of rooms above it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from typing import Any, Protocol, cast

from django.utils.timezone import now

from agents.jobs import job
from agents.ssh.lasting_shell import lasting
from benchlab import app_modules
from benchlab.engine import commands, jobs
from benchlab.engine.checks import condition
from benchlab.engine.decide import BUILT, Rules, built
from benchlab.engine.decisions import (
    AcquireHost,
    BeginTeardown,
    Build,
    CheckManualStep,
    CheckOverdue,
    CollectOutput,
    Discard,
    EndAttempt,
    GrowStage,
    MarkStuck,
    Nothing,
    Poll,
    ReportProgress,
    RetryRun,
    RetryTeardown,
    RollBackBuild,
    SettleStage,
    SkipRun,
    StartRun,
    Stop,
    StopTool,
    TakeDown,
    Wait,
)
from benchlab.engine.jobs import StepRows
from benchlab.engine.phases import end_attempts, grow, provision, run_attempts
from benchlab.engine.polls import PollRequest, polls
from benchlab.hosts import ssh_access
from benchlab.runs import conclusion, transitions
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.states import AttemptPhase, LayoutPhase, Outcome
from benchlab.runs.verdict import Verdict

# An action does one thing and returns the seconds until the next look; None if there is nothing left to do.
Action = Callable[[StepRows, Any], float | None]
Actions = Mapping[type, Action]
# Beyond the poll's own time. After that the answer counts as lost, and the sweeper has the host polled again.
ANSWER_GRACE_S = 15.0


class Access(Protocol):
    """Access to a host. `KIND`: the value of Host.access. Rules decide by phase; actions do what they decide."""

    KIND: str
    RULES: Rules
    ACTIONS: Actions


@cache
def all_accesses() -> dict[str, Access]:
    """All accesses by their KIND."""
    modules = [import_module(__name__), *app_modules.modules_named("access")]
    return {access.KIND: access for access in cast(list[Access], modules)}


def do_nothing(rows: StepRows, decided: Nothing) -> None:
    return None


def wait_for_next_step(rows: StepRows, decided: Wait) -> float:
    if decided.note is not None:
        transitions.store_later(rows.layout, trouble=decided.note)
    return decided.seconds


def acquire_host(rows: StepRows, decided: AcquireHost) -> float:
    try:
        transitions.move_layout(
            rows.layout, LayoutPhase.PROVISIONING, "the host is free", seen_at=now()
        )
    except transitions.HostBusy:
        return built.BUSY_S
    return 0.0


def discard(rows: StepRows, decided: Discard) -> None:
    commands.discard_layout(rows.layout, decided.outcome, decided.text, decided.reason)


def begin_teardown(rows: StepRows, decided: BeginTeardown) -> float:
    """Begin the teardown. Raises Moved if the layout got more runs since that was decided (engine/new_runs.py)."""
    checked = partial(_check_no_queued_runs, rows.layout)
    transitions.begin_teardown(
        rows.layout,
        decided.outcome,
        decided.reason,
        decided.text,
        first=checked if decided.outcome == Outcome.SUCCEEDED else None,
    )
    return 0.0


def _check_no_queued_runs(layout: Layout) -> None:
    """Lock the layout, so that nothing can be queued on it. Raises Moved if a run is queued already."""
    # The default order joins the campaign, whose row would be locked too; every step of the campaign waits for it.
    Layout.objects.select_for_update(of=("self",)).order_by("pk").values_list("pk").get(
        pk=layout.pk
    )
    if layout.attempts.filter(phase=AttemptPhase.QUEUED).exists():
        raise transitions.Moved


def skip_run(rows: StepRows, decided: SkipRun) -> float:
    layout, attempt = rows.layout_and_attempt
    end_attempts.skip_moment(layout, attempt.run.stage)
    return 0.0


def retry_teardown(rows: StepRows, decided: RetryTeardown) -> float:
    tries = rows.layout.teardown_tries + 1
    transitions.store_later(rows.layout, teardown_tries=tries, trouble=decided.text)
    return decided.seconds


def mark_stuck(rows: StepRows, decided: MarkStuck) -> None:
    transitions.move_layout(rows.layout, LayoutPhase.STUCK, decided.text, trouble=decided.text)


def build_layers(rows: StepRows, decided: Build) -> float:
    return 0.0 if provision.build_layout(rows.layout) else built.MANUAL_WAIT_S


def check_manual_step(rows: StepRows, decided: CheckManualStep) -> float:
    shell = ssh_access.connect_to_host(rows.layout.host)
    return 0.0 if provision.accept_step(rows.layout, shell) else built.MANUAL_WAIT_S


def report_progress(rows: StepRows, decided: ReportProgress) -> float:
    grow.store_progress(rows.layout)
    return decided.seconds


def poll_job(rows: StepRows, decided: Poll) -> float:
    """Poll the job in a coroutine, whose end has this layout stepped."""
    layout, attempt = rows.layout_and_attempt
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
    layout, attempt = rows.layout_and_attempt
    with lasting(ssh_access.connect_to_host(layout.host)) as quick:
        condition.check_overdue_run(layout, attempt, quick)
    return 0.0


def stop_tool(rows: StepRows, decided: StopTool) -> float:
    layout, attempt = rows.layout_and_attempt
    work = end_attempts.attempt_job(layout, attempt)
    job.stop_job(ssh_access.connect_to_host(layout.host), jobs.job_spool(attempt, work))
    return poll_job(rows, Poll())


def collect_output(rows: StepRows, decided: CollectOutput) -> float:
    if rows.polled is not None:
        run_attempts.store_output(*rows.layout_and_attempt, rows.polled)
    else:
        run_attempts.collect_attempt(*rows.layout_and_attempt)
    return 0.0


def end_attempt(rows: StepRows, decided: EndAttempt) -> float:
    layout, attempt = rows.layout_and_attempt
    if decided.stop:
        end_attempts.stop_attempt(layout, attempt, ssh_access.connect_to_host(layout.host))
    conclusion.end_attempt(attempt, Verdict(decided.outcome, decided.reason, decided.text))
    return 0.0


def take_down(rows: StepRows, decided: TakeDown) -> float | None:
    down = provision.end_unbuilt if decided.nothing else provision.tear_down
    return None if down(rows.layout) else built.MANUAL_WAIT_S


def _on_layout(act: Callable[[Layout], float | None]) -> Action:
    return lambda rows, decided: act(rows.layout) or 0.0


def _on_attempt(act: Callable[[Layout, Attempt], None]) -> Action:
    def action(rows: StepRows, decided: object) -> float:
        act(*rows.layout_and_attempt)
        return 0.0

    return action


# They do not need a host that answers: other accesses have them too.
COMMON: Actions = {
    Nothing: do_nothing,
    Wait: wait_for_next_step,
    AcquireHost: acquire_host,
    Discard: discard,
    BeginTeardown: begin_teardown,
    SkipRun: skip_run,
    RetryTeardown: retry_teardown,
    MarkStuck: mark_stuck,
}
KIND = "ssh"
RULES = BUILT
ACTIONS: Actions = {
    **COMMON,
    Build: build_layers,
    CheckManualStep: check_manual_step,
    RollBackBuild: _on_layout(provision.roll_back_build),
    Stop: end_attempts.cancel_running,
    ReportProgress: report_progress,
    GrowStage: _on_layout(grow.begin_growth),
    SettleStage: _on_layout(grow.settle_layers),
    StartRun: _on_attempt(run_attempts.start_attempt),
    Poll: poll_job,
    CheckOverdue: check_overdue,
    StopTool: stop_tool,
    RetryRun: _on_attempt(run_attempts.retry_attempt),
    CollectOutput: collect_output,
    EndAttempt: end_attempt,
    TakeDown: take_down,
}
