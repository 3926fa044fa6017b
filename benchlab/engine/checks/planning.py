# SPDX-License-Identifier: Apache-2.0
"""A layout's plan from facts, for its preview and again right before apply; and how much of it was begun: no other disk
is taken down, and none is built on that changed unseen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db.models import QuerySet

from agents import options
from agents.contracts import AgentError, Claim, GuardError, PlanError, Reason, Target
from agents.drivers import packages, registry
from agents.facts.model import HostFacts
from agents.plans import applied_part as plans
from agents.plans import fits, plan_fingerprint, stack
from agents.plans.applied_part import reached
from agents.plans.chain import specs, stage_specs
from agents.safety.guard import Spare, refusals
from benchlab.campaigns.models import Run
from benchlab.hosts import discovery, spare_disks
from benchlab.hosts.models import FactSnapshot
from benchlab.runs.models import Layout, StepLog
from benchlab.runs.states import LayoutPhase
from benchlab.topologies import moments
from benchlab.workers.lru_cache import LruCache

# Attribute of a row: its plan's JSON, and the plan parsed from it.
PARSED_PLAN = "_plan_as_read"


def plan_layout(layout: Layout, facts: HostFacts) -> stack.StackPlan:
    """Plan and guard-check `layout` on a host with these facts. Raises AgentError saying what does not fit."""
    plan = plan_stack(layout, facts, spare_disks.host_spares(layout.host))
    _check_room(layout, plan)
    return plan


def plan_stack(layout: Layout, facts: HostFacts, spares: Mapping[str, Spare]) -> stack.StackPlan:
    """Plan the layout's layers as `plan_layout` does, whatever runs on them."""
    if lacking := packages.missing_programs(
        stack.required_programs(specs(layout.stack)), facts
    ).sentence(str(layout.host)):
        raise AgentError(lacking, Reason.TOOL_MISSING)
    plan = stack.plan_stack(
        specs(layout.stack),
        layout.name,
        facts,
        spares.values(),
        stage_specs(layout.stages),
        layout.schedulers,
    )
    refused = [text for step in plan.steps for text in refusals(step, facts, spares, layout.name)]
    if refused:
        raise GuardError("; ".join(dict.fromkeys(refused)))
    return plan


def _check_room(layout: Layout, plan: stack.StackPlan) -> None:
    """Check that every run fits the target, whose size is known now. Raises PlanError naming the workload."""
    runs = Run.objects.filter(attempts__layout=layout).distinct().select_related("workload")
    for run in runs.order_by("position"):
        moment = moments.parse_moment(run.stage)
        built = options.build_options(registry.tool(run.tool).Options, run.options)
        target = plan.target_at(moment.stage, moment.growing)
        if message := fits.too_large(specs(layout.stack), run.tool, built, target):
            raise PlanError(f"Workload {run.workload.name}: {message}")


def stored_plan(layout: Layout) -> stack.StackPlan:
    """The plan that `layout` was built by. Raises PlanError when there is none."""
    if layout.phase == LayoutPhase.READY and "plan" in layout.get_deferred_fields():
        return _built_plans(layout.pk)
    read: tuple[object, stack.StackPlan] | None = layout.__dict__.get(PARSED_PLAN)
    if read is None or read[0] is not layout.plan:
        read = layout.__dict__[PARSED_PLAN] = (layout.plan, plans.from_json(layout.plan or {}))
    return read[1]


def _read_built_plan(layout_id: int) -> stack.StackPlan:
    plan = Layout.objects.values_list("plan", flat=True).get(pk=layout_id)
    return plans.from_json(plan or {})


# Of a layout that stands: its plan stays as it is, and every step of every run asks for it.
_built_plans = LruCache(_read_built_plan)


def remember_built(layout: Layout, ready: FactSnapshot) -> None:
    """Remember plan and facts of a layout that was just built, so that its first run need not read them again."""
    _built_plans.store(layout.pk, stored_plan(layout))
    discovery.facts_at.store(ready.pk, discovery.facts_of(ready))


def facts_at_ready(layout: Layout) -> HostFacts:
    """Facts of the host when the layout became ready."""
    assert layout.facts_ready_id, "a layout that is ready was looked at"
    return discovery.facts_at(layout.facts_ready_id)


def run_target(layout: Layout, run: Run) -> Target:
    """Target of `run` at its moment in the life of `layout`. Raises PlanError when there is no plan."""
    moment = moments.parse_moment(run.stage)
    return stored_plan(layout).target_at(moment.stage, moment.growing)


def check_confirmed(layout: Layout, claims: Sequence[Claim], facts: HostFacts) -> None:
    """Check before the first command that the disks hold nothing that the plan's page did not show.

    Raises AgentError. The guard does not see to it: it lets a plain file system be wiped, because a person agreed.
    """
    if changed := plan_fingerprint.changed_claims(claims, facts_at_planning(layout), facts):
        nodes = ", ".join(claim.node for claim in changed)
        raise AgentError(
            f"{nodes} of {layout.host} changed after the plan was confirmed, so nothing was written there. "
            "Look at the host's disks, then retry: the new plan will be shown before it runs.",
            Reason.PLAN_STALE,
        )


def begun_plan(layout: Layout, facts: HostFacts | None) -> stack.StackPlan:
    """The part of the layout's plan that was ever begun. Raises PlanError if there is no plan.

    `facts`: the host's, read a moment ago; None if nobody can read it.
    """
    plan = stored_plan(layout)
    sure, perhaps = touched_disks(layout)
    if facts is not None:
        # Nobody knows whether the command ran: what is on the disk now decides.
        unsure = [claim for claim in plan.claims if claim.identity in perhaps - sure]
        perhaps -= {
            claim.identity
            for claim in plan_fingerprint.changed_claims(unsure, facts_at_planning(layout), facts)
        }
    return reached(plan, sure | perhaps)


def apply_steps(layout: Layout) -> QuerySet[StepLog]:
    """The commands that built the layout, or began to, as it stands: those of a build that was taken back are none."""
    rows = layout.steps.filter(kind=StepLog.Kind.APPLY).order_by("pk")
    return rows[layout.discarded :]


def touched_disks(layout: Layout) -> tuple[set[str], set[str]]:
    """Identities of disks claimed by build commands: by those that ran, and by those that perhaps ran."""
    sure, perhaps = set[str](), set[str]()
    rows = apply_steps(layout).values_list("destroys", "exit_code")
    for identities, exit_code in rows:
        (perhaps if exit_code is None else sure).update(identities)
    return sure, perhaps


def facts_at_planning(layout: Layout) -> HostFacts | None:
    """Facts of the host when the layout was last planned; None if it is not planned."""
    if layout.facts_planned_id is None:
        return None
    # What was planned by in this very step is at hand, and needs not be read back.
    snapshot: FactSnapshot | None = layout._state.fields_cache.get("facts_planned")
    if snapshot is not None:
        return discovery.facts_of(snapshot)
    return discovery.facts_at(layout.facts_planned_id)
