# SPDX-License-Identifier: Apache-2.0
"""Runs with their layouts and first attempts: the matrix of a new campaign, and further repeats of points that it has.

Whoever calls (pages, API) gets a django ValidationError that names what is wrong with a campaign.

Further repeats are blocks of their own, which stand beside the ones before. Where a layout still takes runs they are
queued behind its own. Where it was taken down its set-up is built once more: a further visit, which is planned, guarded
and agreed to like the first, in the reverse of the order in which they were last built (A B, then B A), so that what
was built one after the other has then been built in turns.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.db.models import Max

from benchlab.analysis.designs import MAX_REPEATS
from benchlab.campaigns import cost, matrix
from benchlab.campaigns.models import Campaign, Run, Workload
from benchlab.campaigns.services import Person, Selection, check_ownership
from benchlab.engine import commands
from benchlab.engine.commands import CommandError
from benchlab.hosts.models import Host
from benchlab.runs import events
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.repeat_offers import POINT_FIELDS, newest_first, point_of, takes_runs
from benchlab.runs.states import LayoutPhase
from benchlab.team.models import Team
from benchlab.topologies import moments
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
    selection = Selection(hosts, topologies, workloads, repeats, schedulers)
    selection.check_reach()
    factors = selection.factors(order, visits)
    campaign = Campaign(
        team=team,
        created_by_id=user.pk if user else None,
        name=name,
        question=question,
        repeats=repeats,
        order=order,
        visits=factors.visits,
        schedulers=list(schedulers),
        seed=secrets.randbelow(2**31) if seed is None else seed,
    )
    # before anything is stored
    costs = selection.costs
    campaign.full_clean(exclude=["created_by"])
    campaign.save()
    layouts = _create_layouts(campaign, factors, selection)
    cells = matrix.run_cells(factors, campaign.order, campaign.seed)
    tools = {workload.pk: workload.tool for workload in workloads}
    runs = Run.objects.bulk_create(
        [
            _new_run(campaign, cell, tools[cell.workload], _cell_cost(cell, costs), position)
            for position, cell in enumerate(cells)
        ],
        batch_size=1000,
    )
    Attempt.objects.bulk_create(
        [Attempt(run=run, layout=layouts[run.host_id, run.topology_id, run.visit]) for run in runs],
        batch_size=1000,
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
    campaign: Campaign, factors: matrix.Factors, selection: Selection
) -> dict[tuple[int, int, int], Layout]:
    """Each visit has a layout of its own: planned, guarded, confirmed and proven blank by itself."""
    rows = {topology.pk: topology for topology in selection.topologies}
    order = matrix.layout_builds(factors, campaign.order, campaign.seed)
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
            expected_s=selection.build_times[host, topology].seconds,
        )
        for position, (host, topology, visit) in enumerate(order)
    )
    return dict(zip(order, created, strict=True))


def _cell_cost(cell: matrix.Cell, costs: cost.Costs) -> cost.Cost:
    by_point = costs[cell.host, cell.topology, cell.workload, cell.moment.grown]
    return by_point[matrix.json_key(cell.tool_point)]


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


# host, topology
SetUp = tuple[int, int]
# Fields that are a repeat's own, or that it gets with the layout that it runs on.
OWN_FIELDS = ("id", "repeat", "visit", "position")


@dataclass(frozen=True, slots=True)
class _LastPlace:
    """`after`: the campaign's last repeat and position."""

    campaign: Campaign
    repeat: int
    position: int


@transaction.atomic
def add_repeats(
    campaign: Campaign, like: Collection[int], repeats: int, after: int | None = None
) -> int:
    """`repeats` more of each point that one of the runs `like` measures; gives how many runs that are.

    `after`: the campaign's largest repeat as it was seen; what was added since is not added twice. What the kernel
    does meanwhile lasts only so long: of such a moment each build has one repeat. Raises CommandError.
    """
    locked = commands.lock_campaign(campaign.pk)
    commands.check_runnable(locked)
    if not 1 <= repeats <= MAX_REPEATS:
        raise CommandError(f"Repeats to add: 1 to {MAX_REPEATS}, not {repeats}.")
    points = _runs_to_repeat(locked, like)
    last = locked.runs.aggregate(repeat=Max("repeat"), position=Max("position"))
    place = _LastPlace(locked, last["repeat"], last["position"])
    if after is not None and after != place.repeat:
        raise CommandError("Repeats were added in the meantime; look again.")
    added = _create_runs(place, points, repeats)
    Campaign.objects.filter(pk=locked.pk).update(cancelled_at=None)
    events.notify_pages(locked.pk)
    return added


def _runs_to_repeat(campaign: Campaign, like: Collection[int]) -> dict[SetUp, list[Run]]:
    """One run of each requested point, by set-up, in the order in which they ran."""
    if not like:
        raise CommandError("No run was named whose point is to be repeated.")
    runs = list(campaign.runs.filter(pk__in=set(like)).order_by("position"))
    if len(runs) < len(set(like)):
        raise CommandError("Some of the runs are not of this campaign.")
    each = {point_of({name: getattr(run, name) for name in POINT_FIELDS}): run for run in runs}
    by_set_up: dict[SetUp, list[Run]] = defaultdict(list)
    for point, run in each.items():
        by_set_up[point.set_up].append(run)
    return by_set_up


def _create_runs(place: _LastPlace, points: dict[SetUp, list[Run]], repeats: int) -> int:
    layouts = _layouts(place.campaign, points)
    runs: list[Run] = []
    for set_up, layout in layouts.items():
        blocks = _ordered_blocks(place, points[set_up], repeats)
        runs += [
            _copy_run(run, layout, repeat, place.position + 1 + len(runs) + at)
            for at, (run, repeat) in enumerate(blocks)
        ]
    if place.campaign.runs.count() + len(runs) > matrix.MAX_RUNS:
        raise CommandError(f"It would have more than {matrix.MAX_RUNS} runs.")
    Run.objects.bulk_create(runs, batch_size=1000)
    Attempt.objects.bulk_create(
        [Attempt(run=run, layout=layouts[run.host_id, run.topology_id]) for run in runs],
        batch_size=1000,
    )
    _wake_layouts(place.campaign, layouts.values())
    return len(runs)


def _wake_layouts(campaign: Campaign, layouts: Collection[Layout]) -> None:
    """Have new drafts planned, and notify a layout that stands of its runs."""
    if any(row.phase == LayoutPhase.DRAFT and row.planned_at is None for row in layouts):
        commands.request_plans(campaign)
    commands.wake_layouts(*[row.pk for row in layouts if row.phase != LayoutPhase.DRAFT])


def _layouts(campaign: Campaign, points: dict[SetUp, list[Run]]) -> dict[SetUp, Layout]:
    """Layout for each set-up's runs, in the order in which these are built."""
    builds: dict[SetUp, list[Layout]] = defaultdict(list)
    for row in newest_first(campaign).select_for_update(of=("self",)):
        if (set_up := (row.host_id, row.topology_id)) in points:
            builds[set_up].append(row)
    open_builds = {set_up: _open_build(rows, points[set_up]) for set_up, rows in builds.items()}
    top = campaign.layouts.aggregate(top=Max("position"))["top"] + 1
    anew = [set_up for set_up, row in open_builds.items() if row is None]
    new = {
        set_up: commands.copy_as_draft(
            builds[set_up][0],
            position=top + at,
            visit=max(row.visit for row in builds[set_up]) + 1,
        )
        for at, set_up in enumerate(anew)
    }
    return {set_up: row or new[set_up] for set_up, row in open_builds.items()}


def _open_build(builds: Sequence[Layout], points: Sequence[Run]) -> Layout | None:
    """The last build that takes these runs; None if the set-up has to be built once more."""
    if any(moments.parse_moment(run.stage).growing for run in points):
        return None
    return next(filter(takes_runs, builds), None)


def _ordered_blocks(
    place: _LastPlace, points: Sequence[Run], repeats: int
) -> Iterator[tuple[Run, int]]:
    """Pairs (a run of the point, the new repeat), in the order in which they run: moment by moment, block by block."""
    campaign = place.campaign
    stages = sorted(
        {run.stage for run in points}, key=lambda stage: moments.parse_moment(stage).time_order
    )
    for stage in stages:
        moment = moments.parse_moment(stage)
        some = [run for run in points if run.stage == stage]
        for repeat in range(
            place.repeat + 1, place.repeat + 1 + (1 if moment.growing else repeats)
        ):
            block = matrix.Block(some[0].host_id, some[0].topology_id, repeat, moment)
            for run in matrix.order_block(some, block, campaign.order, campaign.seed):
                yield run, repeat


def _copy_run(like: Run, layout: Layout, repeat: int, position: int) -> Run:
    same = {
        field.attname: getattr(like, field.attname)
        for field in Run._meta.concrete_fields
        if field.name not in OWN_FIELDS
    }
    return Run(**same, repeat=repeat, visit=layout.visit, position=position)
