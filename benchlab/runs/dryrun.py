"""A topology planned against a host as it is now, without a campaign: facts are read, nothing else is done."""

from __future__ import annotations

from dataclasses import dataclass

from agents import stack
from agents.chain import specs
from agents.contracts import AgentError
from agents.packages import Missings
from benchlab.hosts import services as hosts
from benchlab.hosts.models import FactSnapshot, Host
from benchlab.runs import planning
from benchlab.runs.models import Layout
from benchlab.topologies.models import Topology
from benchlab.topologies.planned import Planned, read

NOTHING = Missings((), ())


@dataclass(frozen=True, slots=True)
class DryRun:
    """The plan, or with `error` why there is none. Its names carry layout number 0, which no layout has."""

    name: str
    snapshot: FactSnapshot | None = None  # the facts that it was made from
    plan: Planned | None = None
    fingerprint: str = ""
    error: str = ""
    missing: Missings = NOTHING


def of(topology: Topology, host: Host) -> DryRun:
    """Reads the host's facts, which takes seconds. A host that does not answer is an error of the dry run."""
    layout = Layout(pk=0, host=host, stack=topology.stack, stages=topology.stages)
    snapshot, missing = None, NOTHING
    try:
        snapshot = hosts.read_facts(host)
        facts = hosts.facts_of(snapshot)
        missing = hosts.missing(host, stack.needs(specs(layout.stack)))
        made = planning.make(layout, facts)
        plan = read(made, facts)
    except AgentError as error:
        return DryRun(layout.name, snapshot, error=str(error), missing=missing)
    return DryRun(layout.name, snapshot, plan, made.fingerprint, missing=missing)
