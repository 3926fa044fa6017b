# SPDX-License-Identifier: Apache-2.0
"""A new campaign: its matrix frozen into runs, with their layouts and first attempts, and planned.

Whoever calls (pages, API) gets a django ValidationError that names what is wrong.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models, transaction

from benchlab.campaigns import build_times, cost, matrix
from benchlab.campaigns.models import Campaign, Run, Workload
from benchlab.campaigns.services import (
    Person,
    all_costs,
    build_factors,
    check_ownership,
    check_reach,
)
from benchlab.engine import commands
from benchlab.hosts.models import Host
from benchlab.runs.models import Attempt, Layout
from benchlab.team.models import Team
from benchlab.topologies.models import Topology


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
    visits: int | None = None,
    schedulers: Sequence[str] = (),
) -> Campaign:
    """Freeze the matrix into runs with their layouts and first attempts, and have it planned.

    `visits`: how often each layout is built in the order ABBA; two unless told. `schedulers`: of the disks below,
    with each of which every point is measured.
    Raises ValidationError when options, factors or ownership are wrong; then nothing was stored.
    """
    check_ownership(team, hosts, topologies, workloads)
    check_reach(hosts, topologies, workloads)
    seed = secrets.randbelow(2**31) if seed is None else seed
    matrix_factors = build_factors(hosts, topologies, workloads, repeats, order, visits, schedulers)
    costs = all_costs(hosts, topologies, workloads)
    campaign = Campaign(
        team=team,
        created_by_id=user.pk if user else None,
        name=name,
        question=question,
        repeats=repeats,
        order=order,
        visits=matrix_factors.visits,
        schedulers=list(schedulers),
        seed=seed,
    )
    campaign.full_clean(exclude=["created_by"])
    campaign.save()
    layouts = _create_layouts(campaign, matrix_factors, hosts, topologies)
    runs = Run.objects.bulk_create(
        _new_runs(campaign, matrix_factors, workloads, costs), batch_size=1000
    )
    Attempt.objects.bulk_create(
        [Attempt(run=run, layout=layouts[_run_build(run)]) for run in runs], batch_size=1000
    )
    _check_not_deleted(topologies, workloads)
    commands.request_plans(campaign)
    return campaign


def _check_not_deleted(topologies: Sequence[Topology], workloads: Sequence[Workload]) -> None:
    """Check that no row was deleted meanwhile. Raises ValidationError.

    Whoever deletes a row waits for the runs that refer to it by now, or was faster. This makes one query.
    """
    rows = {**_by_key(topologies), **_by_key(workloads)}
    present = _existing(Topology.objects.all(), topologies).union(
        _existing(Workload.objects.all(), workloads), all=True
    )
    if deleted := rows.keys() - set(present):
        raise ValidationError(f"{rows[min(deleted)]} was deleted in the meantime.")


def _by_key(rows: Sequence[models.Model]) -> dict[tuple[str, int], models.Model]:
    return {(str(row._meta.model_name), row.pk): row for row in rows}


def _existing(queryset: models.QuerySet[Any], rows: Sequence[models.Model]) -> Any:
    noun = models.Value(str(queryset.model._meta.model_name), models.CharField())
    existing = queryset.filter(pk__in=[row.pk for row in rows]).order_by()
    return existing.values_list(noun, "pk")


def _create_layouts(
    campaign: Campaign,
    matrix_factors: matrix.Factors,
    hosts: Sequence[Host],
    topologies: Sequence[Topology],
) -> dict[matrix.Build, Layout]:
    """Each visit has a layout of its own: planned, guarded, confirmed and proven blank by itself."""
    rows = {topology.pk: topology for topology in topologies}
    takes = build_times.estimate_builds(hosts, topologies)
    order = matrix.layout_builds(matrix_factors, campaign.order, campaign.seed)
    created = Layout.objects.bulk_create(
        Layout(
            campaign=campaign,
            host_id=host,
            topology_id=topology,
            stack=rows[topology].stack,
            stages=rows[topology].stages,
            measure_resync=rows[topology].measure_resync,
            schedulers=campaign.schedulers,
            on_degraded=rows[topology].on_degraded,
            position=position,
            visit=visit,
            expected_s=takes[host, topology].seconds,
        )
        for position, (host, topology, visit) in enumerate(order)
    )
    return dict(zip(order, created, strict=True))


def _run_build(run: Run) -> matrix.Build:
    return matrix.Build(run.host_id, run.topology_id, run.visit)


def _new_runs(
    campaign: Campaign,
    matrix_factors: matrix.Factors,
    workloads: Sequence[Workload],
    costs: cost.Costs,
) -> list[Run]:
    tools = {workload.pk: workload.tool for workload in workloads}
    cells = matrix.run_cells(matrix_factors, campaign.order, campaign.seed)
    return [
        _new_run(campaign, cell, tools[cell.workload], _cost_of(cell, costs), position)
        for position, cell in enumerate(cells)
    ]


def _cost_of(cell: matrix.Cell, costs: cost.Costs) -> cost.Cost:
    return costs[cell.host, cell.topology, cell.workload, cell.moment.grown][
        matrix.json_key(cell.tool_point)
    ]


def _new_run(
    campaign: Campaign, cell: matrix.Cell, tool: str, run_cost: cost.Cost, position: int
) -> Run:
    return Run(
        campaign=campaign,
        host_id=cell.host,
        topology_id=cell.topology,
        workload_id=cell.workload,
        tool=tool,
        options=run_cost.options,
        point=dict(cell.point),
        outstanding=run_cost.outstanding,
        scheduler=cell.scheduler,
        stage=cell.moment.code,
        repeat=cell.repeat,
        visit=cell.visit,
        position=position,
        expected_s=run_cost.seconds,
        expected_writes=run_cost.writes,
    )
