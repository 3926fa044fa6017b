# SPDX-License-Identifier: Apache-2.0
"""Manual steps of a layout: ask a person, take their confirmation, check it. No task waits meanwhile.

`Layout.needs_person` is the text while somebody is needed, `person_said_at` when somebody said that it is done, and
`person_trouble` why that was not accepted. The phase stays what it is, so the host stays locked.
"""

from __future__ import annotations

from typing import Any

from agents.contracts import AgentError, ManualTask, Reason, Shell
from agents.facts.model import HostFacts
from agents.plans import stack
from benchlab.engine.checks import planning
from benchlab.engine.phases import step_log
from benchlab.runs import transitions
from benchlab.runs.models import Layout, StepLog

REFUSAL_REASONS = {Reason.COMMAND_FAILED, Reason.GUARD_REFUSED}


def is_waiting(layout: Layout) -> bool:
    return bool(layout.needs_person) and layout.person_said_at is None


def request_step(layout: Layout, number: int, text: str) -> None:
    """Wait at layer `number` (1-based, bottom up); what is below it stands and was verified."""
    applied = planning.apply_steps(layout).count()
    _store_request(layout, text, asked=number, built=number - 1, applied=applied)


def _store_request(layout: Layout, text: str, trouble: str = "", **fields: Any) -> None:
    request = {"needs_person": text, "person_said_at": None, "person_trouble": trouble}
    transitions.store_fields(layout, notify=True, **request, **fields)


def accept_step(layout: Layout, shell: Shell) -> bool:
    """True when the check agrees with the person. If not, the reason is stored and the layout waits on."""
    placed = planning.stored_plan(layout).layers[layout.asked - 1]
    step = stack.manual_task(placed)
    if step and (why := _check_failure(layout, step, shell)):
        _store_request(layout, layout.needs_person, why)
        return False
    transitions.store_fields(
        layout, needs_person="", person_said_at=None, person_trouble="", built=layout.asked
    )
    return True


def _check_failure(layout: Layout, step: ManualTask, shell: Shell) -> str:
    """Reason why the check failed; "" when it passed. Raises AgentError when the host does not answer."""
    if step.check is None:
        return ""
    try:
        step_log.run_steps(layout, [step.check], shell, StepLog.Kind.CHECK)
    except AgentError as error:
        if error.reason in REFUSAL_REASONS:
            return str(error)
        raise
    output = layout.steps.filter(kind=StepLog.Kind.CHECK).latest("pk").stdout
    if step.expect in output:
        return ""
    words = " ".join(str(word) for word in step.check.argv)
    return f"{words} did not print {step.expect!r}; it printed: {output.strip()[:500] or 'nothing'}"


def check_unchanged(layout: Layout, plan: stack.StackPlan, facts: HostFacts) -> None:
    """Check that what stood stayed while somebody was at the host. Raises AgentError."""
    assert layout.facts_planned, "what was built was planned"
    if facts.boot_id != layout.facts_planned.boot_id:
        raise AgentError(
            f"{layout.host} was rebooted while a layout was built on it: put the manual step below all other layers.",
            Reason.HOST_REBOOTED,
        )
    if differences := stack.verify_stack(plan, facts, upto=layout.built):
        message = "; ".join(differences)
        raise AgentError(
            f"The host changed during the manual step: {message}", Reason.VERIFY_FAILED
        )


def request_undo(layout: Layout) -> bool:
    """Ask a person, once the disks are blank, to restore what else they must. True if the layout waits for that."""
    if not layout.asked or layout.person_said_at:
        return False
    placed = planning.stored_plan(layout).layers[: layout.asked]
    steps = [step for layer in reversed(placed) if (step := stack.manual_task(layer))]
    texts = [step.back for step in steps if step.back]
    if texts:
        _store_request(layout, "\n\n".join(texts))
    return bool(texts)
