"""Which disks commands of a layout have touched: no other is taken down, and none is built on that changed unseen."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import QuerySet

from agents.contracts import AgentError, Claim, Reason
from agents.facts.model import HostFacts
from agents.plans import plan_fingerprint, stack
from agents.plans.applied_part import reached
from benchlab.engine.checks import planning
from benchlab.hosts import services as hosts
from benchlab.runs.models import Layout, StepLog


def as_confirmed(layout: Layout, claims: Sequence[Claim], facts: HostFacts) -> None:
    """Before the first command on these disks: nothing may be there that the plan's page did not show.

    Raises AgentError. The guard does not see to it: it lets a plain file system be wiped, because a person agreed.
    """
    if found := plan_fingerprint.changed(claims, _planned(layout), facts):
        nodes = ", ".join(claim.node for claim in found)
        raise AgentError(
            f"{nodes} of {layout.host} changed after the plan was confirmed, so nothing was written there. "
            "Look at the host's disks, then retry: the new plan will be shown before it runs.",
            Reason.PLAN_STALE,
        )


def plan_of(layout: Layout, facts: HostFacts | None) -> stack.StackPlan:
    """As much of the layout's plan as was ever begun. Raises PlanError when there is no plan.

    `facts`: the host's, read a moment ago; None when nobody can read it.
    """
    plan = planning.stored(layout)
    sure, perhaps = touched(layout)
    if facts is not None:
        # Nobody knows whether the command ran: what is on the disk now decides.
        unsure = [claim for claim in plan.claims if claim.identity in perhaps - sure]
        perhaps -= {
            claim.identity for claim in plan_fingerprint.changed(unsure, _planned(layout), facts)
        }
    return reached(plan, sure | perhaps)


def begun(layout: Layout) -> QuerySet[StepLog]:
    """The commands that built the layout, or began to, as it stands: those of a build that was taken back are none."""
    rows = layout.steps.filter(kind=StepLog.Kind.APPLY).order_by("pk")
    return rows[layout.discarded :]


def touched(layout: Layout) -> tuple[set[str], set[str]]:
    """Identities of disks that a command which built the layout has claimed: and it ran, or perhaps it ran."""
    sure, perhaps = set[str](), set[str]()
    rows = begun(layout).values_list("destroys", "exit_code")
    for identities, exit_code in rows:
        (perhaps if exit_code is None else sure).update(identities)
    return sure, perhaps


def _planned(layout: Layout) -> HostFacts | None:
    return hosts.facts_at(layout.facts_planned_id) if layout.facts_planned_id else None
