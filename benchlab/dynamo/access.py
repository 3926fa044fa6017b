# SPDX-License-Identifier: Apache-2.0
"""A host that only dynamo reaches: nothing is built there, and a process that listens plays (dynamo/session.py).

The engine only says which attempt is next, sees that somebody plays it, and reads what was stored.
"""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from agents.contracts import AgentError, Reason
from benchlab.dynamo import dynamo_player, reported_hosts
from benchlab.engine import access, jobs
from benchlab.engine.checks import planning
from benchlab.engine.decide import built, dialled_in
from benchlab.engine.decide.dialled_in import LOOK_S
from benchlab.engine.decisions import (
    Build,
    CollectOutput,
    Poll,
    ReportProgress,
    RetryRun,
    StartRun,
    Stop,
    TakeDown,
)
from benchlab.engine.jobs import StepRows
from benchlab.engine.phases import end_attempts, grow
from benchlab.hosts import discovery
from benchlab.hosts.models import Host
from benchlab.runs import conclusion, transitions
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.states import AttemptPhase, LayoutPhase, Outcome
from benchlab.runs.verdict import Verdict

# the listener says each few seconds that dynamo is there
SILENT = timedelta(seconds=20)
KIND = Host.Access.DYNAMO.value
RULES = {
    LayoutPhase.WAITING: built.decide_waiting,
    LayoutPhase.PROVISIONING: dialled_in.decide_provisioning,
    LayoutPhase.READY: dialled_in.decide_ready,
    LayoutPhase.TEARING_DOWN: dialled_in.decide_tearing_down,
}


def build_layout(rows: StepRows, decided: Build) -> float:
    """Plan anew, from what dynamo reported last."""
    layout = rows.layout
    _check_connected(layout)
    snapshot = discovery.read_facts(layout.host)
    plan = planning.plan_layout(layout, discovery.facts_of(snapshot))
    if plan.fingerprint != layout.confirmed_fingerprint:
        raise AgentError(
            "What dynamo reports changed since the plan was confirmed.", Reason.PLAN_STALE
        )
    grow.note_progress(layout, (), settled=True)
    transitions.move_layout(layout, LayoutPhase.READY, "dynamo is there", facts_ready=snapshot)
    return 0.0


def stop_attempts(rows: StepRows, decided: Stop) -> float:
    """End the layout's attempts as cancelled: the process that plays sees it, and brings dynamo to rest."""
    end_attempts.end_cancelled(rows.layout)
    return 0.0


def start_attempt(rows: StepRows, decided: StartRun) -> float:
    """Offer it; one that was offered waits to be taken."""
    assert rows.attempt is not None
    _offer_attempt(rows.layout, rows.attempt)
    return LOOK_S if rows.attempt.phase == AttemptPhase.STARTING else 0.0


def _offer_attempt(layout: Layout, attempt: Attempt) -> None:
    """Offer the attempt to the connected dynamo. The listener takes attempts that are starting."""
    _check_connected(layout)
    if attempt.phase != AttemptPhase.QUEUED:
        return
    try:
        work = jobs.build_job(attempt, layout)
    except AgentError as error:
        conclusion.end_attempt(attempt, Verdict(Outcome.FAILED, error.reason, str(error)))
        return
    transitions.move_attempt(
        attempt,
        AttemptPhase.STARTING,
        started_at=timezone.now(),
        timeout_s=work.timeout_s,
        facts_id=layout.facts_ready_id,
    )


def watch_layout(rows: StepRows, decided: ReportProgress) -> float:
    return decided.seconds


def poll_attempt(rows: StepRows, decided: Poll) -> float:
    transitions.note_response(rows.layout)
    return LOOK_S


def replay_attempt(rows: StepRows, decided: RetryRun) -> float:
    """End a run whose player died with it, and try it again."""
    attempt = rows.attempt
    assert attempt is not None
    attempt.refresh_from_db()
    if attempt.phase == AttemptPhase.RUNNING:
        conclusion.end_attempt(
            attempt, Verdict(Outcome.INTERRUPTED, Reason.WORKER_LOST, dynamo_player.LOST)
        )
        dynamo_player.create_retry(attempt)
    return 0.0


def collect_attempt(rows: StepRows, decided: CollectOutput) -> float:
    attempt = rows.attempt
    assert attempt is not None
    verdict, figures = conclusion.conclude_attempt(attempt, dynamo_player.judge_transcript(attempt))
    dynamo_player.name_program(attempt)
    conclusion.end_attempt(attempt, verdict, figures)
    if verdict.reason == Reason.WORKER_LOST:
        dynamo_player.create_retry(attempt)
    return 0.0


def take_down_layout(rows: StepRows, decided: TakeDown) -> float | None:
    """Once nobody plays any more."""
    layout = rows.layout
    verdict = Verdict(Outcome(layout.outcome), layout.reason, layout.reason_text)
    played = [
        a for a in layout.attempts.filter(phase=AttemptPhase.RUNNING) if dynamo_player.is_played(a)
    ]
    end_attempts.end_open_attempts(layout, verdict)
    if played:
        return LOOK_S
    message = "nothing was built; dynamo's own file stays where it is"
    transitions.move_layout(layout, LayoutPhase.DONE, message, trouble="", needs_person="")
    return None


def _check_connected(layout: Layout) -> None:
    """Raises AgentError, which is waited for as for a host that is silent."""
    seen_at = layout.host.seen_at
    if seen_at is None or timezone.now() - seen_at > SILENT:
        raise AgentError(
            f"dynamo on {layout.host} is not connected: start it there, with -i and the address of BenchLab's listener",
            Reason.CONNECTION_LOST,
        )
    if not reported_hosts.is_accepted(layout.host):
        raise AgentError(
            f"the dynamo that logged in as {layout.host} was never accepted, or is another one than the one that was: "
            "an owner accepts it on the host's page",
            Reason.CONNECTION_LOST,
        )
    transitions.note_response(layout)


ACTIONS: access.Actions = {
    **access.COMMON,
    Build: build_layout,
    Stop: stop_attempts,
    StartRun: start_attempt,
    ReportProgress: watch_layout,
    Poll: poll_attempt,
    RetryRun: replay_attempt,
    CollectOutput: collect_attempt,
    TakeDown: take_down_layout,
}
