# SPDX-License-Identifier: Apache-2.0
"""Take a layout down, top first, ours only, and prove that its devices are blank; or say that it is stuck."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from agents.contracts import RETRYABLE, AgentError, Reason, Shell
from agents.facts.model import HostFacts
from agents.plans import stack
from agents.plans.layout_faults import (
    foreign_uses,
    missing_claims,
    relocated,
    steps_without,
    with_current_names,
)
from agents.safety import apply
from agents.ssh.lasting_shell import lasting
from benchlab.engine.checks import leftovers, planning
from benchlab.engine.phases import end_attempts, manual_steps, step_log
from benchlab.hosts import discovery, ssh_access
from benchlab.hosts.models import FactSnapshot
from benchlab.runs import transitions
from benchlab.runs.models import Layout, StepLog
from benchlab.runs.states import LayoutPhase, Outcome
from benchlab.runs.verdict import Verdict


def end_unbuilt(layout: Layout) -> bool:
    """End a layout of which no command ever began. False: a person has something to take back."""
    end_attempts.end_open_attempts(layout, _layout_verdict(layout))
    return _finish_teardown(layout, "nothing was built")


def tear_down(layout: Layout) -> bool:
    """Try once to take the layout down. False: a person has something to take back.

    A repeated call after an interruption does what is left to do.
    """
    shell = ssh_access.connect_to_host(layout.host)
    started = end_attempts.attempts_with_spool(layout)
    for attempt in started:
        end_attempts.stop_attempt(layout, attempt, shell)
    end_attempts.end_open_attempts(layout, _layout_verdict(layout))
    plan, after = clear_disks(layout, shell)
    for attempt in [*started, *end_attempts.attempts_removed_before(layout, after.boot_id)]:
        end_attempts.remove_spool(layout, attempt, shell)
    over = "taken down, every device proven blank" if plan.claims else "taken down"
    return _finish_teardown(layout, over, facts_after=after)


def _layout_verdict(layout: Layout) -> Verdict:
    return Verdict(Outcome(layout.outcome), layout.reason, layout.reason_text)


def clear_disks(layout: Layout, shell: Shell) -> tuple[stack.StackPlan, FactSnapshot]:
    """Take down what was there and prove it: what that was, and the host afterwards. Raises AgentError."""
    with lasting(shell) as quick:
        plan, after = _run_teardown(layout, quick)
    facts = discovery.facts_of(after)
    if error := leftovers.leftover_error(layout, plan, facts):
        raise error
    if not_restored := stack.not_restored(plan, facts):
        raise AgentError("Not as it was before: " + "; ".join(not_restored), Reason.NOT_BLANK)
    return plan, after


def _run_teardown(layout: Layout, shell: Shell) -> tuple[stack.StackPlan, FactSnapshot]:
    """Take down what is there. Returns the plan of that, and the facts of the host afterwards."""
    began = time.monotonic()
    facts = _read_facts(layout, shell)
    transitions.note_response(layout)
    plan = planning.begun_plan(layout, facts)
    # What is there goes, even if a disk of it is dead, which is reported at the end.
    lost = missing_claims(plan.claims, facts)
    facts = with_current_names(facts, plan.claims, layout.name)
    down = steps_without(stack.teardown_stack(relocated(plan, facts), facts), lost)
    look = apply.Look(facts, began)
    try:
        step_log.run_steps(layout, down, shell, StepLog.Kind.TEARDOWN, look, claims=plan.claims)
    except AgentError as error:
        if error.reason not in RETRYABLE:
            raise _with_cause(layout, plan, shell, error) from error
        raise
    return plan, discovery.read_facts(layout.host, shell)


def _with_cause(
    layout: Layout, plan: stack.StackPlan, shell: Shell, error: AgentError
) -> AgentError:
    """Add to the error what a look at the host shows: a disk that was pulled out, or who holds what is to go."""
    now = discovery.read_current_facts(shell)
    if cause := leftovers.still_in_kernel(layout, plan, now):
        return AgentError(f"{cause} The last command that failed: {error}", Reason.NEEDS_REBOOT)
    if cause := "; ".join(foreign_uses(plan, now, shell)):
        end = f"End that if it is no longer needed, then {leftovers.RETRY_HINT}."
        return AgentError(f"{error}. In use: {cause}. {end}", error.reason)
    return error


def _read_facts(layout: Layout, shell: Shell) -> HostFacts:
    """Read the host's facts now. Its programs are those that it reported when the layout was planned."""
    planned = planning.facts_at_planning(layout)
    if planned is None:
        return discovery.facts_of(discovery.read_facts(layout.host, shell))
    return replace(discovery.read_current_facts(shell), tools=planned.tools)


def _finish_teardown(layout: Layout, reason: str, **fields: Any) -> bool:
    """Finish once the disks are blank, unless a person has something to take back."""
    if manual_steps.request_undo(layout):
        return False
    transitions.move_layout(layout, LayoutPhase.DONE, reason, trouble="", needs_person="", **fields)
    return True
