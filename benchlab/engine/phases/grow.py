# SPDX-License-Identifier: Apache-2.0
"""A layout's life between its runs: wait until the kernel is through, grow, let the layers above follow.

Each function does one short thing and says when to look again; nothing here waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from django.utils import timezone

from agents.contracts import AgentError, Progress, Reason, Shell, Step
from agents.plans import stack
from agents.plans.applied_part import new_claims
from benchlab.engine.checks import condition, planning, preflight
from benchlab.engine.decisions import interruption_error
from benchlab.engine.phases import step_log
from benchlab.hosts import discovery, ssh_access
from benchlab.runs import transitions
from benchlab.runs.models import Layout, StepLog

CHECK_INTERVAL_S = 5.0


def begin_growth(layout: Layout) -> float:
    """Begin the next stage: the layer takes its new disks. What the kernel does then goes on by itself."""
    number = layout.stage + 1
    plan, shell = planning.stored_plan(layout), ssh_access.connect_to_host(layout.host)
    # What is not in order would be spread to more disks
    faults = condition.check_before_run(layout, shell).ails
    planning.check_confirmed(
        layout, new_claims(plan, number), preflight.verify_layout(layout, shell, accepted=faults)
    )
    if list(faults) != layout.degraded:
        transitions.store_fields(layout, degraded=list(faults))
    _run_commands(layout, plan.stages[number - 1].grow, shell, f"grow {number}")
    snapshot = discovery.read_facts(layout.host, shell)
    progress = stack.awaited(plan, discovery.facts_of(snapshot), number)
    # Else `facts_ready` stays: what is larger at once is compared with what it was.
    ready: dict[str, Any] = {"facts_ready": snapshot} if progress else {}
    note_progress(layout, progress, stage=number, settled=False, glance="", looked_at=None, **ready)
    return 0.0


def _accepted_faults(layout: Layout) -> list[str]:
    """Faults at the last look, where that is measured all the same."""
    return layout.degraded if condition.measures_degraded(layout) else []


def settle_layers(layout: Layout) -> float:
    """Check whether the kernel is through; then the layers above follow, and all is verified."""
    shell = ssh_access.connect_to_host(layout.host)
    plan, facts = planning.stored_plan(layout), preflight.read_same_boot(layout, shell)
    progress = stack.awaited(plan, facts, layout.stage)
    if progress:
        note_progress(layout, progress, store=transitions.store_later)
        return min(CHECK_INTERVAL_S, max(1.0, _eta_s(progress) or CHECK_INTERVAL_S))
    if layout.followed < layout.stage:
        note_progress(layout, progress)
        _grow_layers_above(layout, plan, shell)
    else:
        note_progress(layout, progress, store=transitions.store_later, settled=True)
    return 0.0


def store_progress(layout: Layout) -> None:
    """Store the kernel's progress and do nothing else: the campaign is paused."""
    if not layout.settled:
        facts = preflight.read_same_boot(layout, ssh_access.connect_to_host(layout.host))
        progress = stack.awaited(planning.stored_plan(layout), facts, layout.stage)
        note_progress(layout, progress, store=transitions.store_later)


def _grow_layers_above(layout: Layout, plan: stack.StackPlan, shell: Shell) -> None:
    number = layout.stage
    _run_commands(layout, plan.stages[number - 1].follow, shell, f"follow {number}")
    snapshot = discovery.read_facts(layout.host, shell)
    before, after = planning.facts_at_ready(layout), discovery.facts_of(snapshot)
    faults = stack.verify_stack(plan, after, stage=number) + stack.not_grown(
        plan, number, before, after
    )
    wrong = [fault for fault in faults if fault not in _accepted_faults(layout)]
    if wrong:
        message = "; ".join(wrong)
        raise AgentError(
            f"All commands of the growth succeeded, but verification found: {message}",
            Reason.VERIFY_FAILED,
        )
    transitions.store_fields(
        layout, followed=number, facts_ready=snapshot, glance="", looked_at=None
    )


def _run_commands(layout: Layout, commands: Sequence[Step], shell: Shell, part: str) -> None:
    if layout.steps.filter(kind=StepLog.Kind.APPLY, part=part).exists():
        then = "The layout is taken down; retry the runs."
        raise interruption_error(layout.trouble, "the layout grew", then)
    step_log.run_steps(layout, commands, shell, StepLog.Kind.APPLY, part=part)


def note_progress(
    layout: Layout,
    awaited: Sequence[Progress],
    *,
    store: Callable[..., None] = transitions.store_fields,
    **fields: Any,
) -> None:
    """Note how far the kernel is, with `fields`; its pages look again.

    `store`: transitions.store_later where nothing is done on the host before the step's end, or a move, stores it.
    """
    now, eta_s = timezone.now(), _eta_s(awaited)
    until = None if eta_s is None else now + timedelta(seconds=eta_s)
    progress = [asdict(item) for item in awaited]
    store(layout, notify=True, progress=progress, awaited_until=until, seen_at=now, **fields)


def _eta_s(awaited: Sequence[Progress]) -> float | None:
    """Seconds until all of it is over; None when the host cannot tell."""
    etas = [item.eta_s for item in awaited if item.eta_s is not None]
    return max(etas) if etas and len(etas) == len(awaited) else None
