"""The attempts of a layout that is ready, one at a time: start detached, poll, collect."""

from __future__ import annotations

import contextlib
from dataclasses import asdict

from django.conf import settings
from django.db.models.functions import Length
from django.utils import timezone

from agents import registry
from agents.contracts import AgentError, Reason, Shell
from agents.jobs import job
from agents.lasting import lasting
from agents.plans import stack
from benchlab.engine import consoles, jobs
from benchlab.engine.checks import condition, fingerprint, planning, preflight
from benchlab.engine.phases import ending, growing, schedulers
from benchlab.hosts import services as hosts
from benchlab.runs import collect, large, moves
from benchlab.runs.artifact_reader import Outputs
from benchlab.runs.in_force import QUEUES
from benchlab.runs.models import Attempt, Layout, LiveChunk
from benchlab.runs.states import LAYOUT_IS_LOST, AttemptPhase, Outcome
from benchlab.runs.verdict import Verdict, judge

LIVE_S = (
    0.8  # one poll of a job that says each second what happens; what is around it takes the rest
)
LIVE_MAX = 256 << 20  # bytes of samples that are kept of a running attempt


def start(layout: Layout, attempt: Attempt) -> None:
    """Check once more that nothing changed under us, then start the tool. Starting twice starts once."""
    if attempt.phase == AttemptPhase.QUEUED:
        moves.attempt(attempt, AttemptPhase.STARTING, started_at=timezone.now())
    shell, console = hosts.connect(layout.host), consoles.of(attempt)
    try:
        work = jobs.of(attempt, layout)
        with lasting(shell) as quick:
            found = condition.before(layout, quick)
            facts, awaited = preflight.check(layout, attempt, work, quick, found)
            queues = schedulers.put_in_force(layout, attempt, quick, found.gone)
        sampled = (*collect.sampled(facts.os_family), *registry.live(attempt.run.tool))
        spool = jobs.spool(attempt, work)
        playing = console.begin(attempt, work, facts, shell, spool, sampled)
    except AgentError as error:
        if error.reason in LAYOUT_IS_LOST:
            raise
        collect.end(attempt, Verdict(Outcome.FAILED, error.reason, str(error)))
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
    plan = planning.stored(layout)
    context = fingerprint.context(layout, plan, attempt, facts, found.ails, queues)
    in_force = {QUEUES: queues} if queues else {}
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
        meta=during | in_force | console.notes(playing),
        seen_at=timezone.now(),
    )
    moves.seen(layout)
    condition.begun(layout, attempt, found)
    if playing:
        playing.go()


def poll_s(attempt: Attempt) -> float:
    """How long one poll of it waits on the host for its end."""
    wait_s: float = settings.BENCHLAB_POLL_S
    return min(LIVE_S, wait_s) if registry.live(attempt.run.tool) else wait_s


def sampled(attempt: Attempt) -> int:
    """Bytes of samples that are here; asked of the last piece alone, as they are many MiB after an hour."""
    last = attempt.live.order_by("-offset").values_list("offset", Length("data")).first()
    return sum(last) if last else 0


def keep(layout: Layout, attempt: Attempt, offset: int, polled: job.Polled) -> int:
    """What a poll brought of a job that goes on; from where the next one is to go on."""
    moves.seen(layout)
    if not polled.state.over and attempt.seen_at != layout.seen_at:
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
        collect.store(attempt, came, over=why)
        return
    moves.attempt(attempt, AttemptPhase.COLLECTING, why, seen_at=attempt.seen_at)
    if came:
        shell, work = hosts.connect(layout.host), ending.work_of(layout, attempt)
        spool = jobs.spool(attempt, work)
        large.store(layout, attempt, shell, spool, work.outputs, came)


def collect_from(layout: Layout, attempt: Attempt) -> None:
    """Look what the run did to the layout, conclude, and end the layout when that is to be its end."""
    with lasting(hosts.connect(layout.host)) as quick:
        condition.after(layout, attempt, quick)
        _conclude(layout, attempt, quick)
    condition.stop(layout, attempt)


def _conclude(layout: Layout, attempt: Attempt, shell: Shell) -> None:
    """Artifacts first, in one transaction; then figures and the verdict, in one."""
    work = ending.work_of(layout, attempt)
    spool = jobs.spool(attempt, work)
    files = Outputs(attempt)
    # a worker died before it stored what it had fetched
    if collect.SAMPLES not in files:
        try:
            large.store(layout, attempt, shell, spool, work.outputs)
        except AgentError as error:
            if error.reason in LAYOUT_IS_LOST:
                raise
            large.give_up(attempt, spool, error)
            said = attempt.meta[collect.ON_HOST]
            collect.end(attempt, Verdict(Outcome.FAILED, error.reason, said))
            return
        files = Outputs(attempt)
    console = consoles.of(attempt)
    judged = console.judged(attempt, judge(attempt, work), planning.at_ready(layout))
    judged = schedulers.held(attempt, _in_time(layout, attempt, judged, shell), shell)
    judged = ending.on_host(attempt, judged)
    verdict, figures = collect.conclude(attempt, judged, files)
    console.ended(attempt)
    if verdict.reason == Reason.JOB_VANISHED:
        job.stop(shell, spool)  # its leader is gone, its tool may still be there
    elif attempt.meta["state"] == job.State.EXITED:
        with contextlib.suppress(AgentError):  # then it goes at teardown
            ending.forget(layout, attempt, shell)
    collect.end(attempt, verdict, figures)
    if verdict.reason == Reason.HOST_REBOOTED:
        raise AgentError(verdict.text, Reason.HOST_REBOOTED)


def replay(layout: Layout, attempt: Attempt) -> None:
    """Who played its console died. The tool ends, what it laid out half is removed, and the run is tried again."""
    attempt.refresh_from_db()
    console = consoles.of(attempt)
    if attempt.phase != AttemptPhase.RUNNING or console.is_kept(attempt):
        return
    shell = hosts.connect(layout.host)
    ending.stop(layout, attempt, shell)
    console.tidy(jobs.of(attempt, layout), shell)
    collect.end(attempt, Verdict(Outcome.INTERRUPTED, Reason.WORKER_LOST, console.LOST))
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
    return Verdict(Outcome.FAILED, Reason.TOO_LATE, f"The {what} was over before this run was.")
