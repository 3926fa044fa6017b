"""Take a layout down, top first, ours only, and prove that its devices are blank; or say that it is stuck."""

from __future__ import annotations

from django.utils import timezone

from agents import blank, job, stack
from agents.contracts import AgentError, Reason, Shell
from benchlab.hosts import services as hosts
from benchlab.runs import moves, running, steps
from benchlab.runs.models import Layout, StepLog
from benchlab.runs.states import LayoutPhase, Outcome

TRIES = 3
BETWEEN_TRIES_S = 5.0


def begin(layout: Layout, outcome: Outcome, reason: Reason | str = "", text: str = "") -> None:
    """The runs are over (or cannot be): from here on only the way down is left."""
    moves.layout(
        layout,
        LayoutPhase.TEARING_DOWN,
        text or "all runs are over",
        outcome=outcome,
        reason=reason,
        reason_text=text,
        seen_at=timezone.now(),
    )


def step(layout: Layout) -> float | None:
    """One try. Running it again after it was cut off anywhere does what is left to do."""
    if layout.plan is None or not layout.steps.exists():
        moves.layout(layout, LayoutPhase.DONE, "nothing was built")
        return None
    plan = stack.from_json(layout.plan)
    shell = hosts.connect(layout.host)
    for attempt in layout.attempts.exclude(started_at=None):
        job.stop(shell, attempt.spool)
    running.end_open(layout, Outcome(layout.outcome), layout.reason, layout.reason_text)
    facts = hosts.facts_of(hosts.read_facts(layout.host, shell))
    moves.note(layout, teardown_tries=layout.teardown_tries + 1, seen_at=timezone.now())
    steps.run(layout, stack.teardown(plan, facts), shell, StepLog.Kind.TEARDOWN)
    after = hosts.read_facts(layout.host, shell)
    if left := blank.not_blank(plan.claims, hosts.facts_of(after), layout.name):
        raise AgentError("Not blank: " + "; ".join(left), Reason.NOT_BLANK)
    _tidy(layout, shell)
    said = "taken down, every device proven blank" if plan.claims else "taken down"
    moves.layout(layout, LayoutPhase.DONE, said, facts_after=after, trouble="")
    return None


def stick(layout: Layout, reason: Reason, text: str) -> float | None:
    """A try failed. The last one leaves the layout stuck: its host stays locked until a person looked."""
    if layout.teardown_tries < TRIES and reason not in {Reason.HOST_LOST, Reason.HOST_KEY_CHANGED}:
        moves.note(layout, trouble=text)
        return BETWEEN_TRIES_S
    moves.layout(layout, LayoutPhase.STUCK, text, trouble=text)
    return None


def _tidy(layout: Layout, shell: Shell) -> None:
    """Spool directories whose output is stored are of no more use on the host."""
    for attempt in layout.attempts.exclude(started_at=None):
        if attempt.artifacts.exists():
            job.remove(shell, attempt.spool)
