"""Topologies sized to a host's spare disks, each planned against its last facts: nothing is done, nor kept."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agents.contracts import AgentError
from agents.facts.model import HostFacts
from agents.plans.stack import StackPlan
from agents.safety.guard import Spare
from benchlab.campaigns import cost
from benchlab.engine.checks import planning
from benchlab.hosts import services as hosts
from benchlab.hosts.models import Device, Host
from benchlab.runs.models import Layout
from benchlab.topologies import sized
from benchlab.topologies.models import Topology
from benchlab.topologies.services import checked, create_topology
from benchlab.web.free_names import free_name


@dataclass(frozen=True, slots=True)
class Fitting:
    """One shape on one host. `topology`: the team's own of this very stack, else one that is not stored (pk < 0).

    `size`: bytes that files may fill, on the safe side; 0 where it cannot be built. `disks`: identities of those that
    it would take. `error`: why it cannot be built there, in words; "" where it can, as far as the last facts tell.
    """

    shape: sized.Sized
    topology: Topology | None = None
    size: int = 0
    disks: frozenset[str] = frozenset()
    error: str = ""


def of(host: Host, devices: Iterable[Device]) -> list[Fitting]:
    """`devices`: the host's. Those that can be built stand first."""
    free = [one for one in devices if one.spare and one.present]
    shapes = sized.sized(Counter(one.role for one in free))
    known = _known(host)
    facts = hosts.last_facts(host)
    spares = hosts.spares(host)
    # While a layout stands there its disks are in use, and no plan can be made: the next one's turn comes later.
    busy = host.layouts.holding().exists()
    found = [
        _fitting(_offered(host, number, shape, known), host, free, None if busy else facts, spares)
        for number, shape in enumerate(shapes, start=1)
    ]
    return sorted(found, key=lambda one: bool(one.error))


def _offered(host: Host, number: int, shape: sized.Sized, known: Mapping[str, Topology]) -> Fitting:
    if shape.lacks:
        return Fitting(shape, error=shape.lacks)
    stack = checked(shape.stack)
    fresh = Topology(pk=-number, team_id=host.team_id, name=shape.name, stack=stack)
    return Fitting(shape, known.get(_key(stack)) or fresh)


def _fitting(
    offered: Fitting,
    host: Host,
    free: list[Device],
    facts: HostFacts | None,
    spares: Mapping[str, Spare],
) -> Fitting:
    """With its disks and size, from a plan where the facts allow one."""
    topology = offered.topology
    if topology is None:
        return offered
    if facts is None:
        taken = cost.picked(topology, free) or []
        disks = frozenset(one.identity for one in taken)
        return replace(offered, size=sum(one.size for one in taken) // 2, disks=disks)
    try:
        plan = planning.fitted(Layout(pk=0, host=host, stack=topology.stack), facts, spares)
    except AgentError as error:
        return replace(offered, error=str(error))
    disks = frozenset(claim.identity for claim in plan.claims)
    return replace(offered, size=_room(plan), disks=disks)


def _room(plan: StackPlan) -> int:
    """Where the plan does not say it (a pool does not), half of the disks: parity takes no more."""
    return plan.target.size or sum(claim.size for claim in plan.claims) // 2


def _known(host: Host) -> dict[str, Topology]:
    rows = Topology.objects.current().filter(team=host.team_id, stages=[], measure_resync=False)
    return {_key(row.stack): row for row in rows.order_by("-pk")}


def _key(stack: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(list(stack), sort_keys=True)


def stored(fitting: Fitting, user: Any) -> Topology:
    """The team's topology of that stack, made where there is none. Raises ValidationError."""
    topology = fitting.topology
    assert topology is not None, "what a host lacks the disks for is not offered"
    if topology.pk and topology.pk > 0:
        return topology
    taken = set(Topology.objects.filter(team=topology.team_id).values_list("name", flat=True))
    name = free_name(topology.name, taken)
    return create_topology(
        team=topology.team,
        user=user,
        name=name,
        stack=topology.stack,
        description=fitting.shape.says,
    )
