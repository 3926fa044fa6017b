"""Take a layout down, top first, ours only, and prove that its devices are blank; or say that it is stuck."""

from __future__ import annotations

import time
from dataclasses import replace

from agents.contracts import AgentError, Claim, Reason, Shell
from agents.facts.model import HostFacts
from agents.lasting import lasting
from agents.plans import blank, stack
from agents.plans.lost_disks import as_now, gone, without
from agents.plans.relocated import relocated
from agents.safety import apply
from benchlab.engine.checks import touched_disks
from benchlab.engine.phases import ending, manual_steps, step_log
from benchlab.hosts import services as hosts
from benchlab.hosts.models import FactSnapshot
from benchlab.runs import moves
from benchlab.runs.models import Layout, StepLog
from benchlab.runs.states import LayoutPhase, Outcome
from benchlab.runs.verdict import Verdict


def nothing_built(layout: Layout) -> bool:
    """No command of it ever began. False: a person has something to take back."""
    ending.end_open(layout, _verdict(layout))
    return _end(layout, "nothing was built")


def take_down(layout: Layout) -> bool:
    """One try. Running it again after it was cut off anywhere does what is left to do. False: as above."""
    shell = hosts.connect(layout.host)
    started = ending.on_host_perhaps(layout)
    for attempt in started:
        ending.stop(layout, attempt, shell)
    ending.end_open(layout, _verdict(layout))
    plan, after = clear(layout, shell)
    for attempt in started:
        ending.forget(layout, attempt, shell)
    over = "taken down, every device proven blank" if plan.claims else "taken down"
    return _end(layout, over, facts_after=after)


def _verdict(layout: Layout) -> Verdict:
    return Verdict(Outcome(layout.outcome), layout.reason, layout.reason_text)


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
    facts = _look(layout, shell)
    moves.seen(layout)
    plan = touched_disks.plan_of(layout, facts)
    # What is there goes, also when a disk of it is dead; that one is told at the end.
    lost = gone(plan.claims, facts)
    facts = as_now(facts, plan.claims)
    down = without(stack.teardown(relocated(plan, facts), facts), lost)
    look = apply.Look(facts, began)
    step_log.run(layout, down, shell, StepLog.Kind.TEARDOWN, look, claims=plan.claims)
    return plan, hosts.read_facts(layout.host, shell)


def _look(layout: Layout, shell: Shell) -> HostFacts:
    """The host now; which programs it has, it told when the layout was planned."""
    if layout.facts_planned_id is None:
        return hosts.facts_of(hosts.read_facts(layout.host, shell))
    return replace(hosts.look(shell), tools=hosts.facts_at(layout.facts_planned_id).tools)


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


def _end(layout: Layout, said: str, **fields: object) -> bool:
    """The disks are blank: over, unless a person has something to take back."""
    if manual_steps.takes_back(layout):
        return False
    moves.layout(layout, LayoutPhase.DONE, said, trouble="", needs_person="", **fields)
    return True
