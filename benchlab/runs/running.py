"""The attempts of a layout that is ready, one at a time: start detached, poll, collect."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from agents import job, options, registry, stack
from agents.contracts import AgentError, Job, Reason, Shell
from agents.guard import job_refusals
from benchlab.hosts import services as hosts
from benchlab.runs import collect, events, fingerprint, moves, teardown
from benchlab.runs.models import Attempt, Layout, LiveChunk
from benchlab.runs.states import AttemptPhase, LayoutPhase, Outcome

PAUSED_S = 3.0
INTERVAL_S = 1.0  # the samplers' tick


def step(layout: Layout) -> float | None:
    """Go on with the attempt that is on the host, or start the next; after the last one, take down."""
    open_attempts = layout.attempts.exclude(phase=AttemptPhase.DONE).select_related(
        "run", "layout__campaign"
    )
    attempt = open_attempts.exclude(phase=AttemptPhase.QUEUED).first()
    if layout.campaign.cancelled_at:
        return _cancel(layout, attempt)
    if attempt is None:
        attempt = open_attempts.order_by("run__position").first()
        if attempt is None:
            teardown.begin(
                layout, Outcome.SUCCEEDED
            )  # it stood for all of them; each has its own outcome
            return 0.0
        if layout.campaign.paused_at:
            return PAUSED_S
        moves.attempt(attempt, AttemptPhase.STARTING, started_at=timezone.now())
    return STEPS[attempt.phase](layout, attempt, hosts.connect(layout.host))


def _start(layout: Layout, attempt: Attempt, shell: Shell) -> float | None:
    """Check once more that nothing changed under us, then start the tool. Starting twice starts once."""
    plan = stack.from_json(layout.plan)
    tool = registry.tool(attempt.run.tool)
    chosen = options.build(tool.Options, attempt.run.options)
    try:
        work = tool.job(chosen, plan.target)
        _preflight(layout, attempt, shell, plan, work)
    except AgentError as error:
        if error.reason in FATAL_FOR_LAYOUT:
            raise
        _end(attempt, Outcome.FAILED, error.reason, str(error))
        return 0.0
    started = job.start(shell, attempt.spool, work, job.sampled_files(), INTERVAL_S)
    moves.attempt(
        attempt,
        AttemptPhase.RUNNING,
        argv=list(work.argv),
        timeout_s=work.timeout_s,
        boot_id=started.boot_id,
        seen_at=timezone.now(),
        facts=layout.facts_ready,
        **fingerprint.of(layout, attempt),
    )
    moves.note(layout, seen_at=timezone.now())
    return 0.0


def _poll(layout: Layout, attempt: Attempt, shell: Shell) -> float | None:
    """Wait on the host for the end, at most BENCHLAB_POLL_S, and bring back what was sampled meanwhile."""
    offset = sum(len(chunk) for chunk in attempt.live.values_list("data", flat=True))
    polled = job.poll(shell, attempt.spool, settings.BENCHLAB_POLL_S, offset)
    now = timezone.now()
    if polled.samples:
        LiveChunk.objects.get_or_create(
            attempt=attempt, offset=offset, defaults={"data": polled.samples}
        )
        events.changed(layout.campaign_id)
    Attempt.objects.filter(pk=attempt.pk).update(seen_at=now)
    moves.note(layout, seen_at=now)
    if polled.state == job.State.RUNNING:
        return 0.0
    if polled.state == job.State.MISSING:
        _end(
            attempt,
            Outcome.INTERRUPTED,
            Reason.JOB_VANISHED,
            "The job's directory is gone from the host.",
        )
        return 0.0
    moves.attempt(attempt, AttemptPhase.COLLECTING, f"the job is {polled.state}")
    return 0.0


def _collect(layout: Layout, attempt: Attempt, shell: Shell) -> float | None:
    """Artifacts first, then figures, then the verdict."""
    if not attempt.artifacts.exists():
        fetched = job.fetch(shell, attempt.spool)
        collect.store(attempt, fetched.files)
    else:
        fetched = None
    meta = fetched.meta if fetched else job.meta_of(_artifact(attempt, job.META))
    Attempt.objects.filter(pk=attempt.pk).update(meta=meta.as_json(), exit_code=meta.exit_code)
    outcome, reason, text = verdict(attempt, meta)
    figures = collect.read(attempt)
    if outcome == Outcome.SUCCEEDED and figures.errors:
        outcome, reason, text = Outcome.FAILED, Reason.PARSE_FAILED, "; ".join(figures.errors)
    collect.replace(attempt, figures if outcome == Outcome.SUCCEEDED else figures.without_metrics())
    _end(attempt, outcome, reason, text)
    if meta.boot_changed:
        raise AgentError(f"{layout.host} was rebooted during the run.", Reason.HOST_REBOOTED)
    return 0.0
