# SPDX-License-Identifier: Apache-2.0
"""The attempts of a layout that is ready, one at a time: start detached, poll, collect.

Settings are as they were when the layout was verified, before each run and after it. An I/O scheduler that a run asks
for is set before it by the commands of the plan that a person agreed to, each guarded, looked at again, and still there
when the run is over. What was there before is kept with the plan, and every way down brings it back first
(agents.plans.stack.teardown_stack).
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import asdict
from functools import partial

from django.conf import settings
from django.db.models.functions import Length
from django.utils import timezone

from agents.contracts import AgentError, Claim, Reason, Shell, Step, claims_of
from agents.drivers import registry
from agents.facts import sysfs as disk_queues
from agents.facts.sysfs import Queues
from agents.jobs import job
from agents.plans import applied_part as plan_settings
from agents.plans import before_runs, stack
from agents.safety import root_only
from agents.ssh.lasting_shell import lasting
from benchlab.engine import jobs
from benchlab.engine.checks import condition, planning, preflight
from benchlab.engine.checks.condition import Condition
from benchlab.engine.phases import end_attempts, grow, step_log
from benchlab.hosts import ssh_access
from benchlab.runs import artifacts, attempt_meta, conclusion, transitions
from benchlab.runs.artifacts import Outputs
from benchlab.runs.attempt_meta import QUEUES
from benchlab.runs.models import Attempt, Layout, LiveChunk, StepLog
from benchlab.runs.states import LAYOUT_IS_LOST, AttemptPhase, Outcome
from benchlab.runs.verdict import Verdict, judge_attempt
from benchlab.topologies import moments

# One poll of a job that says each second what happens; what is around it takes the rest
LIVE_POLL_S = 0.8
# of the log: what is set for a run
RUN_PART = "before a run"
# bytes of samples that are kept of a running attempt
LIVE_MAX_BYTES = 256 << 20


def start_attempt(layout: Layout, attempt: Attempt) -> None:
    """Check once more that nothing changed under us, then start the tool. Starting twice starts once."""
    if attempt.phase == AttemptPhase.QUEUED:
        transitions.move_attempt(attempt, AttemptPhase.STARTING, started_at=timezone.now())
    shell, console = ssh_access.connect_to_host(layout.host), jobs.attempt_console(attempt)
    try:
        with lasting(shell) as quick:
            # Before each run: a program that was sound for the last one may be another by now.
            work = jobs.build_job(attempt, layout, partial(root_only.trusted, quick))
            state = check_verified(layout, attempt, quick)
            facts, awaited = preflight.check_before_start(layout, attempt, work, quick, state)
            queues = set_scheduler(layout, attempt, quick, state.gone)
        sampled = (
            *registry.sampled_sources(facts.os_family),
            *registry.live_files(attempt.run.tool),
        )
        spool = jobs.job_spool(attempt, work)
        playing = console.begin(attempt, work, facts, shell, spool, sampled)
    except AgentError as error:
        if error.reason in LAYOUT_IS_LOST:
            raise
        conclusion.end_attempt(attempt, Verdict(Outcome.FAILED, error.reason, str(error)))
        return
    except preflight.KernelBusy:
        # by itself, since it was looked at last
        transitions.store_fields(layout, settled=False)
        return
    except preflight.MomentOver:
        # a worker may have died when it had just started it
        end_attempts.stop_attempt(layout, attempt, shell)
        transitions.store_fields(layout, progress=[], awaited_until=None)
        end_attempts.skip_moment(layout, attempt.run.stage)
        return
    if awaited:
        grow.note_progress(layout, awaited)
    plan = planning.stored_plan(layout)
    context = condition.fingerprint_parts(layout, plan, attempt, facts, state.ails, queues)
    swept = {QUEUES: queues} if queues else {}
    during = {"during": {"start": [asdict(item) for item in awaited]}} if awaited else {}
    transitions.move_attempt(
        attempt,
        AttemptPhase.RUNNING,
        argv=list(playing.job.argv if playing else work.argv),
        timeout_s=work.timeout_s,
        boot_id=facts.boot_id[:64],
        facts_id=layout.facts_ready_id,
        fingerprint=condition.parts_digest(context),
        tool_version=context["tool_version"][:200],
        meta=during | swept | console.notes(playing),
        seen_at=timezone.now(),
    )
    transitions.note_response(layout)
    condition.mark_start(layout, attempt, state)
    if playing:
        playing.go()


def check_verified(layout: Layout, attempt: Attempt, shell: Shell) -> Condition:
    """The layout's condition, with all settings as they were when it was verified.

    What layers set and somebody set back is set once more, by the commands of the plan. Raises AgentError
    CHANGED_MEANWHILE naming what still differs; others as condition.check_before_run.
    """
    state = condition.check_before_run(layout, shell)
    changed = condition.changed_settings(layout, attempt, state)
    plan, stage = planning.stored_plan(layout), moments.parse_moment(attempt.run.stage).stage
    if changed and (steps := plan_settings.setting_steps(plan, stage)):
        lost = [claim for claim in plan.claims if claim.node in state.gone]
        _run_settings(layout, steps, lost, shell)
        state = condition.check_before_run(layout, shell)
        changed = condition.changed_settings(layout, attempt, state)
    if not changed:
        return state
    words = [
        change.describe("when the layout was verified", "before the run") for change in changed
    ]
    raise AgentError(
        f"The run was not started, because settings on {layout.host} have changed: {'; '.join(words)}. "
        "Set them back, or retry the runs: the layout is then built again.",
        Reason.CHANGED_MEANWHILE,
    )


def set_scheduler(
    layout: Layout, attempt: Attempt, shell: Shell, missing: Collection[str] = ()
) -> Queues:
    """Queues in force on the layout's disks, with the scheduler that the run asks for; {} where it asks for none.

    `missing`: nodes of disks that are not there, and measured without. Nothing is written where all is as asked. Raises
    AgentError, COMMAND_FAILED where the kernel refuses.
    """
    if not attempt.run.scheduler:
        return {}
    plan, stage = planning.stored_plan(layout), moments.parse_moment(attempt.run.stage).stage
    sweep, target = (
        plan.swept.before_run(attempt.run.scheduler, stage),
        plan.layers_after(stage)[-1].gives,
    )
    claims = claims_of(target)
    lost = [claim for claim in claims if claim.node in missing]
    nodes = [claim.node for claim in claims if claim not in lost]
    queues = disk_queues.read_queues(shell, nodes)
    try:
        if before_runs.lacking(sweep, queues):
            _run_settings(layout, sweep.steps, lost, shell)
            queues = disk_queues.read_queues(shell, nodes)
        if before_runs.not_as_before(sweep, plan.swept, target, queues):
            _run_settings(layout, sweep.as_before, lost, shell)
            queues = disk_queues.read_queues(shell, nodes)
    except AgentError as error:
        if error.reason != Reason.COMMAND_FAILED:
            raise
        message = f"The I/O scheduler {sweep.scheduler} could not be set: {error}"
        raise AgentError(message, error.reason) from error
    if wrong := before_runs.lacking(sweep, queues):
        raise AgentError(
            f"The I/O scheduler {sweep.scheduler} is not in force after it was set: {'; '.join(wrong)}. "
            "The kernel rejects it, or another process on the host sets a different one.",
            Reason.COMMAND_FAILED,
        )
    return queues


def _run_settings(
    layout: Layout, steps: Sequence[Step], lost: Sequence[Claim], shell: Shell
) -> None:
    commands = before_runs.without(steps, lost)
    step_log.run_steps(layout, commands, shell, StepLog.Kind.APPLY, part=RUN_PART)


def poll_wait_s(attempt: Attempt) -> float:
    """Seconds that one poll of it waits on the host for its end."""
    wait_s: float = settings.BENCHLAB_POLL_S
    return min(LIVE_POLL_S, wait_s) if registry.live_files(attempt.run.tool) else wait_s


def stored_sample_bytes(attempt: Attempt) -> int:
    """Bytes of samples that are here; asked of the last piece alone, as they are many MiB after an hour."""
    last = attempt.live.order_by("-offset").values_list("offset", Length("data")).first()
    return sum(last) if last else 0


def store_poll(layout: Layout, attempt: Attempt, offset: int, polled: job.Polled) -> int:
    """Store what a poll brought of a job that goes on. Returns the offset at which the next one is to go on."""
    transitions.note_response(layout)
    if not polled.state.is_over and attempt.seen_at != layout.seen_at:
        Attempt.objects.filter(pk=attempt.pk).update(seen_at=layout.seen_at)
    attempt.seen_at = layout.seen_at
    if not polled.new_samples or offset >= LIVE_MAX_BYTES:
        return offset
    piece = LiveChunk(attempt=attempt, offset=offset, data=polled.new_samples)
    # If two workers fetched the same piece, one is enough. Pages are not notified: charts poll by themselves.
    LiveChunk.objects.bulk_create([piece], ignore_conflicts=True)
    return polled.offset


def store_output(layout: Layout, attempt: Attempt, polled: job.Polled) -> None:
    """Store what the poll brought of a job that is over."""
    why, came = f"the job is over: {polled.state}", polled.fetched
    if came and not came.waiting:
        artifacts.store_fetched(attempt, came, over=why)
        return
    transitions.move_attempt(attempt, AttemptPhase.COLLECTING, why, seen_at=attempt.seen_at)
    if came:
        shell, work = (
            ssh_access.connect_to_host(layout.host),
            end_attempts.attempt_job(layout, attempt),
        )
        spool = jobs.job_spool(attempt, work)
        artifacts.store_outputs(layout, attempt, shell, spool, work.outputs, came)


def collect_attempt(layout: Layout, attempt: Attempt) -> None:
    """Check what the run did to the layout, store its conclusion, and end the layout if that is to be its end."""
    with lasting(ssh_access.connect_to_host(layout.host)) as quick:
        state = condition.check_after_run(layout, attempt, quick)
        _conclude(layout, attempt, quick, state)
    condition.raise_if_degraded(layout, attempt)


def _conclude(layout: Layout, attempt: Attempt, shell: Shell, state: Condition | None) -> None:
    """Store the artifacts in one transaction, then figures and the verdict in another.

    `state`: of the look after the run.
    """
    work = end_attempts.attempt_job(layout, attempt)
    spool = jobs.job_spool(attempt, work)
    files = Outputs(attempt)
    # a worker died before it stored what it had fetched
    if artifacts.SAMPLES not in files:
        try:
            artifacts.store_outputs(layout, attempt, shell, spool, work.outputs)
        except AgentError as error:
            if error.reason in LAYOUT_IS_LOST:
                raise
            artifacts.give_up(attempt, spool, error)
            message = attempt.meta[attempt_meta.ON_HOST]
            conclusion.end_attempt(attempt, Verdict(Outcome.FAILED, error.reason, message))
            return
        files = Outputs(attempt)
    if state is not None:
        condition.mark_sampled_faults(layout, attempt, state, files.get(artifacts.SAMPLES, b""))
    console = jobs.attempt_console(attempt)
    judged = console.judged(attempt, judge_attempt(attempt, work), planning.facts_at_ready(layout))
    judged = fail_if_changed(
        layout, attempt, _note_final_progress(layout, attempt, judged, shell), state
    )
    judged = end_attempts.with_unfetched_output(attempt, judged)
    verdict, figures = conclusion.conclude_attempt(attempt, judged, files)
    console.ended(attempt)
    if verdict.reason == Reason.JOB_VANISHED:
        # its leader is gone, its tool may still be there
        job.stop_job(shell, spool)
    elif attempt.meta["state"] == job.State.EXITED:
        # then it goes at teardown
        with contextlib.suppress(AgentError):
            end_attempts.remove_spool(layout, attempt, shell)
    conclusion.end_attempt(attempt, verdict, figures)
    if verdict.reason == Reason.HOST_REBOOTED:
        raise AgentError(verdict.text, Reason.HOST_REBOOTED)


def retry_attempt(layout: Layout, attempt: Attempt) -> None:
    """End a run whose console's player died. The tool ends, what it laid out half is removed, and the run is tried
    again.
    """
    attempt.refresh_from_db()
    console = jobs.attempt_console(attempt)
    if attempt.phase != AttemptPhase.RUNNING or console.is_kept(attempt):
        return
    shell = ssh_access.connect_to_host(layout.host)
    end_attempts.stop_attempt(layout, attempt, shell)
    console.tidy(jobs.build_job(attempt, layout), shell)
    conclusion.end_attempt(attempt, Verdict(Outcome.INTERRUPTED, Reason.WORKER_LOST, console.LOST))
    console.again(attempt)


def _note_final_progress(
    layout: Layout, attempt: Attempt, verdict: Verdict, shell: Shell
) -> Verdict:
    """Note how far the kernel was at the end. What outlasted it measured two states at once: no figure of either."""
    if "during" not in attempt.meta or verdict.reason == Reason.HOST_REBOOTED:
        return verdict
    progress = stack.awaited(
        planning.stored_plan(layout), preflight.read_same_boot(layout, shell), layout.stage
    )
    attempt.meta["during"]["end"] = [asdict(item) for item in progress]
    attempt.save(update_fields=["meta"])
    grow.note_progress(layout, progress)
    if progress or verdict.outcome != Outcome.SUCCEEDED:
        return verdict
    what = attempt.meta["during"]["start"][0]["says"]
    return Verdict(Outcome.FAILED, Reason.TOO_LATE, f"The {what} finished before the run did.")


def fail_if_changed(
    layout: Layout, attempt: Attempt, verdict: Verdict, state: Condition | None
) -> Verdict:
    """Fail a run during which something else changed the settings in force: it measured two states, no figure counts.

    `state`: of the look after the run; None where there is none, and the attempt is marked with that.
    """
    if state is None or verdict.outcome != Outcome.SUCCEEDED:
        return verdict
    if state.rebooted:
        condition.mark_unchecked(attempt, "the host was rebooted")
        return verdict
    changed = condition.changed_settings(layout, attempt, state, attempt.meta.get(QUEUES) or {})
    if not changed:
        return verdict
    words = [change.describe("when the run began", "after the run") for change in changed]
    text = f"Settings on {layout.host} changed during the run: {'; '.join(words)}."
    return Verdict(Outcome.FAILED, Reason.CHANGED_MEANWHILE, text)
