"""A layout's plan from fresh facts: for the preview that a person confirms, and again right before apply."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from django.db.models import QuerySet
from django.utils import timezone

from agents import options, packages, registry
from agents.contracts import AgentError, GuardError, PlanError, Reason, Shell, Target
from agents.facts.model import HostFacts
from agents.plans import as_json as plans
from agents.plans import fits, stack
from agents.plans.blank import not_blank
from agents.plans.chain import specs, stage_specs
from agents.safety.guard import refusals
from benchlab.campaigns.models import Run
from benchlab.hosts import services as hosts
from benchlab.hosts.models import FactSnapshot
from benchlab.runs import events, moves
from benchlab.runs.models import Layout
from benchlab.runs.states import LayoutPhase
from benchlab.topologies import moments
from benchlab.workers.lease import PLANNING, lease

READ = "_plan_as_read"  # of a row: its plan's JSON, and what that says


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
    if layout.phase == LayoutPhase.READY and "plan" in layout.get_deferred_fields():
        return _built(layout.pk)
    read: tuple[object, stack.StackPlan] | None = layout.__dict__.get(READ)
    if read is None or read[0] is not layout.plan:
        read = layout.__dict__[READ] = (layout.plan, plans.from_json(layout.plan or {}))
    return read[1]


@lru_cache(maxsize=256)
def _built(layout_id: int) -> stack.StackPlan:
    """Of a layout that stands: its plan stays as it is, and every step of every run asks for it."""
    plan = Layout.objects.values_list("plan", flat=True).get(pk=layout_id)
    return plans.from_json(plan or {})


def at_ready(layout: Layout) -> HostFacts:
    """The host as it was when the layout was ready."""
    assert layout.facts_ready_id, "a layout that is ready was looked at"
    return hosts.facts_at(layout.facts_ready_id)


def target_of(layout: Layout, run: Run) -> Target:
    """What `run` works on at its moment in the life of `layout`. Raises PlanError when there is no plan."""
    moment = moments.parse(run.stage)
    return stored(layout).target_at(moment.stage, moment.growing)


def preview(layout_id: int) -> None:
    """Plan a draft now and store the plan, or why there is none. Anything but a draft is left alone."""
    draft = Layout.objects.select_related("host__credential").get(pk=layout_id)
    if draft.phase == LayoutPhase.DRAFT:
        _preview(layout_id, _read(draft))


def preview_once(layout_id: int) -> None:
    """As a worker does that was asked to: a draft, and with it its host's others.

    One reading of the host serves all its drafts whose plans were asked for: several at a time would make a slow host
    too slow for each. Where another worker is at it already, that one will do: a plan that takes long is asked for
    again.
    """
    asked: int | None = layout_id
    for _ in range(2):
        if asked is None:
            return
        draft = Layout.objects.select_related("host__credential").get(pk=asked)
        if draft.phase != LayoutPhase.DRAFT:
            return
        with lease(draft.host_id, PLANNING) as held:
            if not held:
                return
            _preview_all(draft)
        # What was asked for while the host was read: whoever asked went away, as it was held.
        asked = _asked(draft).exclude(pk=asked).values_list("pk", flat=True).first()


def _asked(draft: Layout) -> QuerySet[Layout]:
    """Drafts of the same host, of any campaign, whose plans were asked for and have not come."""
    rows = Layout.objects.filter(host=draft.host_id, phase=LayoutPhase.DRAFT, planned_at=None)
    return rows.exclude(next_step_at=None).order_by("pk")


def _preview_all(draft: Layout) -> None:
    read = _read(draft)
    others = _asked(draft).exclude(pk=draft.pk).values_list("pk", flat=True)
    for pk in [draft.pk, *others]:
        with lease(pk) as held:
            if held:
                _preview(pk, read)


def _read(draft: Layout) -> FactSnapshot | AgentError:
    try:
        return hosts.read_facts(draft.host)
    except AgentError as error:
        return error


def _preview(layout_id: int, read: FactSnapshot | AgentError) -> None:
    layout = Layout.objects.select_related("host__credential").get(pk=layout_id)
    if layout.phase != LayoutPhase.DRAFT:
        return
    found: dict[str, object] = {"plan": None, "plan_fingerprint": "", "plan_error": ""}
    try:
        if isinstance(read, AgentError):
            raise read
        snapshot = read
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
