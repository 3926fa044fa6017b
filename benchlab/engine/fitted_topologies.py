# SPDX-License-Identifier: Apache-2.0
"""Topologies sized to hosts' spare disks, each planned against their last facts. Nothing is executed or stored."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import Any

from agents.contracts import AgentError
from agents.facts.model import HostFacts
from agents.plans.stack import StackPlan
from agents.safety.guard import Spare
from benchlab.campaigns import cost
from benchlab.engine.checks import planning
from benchlab.hosts import discovery, spare_disks
from benchlab.hosts.models import Device, Host
from benchlab.runs.models import Layout, installation_tag
from benchlab.topologies import host_shapes
from benchlab.topologies.models import Topology
from benchlab.topologies.services import checked_stack, create_topology
from benchlab.web.texts import free_name


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
