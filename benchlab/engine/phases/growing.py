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
from benchlab.engine.checks.cut_off import cut_off
from benchlab.engine.phases import step_log
from benchlab.hosts import services as hosts
from benchlab.runs import moves
from benchlab.runs.models import Layout, StepLog

LOOK_EVERY_S = 5.0


def begin(layout: Layout) -> float:
    """The next stage: the layer takes its new disks. What the kernel does then goes on by itself."""
    number = layout.stage + 1
    plan, shell = planning.stored(layout), hosts.connect(layout.host)
    # What is not in order would be spread to more disks
    known = condition.before(layout, shell).ails
    planning.as_confirmed(
        layout, new_claims(plan, number), preflight.whole(layout, shell, known=known)
    )
    if list(known) != layout.degraded:
        moves.note(layout, degraded=list(known))
    _apply(layout, plan.stages[number - 1].grow, shell, f"grow {number}")
    snapshot = hosts.read_facts(layout.host, shell)
    found = stack.awaited(plan, hosts.facts_of(snapshot), number)
    # Else `facts_ready` stays: what is larger at once is compared with what it was.
    ready: dict[str, Any] = {"facts_ready": snapshot} if found else {}
    tell(layout, found, stage=number, settled=False, glance="", looked_at=None, **ready)
    return 0.0


def _known(layout: Layout) -> list[str]:
    """Faults at the last look, where that is measured all the same."""
    return layout.degraded if condition.measures_on(layout) else []


def settle(layout: Layout) -> float:
    """Look whether the kernel is through; then the layers above follow, and all is verified."""
    shell = hosts.connect(layout.host)
    plan, facts = planning.stored(layout), preflight.look(layout, shell)
    found = stack.awaited(plan, facts, layout.stage)
    if found:
        tell(layout, found, store=moves.later)
        return min(LOOK_EVERY_S, max(1.0, _eta_s(found) or LOOK_EVERY_S))
    if layout.followed < layout.stage:
        tell(layout, found)
        _follow(layout, plan, shell)
    else:
        tell(layout, found, store=moves.later, settled=True)
    return 0.0


def watch(layout: Layout) -> None:
    """Tell how far the kernel is, and do nothing: the campaign is paused."""
    if not layout.settled:
        facts = preflight.look(layout, hosts.connect(layout.host))
        found = stack.awaited(planning.stored(layout), facts, layout.stage)
        tell(layout, found, store=moves.later)


def _follow(layout: Layout, plan: stack.StackPlan, shell: Shell) -> None:
    number = layout.stage
    _apply(layout, plan.stages[number - 1].follow, shell, f"follow {number}")
    snapshot = hosts.read_facts(layout.host, shell)
    before, after = planning.at_ready(layout), hosts.facts_of(snapshot)
    found = stack.verify_stack(plan, after, stage=number) + stack.not_grown(
        plan, number, before, after
    )
    wrong = [one for one in found if one not in _known(layout)]
    if wrong:
        said = "; ".join(wrong)
        raise AgentError(
            f"All commands of the growth succeeded, but verification found: {said}",
            Reason.VERIFY_FAILED,
        )
    moves.note(layout, followed=number, facts_ready=snapshot, glance="", looked_at=None)


def _apply(layout: Layout, commands: Sequence[Step], shell: Shell, part: str) -> None:
    if layout.steps.filter(kind=StepLog.Kind.APPLY, part=part).exists():
        then = "The layout is taken down; retry the runs."
        raise cut_off(layout.trouble, "the layout grew", then)
    step_log.run(layout, commands, shell, StepLog.Kind.APPLY, part=part)


def tell(
    layout: Layout,
    found: Sequence[Progress],
    *,
    store: Callable[..., None] = moves.note,
    **fields: Any,
) -> None:
    """Note how far the kernel is, with `fields`; its pages look again.

    `store`: moves.later where nothing is done on the host before the step's end, or a move, stores it.
    """
    now, eta_s = timezone.now(), _eta_s(found)
    until = None if eta_s is None else now + timedelta(seconds=eta_s)
    progress = [asdict(one) for one in found]
    store(layout, told=True, progress=progress, awaited_until=until, seen_at=now, **fields)


def _eta_s(found: Sequence[Progress]) -> float | None:
    """Seconds until all of it is over; None when the host cannot tell."""
    known = [one.eta_s for one in found if one.eta_s is not None]
    return max(known) if known and len(known) == len(found) else None
