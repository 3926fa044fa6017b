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
from agents.facts import queues as disk_queues
from agents.facts.queues import Queues
from agents.jobs import job
from agents.plans import before_runs, stack
from agents.plans import settings as plan_settings
from agents.safety import root_only
from agents.ssh.lasting_shell import lasting
from benchlab.engine import consoles, jobs
from benchlab.engine.checks import condition, fingerprint, in_force, planning, preflight
from benchlab.engine.checks.condition import Condition
from benchlab.engine.phases import ending, growing, step_log
from benchlab.hosts import services as hosts
from benchlab.runs import artifact_writer, attempt_meta, conclusion, large, moves
from benchlab.runs.artifact_reader import Outputs
from benchlab.runs.in_force import QUEUES
from benchlab.runs.models import Attempt, Layout, LiveChunk, StepLog
from benchlab.runs.states import LAYOUT_IS_LOST, AttemptPhase, Outcome
from benchlab.runs.verdict import Verdict, judge
from benchlab.topologies import moments

# One poll of a job that says each second what happens; what is around it takes the rest
LIVE_S = 0.8
# of the log: what is set for a run
PART = "before a run"
# bytes of samples that are kept of a running attempt
LIVE_MAX = 256 << 20


def start(layout: Layout, attempt: Attempt) -> None:
    """Check once more that nothing changed under us, then start the tool. Starting twice starts once."""
    if attempt.phase == AttemptPhase.QUEUED:
        moves.attempt(attempt, AttemptPhase.STARTING, started_at=timezone.now())
    shell, console = hosts.connect(layout.host), consoles.of(attempt)
    try:
        with lasting(shell) as quick:
            # Before each run: a program that was sound for the last one may be another by now.
            work = jobs.of(attempt, layout, partial(root_only.trusted, quick))
            found = as_verified(layout, attempt, quick)
            facts, awaited = preflight.check(layout, attempt, work, quick, found)
            queues = put_in_force(layout, attempt, quick, found.gone)
        sampled = (
            *registry.sampled_sources(facts.os_family),
            *registry.live_files(attempt.run.tool),
        )
        spool = jobs.spool(attempt, work)
        playing = console.begin(attempt, work, facts, shell, spool, sampled)
    except AgentError as error:
        if error.reason in LAYOUT_IS_LOST:
            raise
        conclusion.end(attempt, Verdict(Outcome.FAILED, error.reason, str(error)))
        return
    except preflight.Works:
        # by itself, since it was looked at last
        moves.note(layout, settled=False)
        return
    except preflight.Passed:
        # a worker may have died when it had just started it
        ending.stop(layout, attempt, shell)
        moves.note(layout, progress=[], awaited_until=None)
        ending.skip(layout, attempt.run.stage)
        return
    if awaited:
        growing.tell(layout, awaited)
    plan = planning.stored(layout)
    context = fingerprint.context(layout, plan, attempt, facts, found.ails, queues)
    swept = {QUEUES: queues} if queues else {}
    during = {"during": {"start": [asdict(one) for one in awaited]}} if awaited else {}
    moves.attempt(
        attempt,
        AttemptPhase.RUNNING,
        argv=list(playing.job.argv if playing else work.argv),
        timeout_s=work.timeout_s,
        boot_id=facts.boot_id[:64],
        facts_id=layout.facts_ready_id,
        fingerprint=fingerprint.digest(context),
        tool_version=context["tool_version"][:200],
        meta=during | swept | console.notes(playing),
        seen_at=timezone.now(),
    )
    moves.seen(layout)
    condition.begun(layout, attempt, found)
    if playing:
        playing.go()


def as_verified(layout: Layout, attempt: Attempt, shell: Shell) -> Condition:
    """The layout's condition, with all settings as they were when it was verified.

    What layers set and somebody set back is set once more, by the commands of the plan. Raises AgentError
    CHANGED_MEANWHILE naming what still differs; others as condition.before.
    """
    found = condition.before(layout, shell)
    changed = in_force.changes(layout, attempt, found)
    plan, stage = planning.stored(layout), moments.parse(attempt.run.stage).stage
    if changed and (steps := plan_settings.setting_steps(plan, stage)):
        lost = [claim for claim in plan.claims if claim.node in found.gone]
        _set(layout, steps, lost, shell)
        found = condition.before(layout, shell)
        changed = in_force.changes(layout, attempt, found)
    if not changed:
        return found
    words = [one.describe("when the layout was verified", "before the run") for one in changed]
    raise AgentError(
        f"The run was not started, because settings on {layout.host} have changed: {'; '.join(words)}. "
        "Set them back, or retry the runs: the layout is then built again.",
        Reason.CHANGED_MEANWHILE,
    )


def put_in_force(
    layout: Layout, attempt: Attempt, shell: Shell, gone: Collection[str] = ()
) -> Queues:
    """Queues in force on the layout's disks, with the scheduler that the run asks for; {} where it asks for none.

    `gone`: nodes of disks that are not there, and measured without. Nothing is written where all is as asked. Raises
    AgentError, COMMAND_FAILED where the kernel refuses.
    """
    if not attempt.run.scheduler:
        return {}
    plan, stage = planning.stored(layout), moments.parse(attempt.run.stage).stage
    wanted, target = (
        plan.swept.before_run(attempt.run.scheduler, stage),
        plan.layers_after(stage)[-1].gives,
    )
    claims = claims_of(target)
    lost = [claim for claim in claims if claim.node in gone]
    nodes = [claim.node for claim in claims if claim not in lost]
    found = disk_queues.read_queues(shell, nodes)
    try:
        if before_runs.lacking(wanted, found):
            _set(layout, wanted.steps, lost, shell)
            found = disk_queues.read_queues(shell, nodes)
        if before_runs.not_as_before(wanted, plan.swept, target, found):
            _set(layout, wanted.as_before, lost, shell)
            found = disk_queues.read_queues(shell, nodes)
    except AgentError as error:
        if error.reason != Reason.COMMAND_FAILED:
            raise
        said = f"The I/O scheduler {wanted.scheduler} could not be set: {error}"
        raise AgentError(said, error.reason) from error
    if wrong := before_runs.lacking(wanted, found):
        raise AgentError(
            f"The I/O scheduler {wanted.scheduler} is not in force after it was set: {'; '.join(wrong)}. "
            "The kernel rejects it, or another process on the host sets a different one.",
            Reason.COMMAND_FAILED,
        )
    return found


def _set(layout: Layout, steps: Sequence[Step], lost: Sequence[Claim], shell: Shell) -> None:
    commands = before_runs.without(steps, lost)
    step_log.run(layout, commands, shell, StepLog.Kind.APPLY, part=PART)


def poll_s(attempt: Attempt) -> float:
    """Seconds that one poll of it waits on the host for its end."""
    wait_s: float = settings.BENCHLAB_POLL_S
    return min(LIVE_S, wait_s) if registry.live_files(attempt.run.tool) else wait_s


def sampled(attempt: Attempt) -> int:
    """Bytes of samples that are here; asked of the last piece alone, as they are many MiB after an hour."""
    last = attempt.live.order_by("-offset").values_list("offset", Length("data")).first()
    return sum(last) if last else 0


def keep(layout: Layout, attempt: Attempt, offset: int, polled: job.Polled) -> int:
    """Store what a poll brought of a job that goes on. Returns the offset at which the next one is to go on."""
    moves.seen(layout)
    if not polled.state.is_over and attempt.seen_at != layout.seen_at:
        Attempt.objects.filter(pk=attempt.pk).update(seen_at=layout.seen_at)
    attempt.seen_at = layout.seen_at
    if not polled.new_samples or offset >= LIVE_MAX:
        return offset
    piece = LiveChunk(attempt=attempt, offset=offset, data=polled.new_samples)
    # Of two workers that asked for the same piece, one is enough. No page is told: what draws it asks by itself.
    LiveChunk.objects.bulk_create([piece], ignore_conflicts=True)
    return polled.offset


def fetched(layout: Layout, attempt: Attempt, polled: job.Polled) -> None:
    """The job is over: keep what the poll brought of it."""
    why, came = f"the job is over: {polled.state}", polled.fetched
    if came and not came.waiting:
        artifact_writer.store(attempt, came, over=why)
        return
    moves.attempt(attempt, AttemptPhase.COLLECTING, why, seen_at=attempt.seen_at)
    if came:
        shell, work = hosts.connect(layout.host), ending.work_of(layout, attempt)
        spool = jobs.spool(attempt, work)
        large.store(layout, attempt, shell, spool, work.outputs, came)


def collect_from(layout: Layout, attempt: Attempt) -> None:
    """Look what the run did to the layout, conclude, and end the layout when that is to be its end."""
    with lasting(hosts.connect(layout.host)) as quick:
        found = condition.after(layout, attempt, quick)
        _conclude(layout, attempt, quick, found)
    condition.stop(layout, attempt)


def _conclude(layout: Layout, attempt: Attempt, shell: Shell, found: Condition | None) -> None:
    """Artifacts first, in one transaction; then figures and the verdict, in one. `found`: the look after the run."""
    work = ending.work_of(layout, attempt)
    spool = jobs.spool(attempt, work)
    files = Outputs(attempt)
    # a worker died before it stored what it had fetched
    if artifact_writer.SAMPLES not in files:
        try:
            large.store(layout, attempt, shell, spool, work.outputs)
        except AgentError as error:
            if error.reason in LAYOUT_IS_LOST:
                raise
            large.give_up(attempt, spool, error)
            said = attempt.meta[attempt_meta.ON_HOST]
            conclusion.end(attempt, Verdict(Outcome.FAILED, error.reason, said))
            return
        files = Outputs(attempt)
    if found is not None:
        condition.sampled(layout, attempt, found, files.get(artifact_writer.SAMPLES, b""))
    console = consoles.of(attempt)
    judged = console.judged(attempt, judge(attempt, work), planning.at_ready(layout))
    judged = unchanged(layout, attempt, _in_time(layout, attempt, judged, shell), found)
    judged = ending.on_host(attempt, judged)
    verdict, figures = conclusion.conclude(attempt, judged, files)
    console.ended(attempt)
    if verdict.reason == Reason.JOB_VANISHED:
        # its leader is gone, its tool may still be there
        job.stop_job(shell, spool)
    elif attempt.meta["state"] == job.State.EXITED:
        # then it goes at teardown
        with contextlib.suppress(AgentError):
            ending.forget(layout, attempt, shell)
    conclusion.end(attempt, verdict, figures)
    if verdict.reason == Reason.HOST_REBOOTED:
        raise AgentError(verdict.text, Reason.HOST_REBOOTED)


def replay(layout: Layout, attempt: Attempt) -> None:
    """End a run whose console's player died. The tool ends, what it laid out half is removed, and the run is tried
    again.
    """
    attempt.refresh_from_db()
    console = consoles.of(attempt)
    if attempt.phase != AttemptPhase.RUNNING or console.is_kept(attempt):
        return
    shell = hosts.connect(layout.host)
    ending.stop(layout, attempt, shell)
    console.tidy(jobs.of(attempt, layout), shell)
    conclusion.end(attempt, Verdict(Outcome.INTERRUPTED, Reason.WORKER_LOST, console.LOST))
    console.again(attempt)


def _in_time(layout: Layout, attempt: Attempt, verdict: Verdict, shell: Shell) -> Verdict:
    """Note how far the kernel was at the end. What outlasted it measured two states at once: no figure of either."""
    if "during" not in attempt.meta or verdict.reason == Reason.HOST_REBOOTED:
        return verdict
    found = stack.awaited(planning.stored(layout), preflight.look(layout, shell), layout.stage)
    attempt.meta["during"]["end"] = [asdict(one) for one in found]
    attempt.save(update_fields=["meta"])
    growing.tell(layout, found)
    if found or verdict.outcome != Outcome.SUCCEEDED:
        return verdict
    what = attempt.meta["during"]["start"][0]["says"]
    return Verdict(Outcome.FAILED, Reason.TOO_LATE, f"The {what} finished before the run did.")


def unchanged(
    layout: Layout, attempt: Attempt, verdict: Verdict, found: Condition | None
) -> Verdict:
    """A run during which something else changed what was in force measured two states at once: no figure of either.

    `found`: the look after the run; None where there is none, and the attempt is marked with that.
    """
    if found is None or verdict.outcome != Outcome.SUCCEEDED:
        return verdict
    if found.rebooted:
        condition.unchecked(attempt, "the host was rebooted")
        return verdict
    changed = in_force.changes(layout, attempt, found, attempt.meta.get(QUEUES) or {})
    if not changed:
        return verdict
    words = [one.describe("when the run began", "after the run") for one in changed]
    text = f"Settings on {layout.host} changed during the run: {'; '.join(words)}."
    return Verdict(Outcome.FAILED, Reason.CHANGED_MEANWHILE, text)
