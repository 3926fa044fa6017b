# SPDX-License-Identifier: Apache-2.0
"""Plans that are shown before anything is executed: of drafts, of a topology on a host, of shapes sized to spare disks.

Drafts are planned from facts read now, one reading for a host's others; the rest from the last facts, and not stored.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from agents.contracts import AgentError, GuardError
from agents.drivers import packages
from agents.drivers.packages import MissingPrograms
from agents.facts.model import HostFacts
from agents.plans import applied_part as plans
from agents.plans import stack
from agents.plans.chain import specs
from agents.plans.stack import StackPlan
from agents.safety.guard import Spare
from benchlab.campaigns import cost
from benchlab.engine.checks import planning
from benchlab.hosts import discovery, spare_disks
from benchlab.hosts.models import Device, FactSnapshot, Host
from benchlab.runs import events, progress
from benchlab.runs.models import Layout, installation_tag
from benchlab.runs.states import LayoutPhase
from benchlab.topologies import host_shapes
from benchlab.topologies.models import Topology
from benchlab.topologies.plan_view import PlanView, view_plan
from benchlab.topologies.services import checked_stack, create_topology
from benchlab.web.texts import free_name
from benchlab.web.units import duration
from benchlab.workers.lease import Lock, lease


def plan_draft(layout_id: int) -> None:
    """Plan a draft now and store the plan, or why there is none. Anything but a draft is left alone."""
    draft = Layout.objects.select_related("host__credential").get(pk=layout_id)
    if draft.phase == LayoutPhase.DRAFT:
        _store_plan(layout_id, _facts_or_error(draft))


def plan_drafts_of_host(layout_id: int) -> None:
    """Plan a draft as a worker was asked to, together with the other requested drafts of its host.

    One reading of the host serves all its requested drafts: several at a time would make a slow host too slow for each.
    If another worker already plans drafts of this host, leave them to it: a plan that takes long is requested again.
    """
    draft_id: int | None = layout_id
    for _ in range(2):
        if draft_id is None:
            return
        draft = Layout.objects.select_related("host__credential").get(pk=draft_id)
        if draft.phase != LayoutPhase.DRAFT:
            return
        with lease(draft.host_id, Lock.PLANNED_HOST) as held:
            if not held:
                return
            _plan_requested_drafts(draft)
            # Drafts requested while the host was read: their workers gave up because the lease was held.
        draft_id = (
            _requested_drafts(draft).exclude(pk=draft_id).values_list("pk", flat=True).first()
        )


def _requested_drafts(draft: Layout) -> QuerySet[Layout]:
    """Drafts of the same host, of any campaign, whose plans were asked for and have not come."""
    rows = Layout.objects.filter(host=draft.host_id, phase=LayoutPhase.DRAFT, planned_at=None)
    return rows.exclude(next_step_at=None).order_by("pk")


def _plan_requested_drafts(draft: Layout) -> None:
    read = _facts_or_error(draft)
    others = _requested_drafts(draft).exclude(pk=draft.pk).values_list("pk", flat=True)
    for pk in [draft.pk, *others]:
        with lease(pk) as held:
            if held:
                _store_plan(pk, read)


def _facts_or_error(draft: Layout) -> FactSnapshot | AgentError:
    try:
        return discovery.read_facts(draft.host)
    except AgentError as error:
        return error


def _store_plan(layout_id: int, read: FactSnapshot | AgentError) -> None:
    layout = Layout.objects.select_related("host__credential").get(pk=layout_id)
    if layout.phase != LayoutPhase.DRAFT:
        return
    fields: dict[str, object] = {"plan": None, "plan_fingerprint": "", "plan_error": ""}
    try:
        if isinstance(read, AgentError):
            raise read
        snapshot = read
        plan = planning.plan_layout(layout, discovery.facts_of(snapshot))
        fields |= {
            "plan": plans.to_json(plan),
            "plan_fingerprint": plan.fingerprint,
            "facts_planned": snapshot,
        }
    except GuardError as error:
        fields["plan_error"] = _host_in_use(layout) or str(error)
    except AgentError as error:
        fields["plan_error"] = str(error)
    Layout.objects.filter(pk=layout_id, phase=LayoutPhase.DRAFT).update(
        planned_at=timezone.now(), **fields
    )
    events.notify_pages(layout.campaign_id)


def _host_in_use(layout: Layout) -> str:
    """Sentence on the campaign whose layout stands on the host and may hold the disks; "" where none does.

    It says nothing of single disks: which of them are free is known when that campaign is over.
    """
    rows = Layout.objects.holding().filter(host=layout.host_id).exclude(pk=layout.pk)
    holder = rows.select_related("campaign").first()
    if holder is None:
        return ""
    state = progress.campaign_progress(holder.campaign)
    remaining = f"about {duration(state.eta_s)} left" if state.eta_s else state.state.label.lower()
    name = f"campaign {holder.campaign_id}, {holder.campaign} ({remaining})"
    return f"{layout.host} is in use by {name}. Plan again when that is over."


NOTHING = MissingPrograms((), ())


@dataclass(frozen=True, slots=True)
class DryRun:
    """The plan, or the reason why there is none in `error`. Its names carry layout number 0, which no layout has."""

    name: str
    # the facts that the plan was made from
    snapshot: FactSnapshot | None = None
    plan: PlanView | None = None
    fingerprint: str = ""
    error: str = ""
    missing: MissingPrograms = NOTHING


def dry_run(topology: Topology, host: Host, snapshot: FactSnapshot) -> DryRun:
    """Plan a topology from facts that a worker has already read: nobody waits for the host here."""
    layout = Layout(pk=0, host=host, stack=topology.stack, stages=topology.stages)
    missing, facts = NOTHING, discovery.facts_of(snapshot)
    try:
        missing = packages.missing_programs(stack.required_programs(specs(layout.stack)), facts)
        stack_plan = planning.plan_layout(layout, facts)
        plan = view_plan(stack_plan, facts)
    except AgentError as error:
        return DryRun(layout.name, snapshot, error=str(error), missing=missing)
    return DryRun(layout.name, snapshot, plan, stack_plan.fingerprint, missing=missing)


def failed_dry_run(host: Host, error: str) -> DryRun:
    """Dry run on a host whose facts could not be read."""
    return DryRun(Layout(pk=0, host=host).name, error=error)


@dataclass(frozen=True, slots=True)
class FittedTopology:
    """One shape on hosts. `topology`: the team's own of this very stack, else one that is not stored (pk < 0).

    `size`: bytes that files may fill on each, on the safe side; 0 where it cannot be built. `disks`: those that it
    would take, as (host's id, identity). `error`: why it cannot be built, and where; "" where it can, as far as the
    last facts tell.
    """

    shape: host_shapes.HostShape
    topology: Topology | None = None
    size: int = 0
    disks: frozenset[tuple[int, str]] = frozenset()
    error: str = ""


@dataclass(frozen=True, slots=True)
class HostCapacity:
    """A host with its spare disks. `facts`: None where there are none, or its disks are in use.

    `tag`: this installation's, for the names of what would be made.
    """

    host: Host
    free: list[Device]
    facts: HostFacts | None
    spares: Mapping[str, Spare]
    tag: str

    @property
    def role_counts(self) -> Counter[str]:
        return Counter(device.role for device in self.free)


def fit_topologies(places: Sequence[tuple[Host, Sequence[Device]]]) -> list[FittedTopology]:
    """The same shapes on each host of one team, given with its devices, sized to the disks that each of them has.

    Those that can be built stand first. As many queries for twenty hosts as for one.
    """
    capacities = _host_capacities(places)
    first = capacities[0].host
    stored = _topologies_by_stack(first)
    fitted = [
        _fit_on_all(_candidate(first, number, shape, stored), capacities)
        for number, shape in enumerate(host_shapes.host_shapes(common_disks(places)), start=1)
    ]
    return sorted(fitted, key=lambda topology: bool(topology.error))


def common_disks(places: Iterable[tuple[Host, Iterable[Device]]]) -> Counter[str]:
    """Number of spare disks of each role that every host has."""
    counts = (Counter(device.role for device in _spare_devices(devices)) for _, devices in places)
    return reduce(and_, counts)


def _spare_devices(devices: Iterable[Device]) -> list[Device]:
    return [device for device in devices if device.spare and device.present]


def _host_capacities(places: Sequence[tuple[Host, Sequence[Device]]]) -> list[HostCapacity]:
    every = [host for host, _ in places]
    # While a layout stands there its disks are in use, and no plan can be made: the next one's turn comes later.
    busy = set(Layout.objects.holding().filter(host__in=every).values_list("host", flat=True))
    facts_by_host = discovery.all_last_facts(host for host in every if host.pk not in busy)
    tag = installation_tag()
    return [
        HostCapacity(
            host,
            _spare_devices(devices),
            facts_by_host.get(host.pk),
            spare_disks.spares_among(devices),
            tag,
        )
        for host, devices in places
    ]


def _fit_on_all(candidate: FittedTopology, capacities: Sequence[HostCapacity]) -> FittedTopology:
    if candidate.topology is None:
        return replace(candidate, error=_missing_disks(candidate.shape, capacities))
    each = [_fit_on_host(candidate, capacity) for capacity in capacities]
    errors = {
        capacity.host: fitted.error for capacity, fitted in zip(capacities, each, strict=True)
    }
    error = _join_errors(errors)
    size = 0 if error else min(fitted.size for fitted in each)
    disks = frozenset[tuple[int, str]]().union(*(fitted.disks for fitted in each))
    return replace(candidate, size=size, disks=disks, error=error)


def _missing_disks(shape: host_shapes.HostShape, capacities: Sequence[HostCapacity]) -> str:
    """Sentence on the hosts that have too few disks for it."""
    like = common_disks((capacity.host, capacity.free) for capacity in capacities)
    errors = {
        capacity.host: _missing_on_host(shape.slug, capacity, like) for capacity in capacities
    }
    return _join_errors(errors) or f"In common: {shape.lacks.replace('this host has', 'each has')}"


def _missing_on_host(slug: str, capacity: HostCapacity, like: Mapping[str, int]) -> str:
    """Words for what a host lacks for a shape that the hosts cannot share; "" where it could have it by itself."""
    alone = {shape.slug: shape.lacks for shape in host_shapes.host_shapes(capacity.role_counts)}
    theirs = {
        shape.slug: shape.lacks for shape in host_shapes.host_shapes(capacity.role_counts, like)
    }
    return alone.get(slug, theirs.get(slug, "")) and theirs.get(slug, "")


def _join_errors(errors: Mapping[Host, str]) -> str:
    """Join the errors. If there are several, put the host's name before each text that does not begin with it."""
    if len(errors) == 1:
        return next(iter(errors.values()))
    texts = {host: text for host, text in errors.items() if text}
    lines = (t if t.startswith(f"{host} ") else f"{host}: {t}" for host, t in texts.items())
    return " · ".join(lines)


def _candidate(
    host: Host, number: int, shape: host_shapes.HostShape, stored: Mapping[str, Topology]
) -> FittedTopology:
    if shape.lacks:
        return FittedTopology(shape, error=shape.lacks)
    stack = checked_stack(shape.stack)
    fresh = Topology(pk=-number, team_id=host.team_id, name=shape.name, stack=stack)
    return FittedTopology(shape, stored.get(_stack_key(stack)) or fresh)


def _fit_on_host(candidate: FittedTopology, capacity: HostCapacity) -> FittedTopology:
    """Add the disks and the size on one host, from a plan if the facts allow one."""
    topology, host = candidate.topology, capacity.host
    assert topology is not None, "what lacks disks is not planned"
    if capacity.facts is None:
        devices = cost.picked_devices(topology, capacity.free) or []
        disks = frozenset((host.pk, device.identity) for device in devices)
        return replace(candidate, size=sum(device.size for device in devices) // 2, disks=disks)
    layout = Layout(pk=0, host=host, stack=topology.stack, tag=capacity.tag)
    try:
        plan = planning.plan_stack(layout, capacity.facts, capacity.spares)
    except AgentError as error:
        return replace(candidate, error=str(error))
    disks = frozenset((host.pk, claim.identity) for claim in plan.claims)
    return replace(candidate, size=_usable_bytes(plan), disks=disks)


def _usable_bytes(plan: StackPlan) -> int:
    """Bytes of the target; half of the disks where the plan does not say it (a pool's): parity takes no more."""
    return plan.target.size or sum(claim.size for claim in plan.claims) // 2


def _topologies_by_stack(host: Host) -> dict[str, Topology]:
    rows = Topology.objects.current().filter(team=host.team_id, stages=[], measure_resync=False)
    return {_stack_key(row.stack): row for row in rows.order_by("-pk")}


def _stack_key(stack: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(list(stack), sort_keys=True)


def find_or_create_topology(fitting: FittedTopology, user: Any) -> Topology:
    """The team's topology of that stack, created if there is none. Raises ValidationError."""
    topology = fitting.topology
    assert topology is not None, "what a host lacks the disks for is not offered"
    if topology.pk and topology.pk > 0:
        return topology
    names = set(Topology.objects.filter(team=topology.team_id).values_list("name", flat=True))
    name = free_name(topology.name, names)
    return create_topology(
        team=topology.team,
        user=user,
        name=name,
        stack=topology.stack,
        description=fitting.shape.says,
    )
