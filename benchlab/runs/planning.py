"""A layout's plan from fresh facts: for the preview that a person confirms, and again right before apply."""

from __future__ import annotations

from dataclasses import replace

from django.utils import timezone

from agents import fits, options, packages, registry, stack
from agents import stored as plans
from agents.blank import not_blank
from agents.chain import specs, stage_specs
from agents.contracts import AgentError, GuardError, PlanError, Reason, Shell, Target
from agents.facts.model import HostFacts
from agents.guard import refusals
from benchlab.campaigns.models import Run
from benchlab.hosts import services as hosts
from benchlab.hosts.models import FactSnapshot
from benchlab.runs import events, moves
from benchlab.runs.lease import lease
from benchlab.runs.models import Layout
from benchlab.runs.states import LayoutPhase
from benchlab.topologies import moments


def make(layout: Layout, facts: HostFacts) -> stack.StackPlan:
    """Plan and guard-check `layout` on a host with these facts. Raises AgentError saying what does not fit."""
    if lacking := packages.missing(stack.needs(specs(layout.stack)), facts).words(str(layout.host)):
        raise AgentError(lacking, Reason.TOOL_MISSING)
    spares = hosts.spares(layout.host)
    plan = stack.plan(
        specs(layout.stack), layout.name, facts, spares.values(), stage_specs(layout.stages)
    )
    said = [text for step in plan.steps for text in refusals(step, facts, spares, layout.name)]
    if said:
        raise GuardError("; ".join(dict.fromkeys(said)))
    _check_room(layout, plan)
    return plan


def _check_room(layout: Layout, plan: stack.StackPlan) -> None:
    """Every run must fit what it will work on, whose size is known now. Raises PlanError naming the workload."""
    runs = Run.objects.filter(attempts__layout=layout).distinct().select_related("workload")
    for run in runs.order_by("position"):
        moment = moments.parse(run.stage)
        built = options.build(registry.tool(run.tool).Options, run.options)
        target = plan.target_at(moment.stage, moment.growing)
        if said := fits.too_large(specs(layout.stack), run.tool, built, target):
            raise PlanError(f"Workload {run.workload.name}: {said}")


def stored(layout: Layout) -> stack.StackPlan:
    """The plan that `layout` was built by. Raises PlanError when there is none."""
    return plans.from_json(layout.plan or {})


def target_of(layout: Layout, run: Run) -> Target:
    """What `run` works on at its moment in the life of `layout`. Raises PlanError when there is no plan."""
    moment = moments.parse(run.stage)
    return stored(layout).target_at(moment.stage, moment.growing)


def preview(layout_id: int) -> None:
    """Plan a draft and store the plan, or why there is none. Anything but a draft is left alone."""
    layout = Layout.objects.select_related("host__credential").get(pk=layout_id)
    if layout.phase != LayoutPhase.DRAFT:
        return
    found: dict[str, object] = {"plan": None, "plan_fingerprint": "", "plan_error": ""}
    try:
        snapshot = hosts.read_facts(layout.host)
        plan = make(layout, hosts.facts_of(snapshot))
        found |= {
            "plan": plans.to_json(plan),
            "plan_fingerprint": plan.fingerprint,
            "facts_planned": snapshot,
        }
    except AgentError as error:
        found["plan_error"] = str(error)
    Layout.objects.filter(pk=layout_id, phase=LayoutPhase.DRAFT).update(
        planned_at=timezone.now(), **found
    )
    events.changed(layout.campaign_id)


def preview_once(layout_id: int) -> None:
    """The same for a worker: where another is at it already, that one will do, for a plan that takes long is asked for
    again."""
    with lease(layout_id) as held:
        if held:
            preview(layout_id)


def held(layout: Layout, shell: Shell) -> FactSnapshot:
    """The host's facts, read while no other layout is at work on that machine. Raises moves.MachineBusy."""
    if layout.facts_planned:
        moves.claim(layout, layout.facts_planned.boot_id)
    snapshot = hosts.read_facts(layout.host, shell)
    if moves.claim(layout, snapshot.boot_id):  # until now another layout may have been at it
        snapshot = hosts.read_facts(layout.host, shell)
    return snapshot


def confirmed(layout: Layout, shell: Shell) -> tuple[stack.StackPlan, FactSnapshot]:
    """The plan made anew from facts read now, with the fingerprint that a person confirmed.

    Raises PLAN_STALE when it is another plan.
    """
    snapshot = held(layout, shell)
    facts = hosts.facts_of(snapshot)
    plan = make(layout, facts)
    if plan.fingerprint != layout.confirmed_fingerprint and not _only_blanked(layout, plan, facts):
        raise AgentError(
            f"The devices of {layout.host} changed after the plan was confirmed, so nothing was touched. "
            "Look at the host's disks, then retry: the new plan will be shown before it runs.",
            Reason.PLAN_STALE,
        )
    return replace(plan, fingerprint=layout.confirmed_fingerprint), snapshot


def _only_blanked(layout: Layout, plan: stack.StackPlan, facts: HostFacts) -> bool:
    """Did the same disks become blank since, and the commands stay the same? Then nothing unseen can be lost.

    An earlier layout of the same campaign does that to them: it wiped what the person agreed to lose.
    """
    seen = stored(layout)
    return (
        seen.fingerprint == layout.confirmed_fingerprint
        and (seen.layers, seen.stages) == (plan.layers, plan.stages)
        and not not_blank(plan.claims, facts, layout.name)
    )
