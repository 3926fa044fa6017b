# SPDX-License-Identifier: Apache-2.0
"""Take a layout down, top first, ours only, and prove that its devices are blank; or say that it is stuck."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from agents.contracts import RETRYABLE, AgentError, Reason, Shell
from agents.facts.model import HostFacts
from agents.plans import stack
from agents.plans.held import foreign_uses
from agents.plans.lost_disks import missing_claims, relocated, steps_without, with_current_names
from agents.safety import apply
from agents.ssh.lasting_shell import lasting
from benchlab.engine.checks import left_over, planning
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
    for attempt in [*started, *ending.back_perhaps(layout, after.boot_id)]:
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
    if error := left_over.error(layout, plan, found):
        raise error
    if left := stack.not_restored(plan, found):
        raise AgentError("Not as it was before: " + "; ".join(left), Reason.NOT_BLANK)
    return plan, after


def _take_down(layout: Layout, shell: Shell) -> tuple[stack.StackPlan, FactSnapshot]:
    """Take down what is there. Returns the plan of that, and the facts of the host afterwards."""
    began = time.monotonic()
    facts = _look(layout, shell)
    moves.seen(layout)
    plan = planning.plan_of(layout, facts)
    # What is there goes, also when a disk of it is dead; that one is told at the end.
    lost = missing_claims(plan.claims, facts)
    facts = with_current_names(facts, plan.claims, layout.name)
    down = steps_without(stack.teardown_stack(relocated(plan, facts), facts), lost)
    look = apply.Look(facts, began)
    try:
        step_log.run(layout, down, shell, StepLog.Kind.TEARDOWN, look, claims=plan.claims)
    except AgentError as error:
        if error.reason not in RETRYABLE:
            raise _with_cause(layout, plan, shell, error) from error
        raise
    return plan, hosts.read_facts(layout.host, shell)


def _with_cause(
    layout: Layout, plan: stack.StackPlan, shell: Shell, error: AgentError
) -> AgentError:
    """The error with what a look at the host adds: a disk that was pulled out, or who holds what is to go."""
    now = hosts.look(shell)
    if told := left_over.stands(layout, plan, now):
        return AgentError(f"{told} The last command that failed: {error}", Reason.NEEDS_REBOOT)
    if told := "; ".join(foreign_uses(plan, now, shell)):
        end = f"End that if it is no longer needed, then {left_over.AGAIN}."
        return AgentError(f"{error}. In use: {told}. {end}", error.reason)
    return error


def _look(layout: Layout, shell: Shell) -> HostFacts:
    """The host now; which programs it has, it told when the layout was planned."""
    planned = planning.at_planned(layout)
    if planned is None:
        return hosts.facts_of(hosts.read_facts(layout.host, shell))
    return replace(hosts.look(shell), tools=planned.tools)


def _end(layout: Layout, said: str, **fields: Any) -> bool:
    """The disks are blank: over, unless a person has something to take back."""
    if manual_steps.takes_back(layout):
        return False
    moves.layout(layout, LayoutPhase.DONE, said, trouble="", needs_person="", **fields)
    return True
