# SPDX-License-Identifier: Apache-2.0
"""Making workloads and campaigns. Whoever calls (pages, API) gets a django ValidationError that names what is wrong."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import ValidationError
from django.db import models

from agents.contracts import OptionsError
from agents.drivers import registry
from agents.plans import before_runs, chain
from benchlab.campaigns import cost, matrix
from benchlab.campaigns.models import Workload
from benchlab.hosts.models import Device, Host
from benchlab.team.models import Team, has_role
from benchlab.team.roles import Role
from benchlab.topologies import moments
from benchlab.topologies.models import Topology
from benchlab.web.texts import free_name

Person = AbstractBaseUser | AnonymousUser


def create_workload(
    *,
    team: Team,
    user: Person | None,
    name: str,
    tool: str,
    options: Mapping[str, Any],
    sweep: matrix.Sweep | None = None,
    description: str = "",
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
    programs = [program for point in built for program in registry.named_programs(tool, point)]
    if user is not None and (programs or registry.runs_user_code(tool)):
        _check_owner(team, user, name, programs[0] if programs else "code of your own")
    workload = Workload(
        team=team,
        created_by_id=user.pk if user else None,
        name=name,
        tool=tool,
        description=description,
        options=dict(options),
        sweep=sweep,
    )
    workload.full_clean(exclude=["created_by"])
    workload.save()
    return workload


def find_or_create_workload(
    *,
    team: Team,
    user: Person | None,
    name: str,
    tool: str,
    options: Mapping[str, Any],
    sweep: matrix.Sweep,
) -> Workload:
    """The team's workload that does just this, whatever it is called, or a new one. Raises ValidationError."""
    rows = Workload.objects.filter(team=team)
    alike = rows.current().filter(
        tool=tool, options=dict(options), sweep=dict(sweep), imported=False
    )
    if (workload := alike.order_by("pk").first()) is not None:
        return workload
    free = free_name(name, set(rows.values_list("name", flat=True)))
    return create_workload(team=team, user=user, name=free, tool=tool, options=options, sweep=sweep)


def _check_owner(team: Team, user: Person, name: str, what: str) -> None:
    """Refuse users who are not owners. Raises ValidationError.

    Code that can run as root on the team's hosts could destroy any disk.
    """
    if not has_role(user, team.pk, Role.OWNER):
        raise ValidationError(
            f"Workload {name}: it runs {what} as root on the hosts of {team}, so only an owner may make it."
        )


def check_ownership(team: Team, *groups: Sequence[Any]) -> None:
    """Check that everything in a campaign belongs to its team. Raises ValidationError naming what does not."""
    for row in (row for group in groups for row in group):
        if row.team_id != team.pk:
            raise ValidationError(f"{row} does not belong to {team}.")
        if getattr(row, "access", Host.Access.SSH) == Host.Access.DESCRIBED:
            raise ValidationError(f"{row} cannot run anything: {row.get_access_display()}.")
        if isinstance(row, Topology) and not row.stack:
            raise ValidationError(f"The layers of {row} are not known, so it cannot be built.")
        if getattr(row, "imported", False):
            raise ValidationError(f"{row} was imported with its results and cannot be run.")
        if getattr(row, "archived_at", None):
            raise ValidationError(f"{row} is archived; restore it first.")


def check_reach(
    hosts: Sequence[Host], topologies: Sequence[Topology], workloads: Sequence[Workload]
) -> None:
    """A host that only one tool reaches takes its workloads on what it reports, and nothing is built there.

    Raises ValidationError naming what does not go together.
    """
    listened = [host for host in hosts if host.only_tool]
    others = [host for host in hosts if not host.only_tool]
    for topology in topologies:
        reported = [layer["kind"] for layer in topology.stack] == ["reported"]
        if others and reported:
            raise ValidationError(
                f"{topology} is what a tool reports of hosts that only it reaches; it cannot be built on {others[0]}."
            )
        if listened and (not reported or topology.stages):
            raise ValidationError(
                f"{topology} cannot be built on {listened[0]}, which only {listened[0].only_tool} reaches: "
                "choose one of what it reports (the host's page makes it)."
            )
    for host, workload in itertools.product(listened, workloads):
        if workload.tool != host.only_tool:
            raise ValidationError(
                f"{workload} is not for {host}, which only {host.only_tool} reaches: it runs {host.only_tool}'s alone."
            )


def build_factors(
    hosts: Sequence[models.Model],
    topologies: Sequence[Topology],
    workloads: Sequence[Workload],
    repeats: int,
    order: str = matrix.RANDOM_BLOCKS,
    visits: int | None = None,
    schedulers: Sequence[str] = (),
) -> matrix.Factors:
    """The matrix of these rows. Raises ValidationError."""
    check_schedulers(schedulers, hosts, topologies)
    try:
        return matrix.Factors(
            tuple(host.pk for host in hosts),
            tuple(topology.pk for topology in topologies),
            tuple((workload.pk, workload.sweep) for workload in workloads),
            repeats,
            {
                row.pk: moments.measured_moments(row.stages, row.measure_resync)
                for row in topologies
            },
            matrix.visits_of_order(order, visits),
            tuple(schedulers),
        )
    except matrix.MatrixError as error:
        raise ValidationError(_with_workload_names(str(error), workloads)) from None


def check_schedulers(
    schedulers: Sequence[str], hosts: Sequence[models.Model], topologies: Sequence[Topology]
) -> None:
    """Check that the schedulers are known, for disks below each layout, where no layer sets one.

    Raises ValidationError.
    """
    if not schedulers:
        return
    try:
        before_runs.check_schedulers(schedulers)
    except OptionsError as error:
        raise ValidationError(str(error)) from None
    for host in hosts:
        if only := getattr(host, "only_tool", ""):
            raise ValidationError(
                f"schedulers: {host} is reached by {only} only, and nothing can be set there."
            )
    for topology in topologies:
        if conflict := before_runs.conflict(schedulers, chain.specs(topology.stack)):
            raise ValidationError(f"{topology}: {conflict}.")


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
                costs[key] = cost.workload_costs(workload, target, chain.specs(topology.stack))
    return costs


def spare_devices(hosts: Sequence[Host]) -> dict[int, list[Device]]:
    """The present spare devices of each host, in the order in which topologies take them."""
    devices_by_host: dict[int, list[Device]] = {host.pk: [] for host in hosts}
    devices = Device.objects.filter(host__in=devices_by_host, spare=True, present=True)
    for device in devices.order_by("host", "name"):
        devices_by_host[device.host_id].append(device)
    return devices_by_host


def _with_workload_names(error: str, workloads: Sequence[Workload]) -> str:
    """Replace the ids of workloads in a matrix error by their names."""
    for workload in workloads:
        error = error.replace(f"workload {workload.pk}:", f"Workload {workload.name}:")
    return error
