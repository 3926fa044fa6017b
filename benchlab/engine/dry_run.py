# SPDX-License-Identifier: Apache-2.0
"""A topology planned against a host by one reading of its facts, without a campaign. Nothing is executed or stored."""

from __future__ import annotations

from dataclasses import dataclass

from agents.contracts import AgentError
from agents.drivers import packages
from agents.drivers.packages import MissingPrograms
from agents.plans import stack
from agents.plans.chain import specs
from benchlab.engine.checks import planning
from benchlab.hosts import discovery
from benchlab.hosts.models import FactSnapshot, Host
from benchlab.runs.models import Layout
from benchlab.topologies.models import Topology
from benchlab.topologies.plan_view import PlanView, view_plan

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
