"""Making workloads and campaigns. Whoever calls (pages, API) gets a django ValidationError that names what is wrong."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import ValidationError
from django.db import models, transaction

from agents import chain, registry
from benchlab.campaigns import cost, matrix
from benchlab.campaigns.models import Campaign, Run, Workload
from benchlab.hosts.models import Device, Host
from benchlab.runs import commands
from benchlab.runs.models import Attempt, Layout
from benchlab.team.models import Team, has_role
from benchlab.team.roles import Role
from benchlab.topologies import moments
from benchlab.topologies.models import Topology

Person = AbstractBaseUser | AnonymousUser


def create_workload(
    *,
    team: Team,
    user: Person | None,
    name: str,
    tool: str,
    options: Mapping[str, Any],
    sweep: matrix.Sweep | None = None,
) -> Workload:
    """Store a workload whose every sweep point has been checked. Raises ValidationError."""
    sweep = dict(sweep or {})
    try:
        matrix.Factors((1,), (1,), ((1, sweep),))
    except matrix.MatrixError as error:
        raise ValidationError(
            f"Workload {name}: {str(error).removeprefix('workload 1: ')}"
        ) from None
    built = [point for _, point in cost.check_sweep(name, tool, options, sweep)]
    named = [program for point in built for program in registry.programs(tool, point)]
    if user is not None and (named or getattr(registry.tool(tool), "OWN_CODE", False)):
        _check_owner(team, user, name, named[0] if named else "code of your own")
    made = Workload(
        team=team,
        created_by_id=user.pk if user else None,
        name=name,
        tool=tool,
        options=dict(options),
        sweep=sweep,
    )
    made.full_clean(exclude=["created_by"])
    made.save()
    return made


def _check_owner(team: Team, user: Person, name: str, what: str) -> None:
    """Who says what code runs as root on the team's hosts could destroy any disk: that is an owner's."""
    if not has_role(user, team.pk, Role.OWNER):
        raise ValidationError(
            f"Workload {name}: it runs {what} as root on the hosts of {team}, so only an owner may make it."
        )


@transaction.atomic
def create_campaign(
    *,
    team: Team,
    user: Person | None,
    name: str,
    question: str,
    hosts: Sequence[Host],
    topologies: Sequence[Topology],
    workloads: Sequence[Workload],
    repeats: int,
    order: str,
    seed: int | None = None,
) -> Campaign:
    """Freeze the matrix into runs with their layouts and first attempts, and have it planned.

    Raises ValidationError when options, factors or ownership are wrong; then nothing was stored.
    """
    check_owned(team, hosts, topologies, workloads)
    check_dynamo(hosts, topologies, workloads)
    seed = secrets.randbelow(2**31) if seed is None else seed
    wanted = factors(hosts, topologies, workloads, repeats)
    costs = all_costs(hosts, topologies, workloads)
    campaign = Campaign(
        team=team,
        created_by_id=user.pk if user else None,
        name=name,
        question=question,
        repeats=repeats,
        order=order,
        seed=seed,
    )
    campaign.full_clean(exclude=["created_by"])
    campaign.save()
    layouts = _create_layouts(campaign, wanted, topologies)
    runs = Run.objects.bulk_create(_runs(campaign, wanted, workloads, costs), batch_size=1000)
    Attempt.objects.bulk_create(
        [Attempt(run=run, layout=layouts[run.host_id, run.topology_id]) for run in runs],
        batch_size=1000,
    )
    commands.plan(campaign)
    return campaign


def check_owned(team: Team, *groups: Sequence[Any]) -> None:
    """Everything in a campaign belongs to its team. Raises ValidationError naming what does not."""
    for row in (row for group in groups for row in group):
        if row.team_id != team.pk:
            raise ValidationError(f"{row} does not belong to {team}.")
        if getattr(row, "access", Host.Access.SSH) == Host.Access.DESCRIBED:
            raise ValidationError(f"{row} cannot run anything: {row.get_access_display()}.")
        if isinstance(row, Topology) and not row.stack:
            raise ValidationError(f"The layers of {row} are not known, so it cannot be built.")
        if getattr(row, "imported", False):
            raise ValidationError(f"{row} was imported with its results and cannot be run.")


def check_dynamo(
    hosts: Sequence[Host], topologies: Sequence[Topology], workloads: Sequence[Workload]
) -> None:
    """A host that only dynamo reaches takes dynamo's workloads on what it reports, and nothing is built there.

    Raises ValidationError naming what does not go together.
    """
    listened = [host for host in hosts if host.access == Host.Access.DYNAMO]
    others = [host for host in hosts if host.access != Host.Access.DYNAMO]
    for topology in topologies:
        reported = [layer["kind"] for layer in topology.stack] == ["reported"]
        if others and reported:
            raise ValidationError(
                f"{topology} is only for hosts that only dynamo reaches, not for {others[0]}."
            )
        if listened and (not reported or topology.stages):
            raise ValidationError(
                f"{topology} cannot be built on {listened[0]}, which only dynamo reaches: choose one of what it "
                "reports (the host's page makes it)."
            )
    if listened and (other := next((row for row in workloads if row.tool != "dynamo"), None)):
        raise ValidationError(
            f"{other} is not for {listened[0]}, which only dynamo reaches: it runs dynamo's alone."
        )


def factors(
    hosts: Sequence[models.Model],
    topologies: Sequence[Topology],
    workloads: Sequence[Workload],
    repeats: int,
) -> matrix.Factors:
    """The matrix of these rows. Raises ValidationError."""
    try:
        return matrix.Factors(
            tuple(host.pk for host in hosts),
            tuple(topology.pk for topology in topologies),
            tuple((workload.pk, workload.sweep) for workload in workloads),
            repeats,
            {row.pk: moments.moments(row.stages, row.measure_resync) for row in topologies},
        )
    except matrix.MatrixError as error:
        raise ValidationError(_named(str(error), workloads)) from None


def all_costs(
    hosts: Sequence[Host], topologies: Sequence[Topology], workloads: Sequence[Workload]
) -> cost.Costs:
    """The cost of every point by (host, topology, workload, stages begun). Raises ValidationError."""
    spares = spare_devices(hosts)
    costs: cost.Costs = {}
    for host, topology in itertools.product(hosts, topologies):
        for stage in range(len(topology.stages) + 1):
            target = cost.likely_target(topology, spares[host.pk], stage)
            for workload in workloads:
                key = host.pk, topology.pk, workload.pk, stage
                costs[key] = cost.of_workload(workload, target, chain.specs(topology.stack))
    return costs


def spare_devices(hosts: Sequence[Host]) -> dict[int, list[Device]]:
    """The present spare devices of each host, in the order in which topologies take them."""
    found: dict[int, list[Device]] = {host.pk: [] for host in hosts}
    wanted = Device.objects.filter(host__in=found, spare=True, present=True)
    for device in wanted.order_by("host", "name"):
        found[device.host_id].append(device)
    return found


def _create_layouts(
    campaign: Campaign, wanted: matrix.Factors, topologies: Sequence[Topology]
) -> dict[tuple[int, int], Layout]:
    rows = {topology.pk: topology for topology in topologies}
    order = matrix.layouts(wanted, campaign.order, campaign.seed)
    made = Layout.objects.bulk_create(
        Layout(
            campaign=campaign,
            host_id=host,
            topology_id=topology,
            stack=rows[topology].stack,
            stages=rows[topology].stages,
            measure_resync=rows[topology].measure_resync,
            on_degraded=rows[topology].on_degraded,
            position=position,
        )
        for position, (host, topology) in enumerate(order)
    )
    return {(layout.host_id, layout.topology_id): layout for layout in made}


def _runs(
    campaign: Campaign, wanted: matrix.Factors, workloads: Sequence[Workload], costs: cost.Costs
) -> list[Run]:
    tools = {workload.pk: workload.tool for workload in workloads}
    cells = matrix.cells(wanted, campaign.order, campaign.seed)
    return [
        _run(campaign, cell, tools[cell.workload], _cost_of(cell, costs), position)
        for position, cell in enumerate(cells)
    ]


def _cost_of(cell: matrix.Cell, costs: cost.Costs) -> cost.Cost:
    return costs[cell.host, cell.topology, cell.workload, cell.moment.grown][matrix.key(cell.point)]


def _run(campaign: Campaign, cell: matrix.Cell, tool: str, found: cost.Cost, position: int) -> Run:
    return Run(
        campaign=campaign,
        host_id=cell.host,
        topology_id=cell.topology,
        workload_id=cell.workload,
        tool=tool,
        options=found.options,
        point=dict(cell.point),
        outstanding=found.outstanding,
        stage=cell.moment.code,
        repeat=cell.repeat,
        position=position,
        expected_s=found.seconds,
        expected_writes=found.writes,
    )


def _named(error: str, workloads: Sequence[Workload]) -> str:
    """A matrix error speaks of workloads by id; people know them by name."""
    for workload in workloads:
        error = error.replace(f"workload {workload.pk}:", f"Workload {workload.name}:")
    return error
