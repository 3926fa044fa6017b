"""Layouts on hosts that only dynamo reaches: nothing is built, and a process that listens plays (dynamo/seat.py).

The engine only says which attempt is next, sees that somebody plays it, and reads what was stored.
"""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from agents.contracts import AgentError, Reason
from benchlab.hosts import services as hosts
from benchlab.hosts.models import Host
from benchlab.runs import byhand, collect, ending, growing, jobs, moves, planning
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.states import AttemptPhase, LayoutPhase, Outcome
from benchlab.runs.verdict import Verdict

LOOK_S = 1.0
PAUSED_S = 3.0
SILENT = timedelta(seconds=20)  # the listener says each few seconds that dynamo is there


def build(layout: Layout) -> float | None:
    """Plan anew, from what dynamo reported last."""
    if layout.cancelled_at:
        moves.begin_teardown(layout, Outcome.CANCELLED, Reason.CANCELLED, "cancelled")
        return 0.0
    _connected(layout)
    snapshot = hosts.read_facts(layout.host)
    plan = planning.make(layout, hosts.facts_of(snapshot))
    if plan.fingerprint != layout.confirmed_fingerprint:
        raise AgentError(
            "What dynamo reports changed since the plan was confirmed.", Reason.PLAN_STALE
        )
    growing.tell(layout, (), settled=True)
    moves.layout(layout, LayoutPhase.READY, "dynamo is there", facts_ready=snapshot)
    return 0.0


def step(layout: Layout) -> float | None:
    waiting = layout.attempts.exclude(phase=AttemptPhase.DONE).select_related("run", "layout")
    current = waiting.exclude(phase=AttemptPhase.QUEUED).first()
    if layout.cancelled_at:
        return _cancel(layout)
    if current is None:
        return _next(layout, waiting.order_by("run__position").first())
    if current.phase == AttemptPhase.COLLECTING:
        return _collect(current)
    if current.phase == AttemptPhase.RUNNING:
        return _watch(layout, current)
    _connected(layout)
    return LOOK_S


def _next(layout: Layout, attempt: Attempt | None) -> float | None:
    if attempt is None:
        moves.begin_teardown(layout, Outcome.SUCCEEDED)
        return 0.0
    if layout.campaign.paused_at:
        return PAUSED_S
    _connected(layout)
    try:
        work = jobs.of(attempt, layout)
    except AgentError as error:
        ending.end(attempt, Verdict(Outcome.FAILED, error.reason, str(error)))
        return 0.0
    now = timezone.now()
    moves.attempt(
        attempt,
        AttemptPhase.STARTING,
        started_at=now,
        timeout_s=work.timeout_s,
        facts=layout.facts_ready,
    )
    return LOOK_S


def _watch(layout: Layout, attempt: Attempt) -> float | None:
    """Somebody plays it, or died with it."""
    if byhand.is_played(attempt):
        moves.note(layout, seen_at=timezone.now())
        return LOOK_S
    attempt.refresh_from_db()
    if attempt.phase == AttemptPhase.RUNNING:
        ending.end(attempt, Verdict(Outcome.INTERRUPTED, Reason.WORKER_LOST, byhand.LOST))
        byhand.again(attempt)
    return 0.0


def _collect(attempt: Attempt) -> float | None:
    verdict = collect.conclude(attempt, byhand.judge(attempt))
    byhand.name_program(attempt)
    ending.end(attempt, verdict)
    if verdict.reason == Reason.WORKER_LOST:
        byhand.again(attempt)
    return 0.0


def _cancel(layout: Layout) -> float | None:
    """Who plays sees that its attempt is over, and brings dynamo to rest."""
    verdict = Verdict(Outcome.CANCELLED, Reason.CANCELLED, "cancelled")
    ending.end_open(layout, verdict)
    moves.begin_teardown(layout, verdict.outcome, verdict.reason, verdict.text)
    return 0.0


def take_down(layout: Layout) -> float | None:
    verdict = Verdict(Outcome(layout.outcome), layout.reason, layout.reason_text)
    played = [a for a in layout.attempts.filter(phase=AttemptPhase.RUNNING) if byhand.is_played(a)]
    ending.end_open(layout, verdict)
    if played:
        return LOOK_S
    said = "nothing was built; dynamo's own file stays where it is"
    moves.layout(layout, LayoutPhase.DONE, said, trouble="", needs_person="")
    return None


def _connected(layout: Layout) -> None:
    """Raises AgentError, which is waited for as for a host that is silent."""
    seen = Host.objects.values_list("seen_at", flat=True).get(pk=layout.host_id)
    if seen is None or timezone.now() - seen > SILENT:
        raise AgentError(
            f"dynamo on {layout.host} is not connected: start it there, with -i and the address of BenchLab's listener",
            Reason.CONNECTION_LOST,
        )
    moves.note(layout, seen_at=timezone.now())
