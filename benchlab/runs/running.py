"""The attempts of a layout that is ready, one at a time: start detached, poll, collect."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models.functions import Length
from django.utils import timezone

from agents import job, registry, stack
from agents.contracts import AgentError, Job, Reason, Shell
from agents.dynamo.wire import DynamoError
from agents.facts.model import HostFacts
from agents.shell import SshShell
from benchlab.hosts import services as hosts
from benchlab.runs import (
    byhand,
    collect,
    condition,
    ending,
    events,
    fingerprint,
    growing,
    jobs,
    large,
    moves,
    planning,
    preflight,
)
from benchlab.runs.models import Attempt, Layout, LiveChunk
from benchlab.runs.states import LAYOUT_IS_LOST, AttemptPhase, Outcome
from benchlab.runs.verdict import Verdict, judge

PAUSED_S = 3.0
INTERVAL_S = 1.0  # the samplers' tick
LIVE_S = (
    0.8  # one poll of a job that says each second what happens; what is around it takes the rest
)
LIVE_MAX = 256 << 20  # bytes of samples that are kept of a running attempt


def step(layout: Layout) -> float | None:
    """Go on with the attempt that is on the host, or start the next; after the last one, take down."""
    waiting = layout.attempts.exclude(phase=AttemptPhase.DONE).select_related(
        "run", "layout__campaign"
    )
    current = waiting.exclude(phase=AttemptPhase.QUEUED).first()
    if layout.cancelled_at:
        ending.cancel(layout, current)
        return 0.0
    if current is None:
        current = waiting.order_by("run__position").first()
        if current is None:
            # The layout did its work when it stood for all its runs; each run has an outcome of its own.
            moves.begin_teardown(layout, Outcome.SUCCEEDED)
            return 0.0
        if layout.campaign.paused_at:
            growing.watch(layout)
            return PAUSED_S
        if growing.passed(layout, current):
            ending.skip(layout, current.run.stage)
            return 0.0
    waits = current.phase in (AttemptPhase.QUEUED, AttemptPhase.STARTING)
    if waits and (delay := growing.approach(layout, current)) is not None:
        return delay
    if current.phase == AttemptPhase.QUEUED:
        moves.attempt(current, AttemptPhase.STARTING, started_at=timezone.now())
    STEPS[current.phase](layout, current, hosts.connect(layout.host))
    return 0.0


def _start(layout: Layout, attempt: Attempt, shell: Shell) -> None:
    """Check once more that nothing changed under us, then start the tool. Starting twice starts once."""
    try:
        work = jobs.of(attempt, layout)
        found = condition.before(layout, shell)
        facts, awaited = preflight.check(layout, attempt, work, shell, found)
        player = _begin(attempt, work, facts, shell)
    except DynamoError as error:
        ending.end(attempt, Verdict(Outcome.FAILED, Reason.TOOL_FAILED, f"dynamo: {error}"))
        return
    except AgentError as error:
        if error.reason in LAYOUT_IS_LOST:
            raise
        ending.end(attempt, Verdict(Outcome.FAILED, error.reason, str(error)))
        return
    except preflight.Works:  # by itself, since it was looked at last
        moves.note(layout, settled=False)
        return
    except preflight.Passed:
        ending.stop(layout, attempt, shell)  # a worker may have died when it had just started it
        moves.note(layout, progress=[], awaited_until=None)
        ending.skip(layout, attempt.run.stage)
        return
    if awaited:
        growing.tell(layout, awaited)
    context = fingerprint.context(layout, planning.stored(layout), attempt, facts, found.ails)
    during = {"during": {"start": [asdict(one) for one in awaited]}} if awaited else {}
    moves.attempt(
        attempt,
        AttemptPhase.RUNNING,
        argv=list(player.job.argv if player else work.argv),
        timeout_s=work.timeout_s,
        boot_id=facts.boot_id[:64],
        facts=layout.facts_ready,
        fingerprint=fingerprint.digest(context),
        tool_version=context["tool_version"][:200],
        meta=during | _way(attempt, player),
        seen_at=timezone.now(),
    )
    condition.begun(layout, attempt, found)
    moves.note(layout, seen_at=timezone.now())
    if player:
        player.go()


def _way(attempt: Attempt, player: byhand.Player | None) -> dict[str, str]:
    """How dynamo's console is reached, kept with the attempt."""
    if attempt.run.tool != byhand.TOOL:
        return {}
    return {
        "console": "in BenchLab, through SSH tunnels" if player else "beside dynamo, on the host"
    }


def _live(attempt: Attempt) -> tuple[str, ...]:
    """Files in which its tool says each second what happens."""
    return getattr(registry.tool(attempt.run.tool), "LIVE", ())


def _begin(attempt: Attempt, work: Job, facts: HostFacts, shell: Shell) -> byhand.Player | None:
    """Start the job; what is returned waits to play its console."""
    spool = jobs.spool(attempt, work)
    sampled = (*collect.sampled(facts.os_family), *_live(attempt))
    if not byhand.needed(attempt, facts):
        job.start(shell, spool, jobs.filled(attempt, work), sampled, INTERVAL_S)
        return None
    assert isinstance(shell, SshShell), "only these have tunnels"
    player = byhand.Player(attempt, shell, work, spool)
    try:
        filled = jobs.filled(attempt, player.job)
        if job.start(shell, spool, filled, collect.sampled(facts.os_family), INTERVAL_S).already:
            # a worker died right after it had started dynamo, which looks for a port that nobody has
            job.stop(shell, spool)
            job.remove(shell, spool)
            job.start(shell, spool, filled, collect.sampled(facts.os_family), INTERVAL_S)
    except BaseException:
        player.drop()
        raise
    return player


def _poll(layout: Layout, attempt: Attempt, shell: Shell) -> None:
    """Wait on the host for the end, a second or two at most, and bring back what was sampled, or all of it."""
    work = ending.work_of(layout, attempt)
    far = ending.is_far(layout, attempt)
    played = far and byhand.is_played(attempt)
    if far and not played and not byhand.is_kept(attempt):
        return _unplayed(layout, attempt, shell)
    offset = _sampled(attempt)
    polled = _look(attempt, work, shell, offset, None if played else work.outputs)
    now = timezone.now()
    if polled.new_samples and offset < LIVE_MAX:
        LiveChunk.objects.create(attempt=attempt, offset=offset, data=polled.new_samples)
        events.changed(layout.campaign_id)
    Attempt.objects.filter(pk=attempt.pk).update(seen_at=now)
    moves.note(layout, seen_at=now)
    if played:
        if polled.state.over:
            time.sleep(0.2)  # the console is about to store what it has
        return
    if far and not polled.state.over and byhand.is_late(attempt):
        job.stop(shell, jobs.spool(attempt, work))  # it was told to end, and hangs
    if polled.state == job.State.ABSENT:
        gone = "The job's directory is gone from the host."
        ending.end(attempt, Verdict(Outcome.INTERRUPTED, Reason.JOB_VANISHED, gone))
    elif polled.state.over:
        moves.attempt(attempt, AttemptPhase.COLLECTING, f"the job is over: {polled.state}")
        if polled.fetched:
            spool = jobs.spool(attempt, work)
            large.store(layout, attempt, shell, spool, work.outputs, polled.fetched)
    elif _overdue(attempt, now):
        ending.stop(layout, attempt, shell)
        said = f"The host still tells of a running job long after its limit of {attempt.timeout_s:g} s."
        ending.end(attempt, Verdict(Outcome.FAILED, Reason.JOB_TIMEOUT, said))


def _look(
    attempt: Attempt, work: Job, shell: Shell, offset: int, outputs: Sequence[str] | None
) -> job.Polled:
    spool, wait_s = jobs.spool(attempt, work), settings.BENCHLAB_POLL_S
    wait_s = min(LIVE_S, wait_s) if _live(attempt) else wait_s
    try:
        return job.poll(shell, spool, wait_s, offset, outputs)
    except AgentError as error:
        if error.reason in LAYOUT_IS_LOST or outputs is None:
            raise
        return job.poll(shell, spool, 0.0, offset)  # what is wrong with its outputs, _collect tells


def _sampled(attempt: Attempt) -> int:
    """Bytes of samples that are here; asked of the last piece alone, as they are many MiB after an hour."""
    last = attempt.live.order_by("-offset").values_list("offset", Length("data")).first()
    return sum(last) if last else 0


def _overdue(attempt: Attempt, now: datetime) -> bool:
    """The runner ends the tool in time; a host on which it did not is not waited for."""
    patience = timedelta(seconds=attempt.timeout_s + settings.BENCHLAB_LOST_AFTER_S)
    return bool(attempt.started_at and now - attempt.started_at > patience)


def _collect(layout: Layout, attempt: Attempt, shell: Shell) -> None:
    """Look what the run did to the layout, conclude, and end the layout when that is to be its end."""
    condition.after(layout, attempt, shell)
    _conclude(layout, attempt, shell)
    condition.stop(layout, attempt)


def _conclude(layout: Layout, attempt: Attempt, shell: Shell) -> None:
    """Artifacts first, in one transaction; then figures; then the verdict."""
    work = ending.work_of(layout, attempt)
    spool = jobs.spool(attempt, work)
    # a worker died before it stored what it had fetched
    if not attempt.artifacts.filter(name=collect.SAMPLES).exists():
        try:
            large.store(layout, attempt, shell, spool, work.outputs)
        except AgentError as error:
            if error.reason in LAYOUT_IS_LOST:
                raise
            large.give_up(attempt, spool, error)
            said = attempt.meta[collect.ON_HOST]
            ending.end(attempt, Verdict(Outcome.FAILED, error.reason, said))
            return
    judged = judge(attempt, work)
    if ending.is_far(layout, attempt) and judged.reason != Reason.HOST_REBOOTED:
        judged = byhand.judge(attempt)
    judged = ending.on_host(attempt, _in_time(layout, attempt, judged, shell))
    verdict = collect.conclude(attempt, judged)
    if attempt.run.tool == byhand.TOOL:
        byhand.name_program(attempt)
    if verdict.reason == Reason.JOB_VANISHED:
        job.stop(shell, spool)  # its leader is gone, its tool may still be there
    elif attempt.meta["state"] == job.State.EXITED:
        with contextlib.suppress(AgentError):  # then it goes at teardown
            ending.forget(layout, attempt, shell)
    ending.end(attempt, verdict)
    if verdict.reason == Reason.HOST_REBOOTED:
        raise AgentError(verdict.text, Reason.HOST_REBOOTED)


def _unplayed(layout: Layout, attempt: Attempt, shell: Shell) -> None:
    """Who played died. dynamo ends, what it laid out half is removed, and the run is tried again."""
    attempt.refresh_from_db()
    if attempt.phase != AttemptPhase.RUNNING or byhand.is_kept(attempt):
        return
    ending.stop(layout, attempt, shell)
    byhand.tidy(jobs.of(attempt, layout), shell)
    ending.end(attempt, Verdict(Outcome.INTERRUPTED, Reason.WORKER_LOST, byhand.LOST))
    byhand.again(attempt)


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
    return Verdict(Outcome.FAILED, Reason.TOO_LATE, f"The {what} was over before this run was.")


STEPS: dict[str, Callable[[Layout, Attempt, Shell], None]] = {
    AttemptPhase.STARTING: _start,
    AttemptPhase.RUNNING: _poll,
    AttemptPhase.COLLECTING: _collect,
}
