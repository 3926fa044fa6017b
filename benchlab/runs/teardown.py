"""Take a layout down, top first, ours only, and prove that its devices are blank; or say that it is stuck."""

from __future__ import annotations

import time

from django.utils import timezone

from agents import apply, blank, stack
from agents.contracts import AgentError, Claim, Reason, Shell
from agents.facts.model import HostFacts
from agents.gone import as_now, gone, without
from agents.lasting import lasting
from agents.relocated import relocated
from benchlab.hosts import services as hosts
from benchlab.hosts.models import FactSnapshot
from benchlab.runs import ending, moves, person, steps, touched
from benchlab.runs.models import Layout, StepLog
from benchlab.runs.states import LayoutPhase, Outcome
from benchlab.runs.verdict import Verdict

TRIES = 3
BETWEEN_TRIES_S = 5.0
NO_USE_TO_TRY = {Reason.HOST_LOST, Reason.HOST_KEY_CHANGED}


def step(layout: Layout) -> float | None:
    """One try. Running it again after it was cut off anywhere does what is left to do."""
    if person.waits(layout):
        return person.WAITS_S
    verdict = Verdict(Outcome(layout.outcome), layout.reason, layout.reason_text)
    if not touched.begun(layout).exists():
        ending.end_open(layout, verdict)
        return _end(layout, "nothing was built")
    shell = hosts.connect(layout.host)
    started = list(layout.attempts.exclude(started_at=None).select_related("run", "layout"))
    for attempt in started:
        ending.stop(layout, attempt, shell)
    ending.end_open(layout, verdict)
    plan, after = clear(layout, shell)
    for attempt in started:
        ending.forget(layout, attempt, shell)
    over = "taken down, every device proven blank" if plan.claims else "taken down"
    return _end(layout, over, facts_after=after)


def clear(layout: Layout, shell: Shell) -> tuple[stack.StackPlan, FactSnapshot]:
    """Take down what was there and prove it: what that was, and the host afterwards. Raises AgentError."""
    with lasting(shell) as quick:
        plan, after = _take_down(layout, quick)
    found = hosts.facts_of(after)
    if said := _not_blank(layout, plan, found):
        raise AgentError(said, Reason.NOT_BLANK)
    if left := stack.not_restored(plan, found):
        raise AgentError("Not as it was before: " + "; ".join(left), Reason.NOT_BLANK)
    return plan, after


def _take_down(layout: Layout, shell: Shell) -> tuple[stack.StackPlan, FactSnapshot]:
    """What was there to take down, and how the host is afterwards."""
    began = time.monotonic()
    facts = hosts.facts_of(hosts.read_facts(layout.host, shell))
    moves.note(layout, seen_at=timezone.now())
    plan = touched.plan_of(layout, facts)
    # What is there goes, also when a disk of it is dead; that one is told at the end.
    lost = gone(plan.claims, facts)
    facts = as_now(facts, plan.claims)
    down = without(stack.teardown(relocated(plan, facts), facts), lost)
    look = apply.Look(facts, began)
    steps.run(layout, down, shell, StepLog.Kind.TEARDOWN, look, claims=plan.claims)
    return plan, hosts.read_facts(layout.host, shell)


def _not_blank(layout: Layout, plan: stack.StackPlan, facts: HostFacts) -> str:
    """In words, or ""."""
    lost = gone(plan.claims, facts)
    here = [claim for claim in plan.claims if claim not in lost]
    left = blank.not_blank(here, facts, layout.name)
    said = ["Not blank: " + "; ".join(left)] if left else []
    if lost:
        disks = ", ".join(_words(layout, claim) for claim in lost)
        one = len(lost) == 1
        said.append(
            f"{disks} {'is' if one else 'are'} not on {layout.host} any more, so nobody can prove"
            f" {'it' if one else 'them'} blank. Plug {'it' if one else 'them'} in again and tear down again; where"
            f" that cannot be, an owner may release the host."
        )
    return ". ".join(said)


def _words(layout: Layout, claim: Claim) -> str:
    """A disk by what stands on its label."""
    row = layout.host.devices.filter(identity=claim.identity).first()
    known = f"serial {row.serial}" if row and row.serial else claim.identity
    return f"{claim.node} ({claim.model or 'model unknown'}, {known})"


def _end(layout: Layout, said: str, **fields: object) -> float | None:
    """The disks are blank: over, unless a person has something to take back."""
    if person.takes_back(layout):
        return person.WAITS_S
    moves.layout(layout, LayoutPhase.DONE, said, trouble="", needs_person="", **fields)
    return None


def again(layout: Layout, reason: Reason, text: str) -> bool:
    """Whether what could not be taken down is tried once more; then that is noted."""
    if layout.teardown_tries >= TRIES or reason in NO_USE_TO_TRY:
        return False
    moves.note(layout, teardown_tries=layout.teardown_tries + 1, trouble=text)
    return True


def stick(layout: Layout, reason: Reason, text: str) -> float | None:
    """A try failed. The last one leaves the layout stuck: its host stays locked until a person looked."""
    if again(layout, reason, text):
        return BETWEEN_TRIES_S
    moves.layout(layout, LayoutPhase.STUCK, text, trouble=text)
    return None
