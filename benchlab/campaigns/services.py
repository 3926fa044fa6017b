# SPDX-License-Identifier: Apache-2.0
"""Making workloads and checking campaigns. Whoever calls (pages, API) gets a ValidationError that names what is wrong.

A command's lines of extraction are tried in a process of their own that cannot hold up the web server. Two run at once,
and one of a team: whoever tries costly patterns waits for themselves.
"""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import ValidationError

from agents.contracts import OptionsError
from agents.drivers import registry
from agents.plans import before_runs, chain
from agents.texts import extraction_sandbox
from agents.texts.extraction import ExtractionOutcome
from agents.texts.extraction_sandbox import Request
from benchlab.campaigns import cost, matrix
from benchlab.campaigns.models import Workload
from benchlab.hosts.models import Device, Host
from benchlab.team.models import Team, has_role
from benchlab.team.roles import Role
from benchlab.topologies import moments
from benchlab.topologies.models import Topology
from benchlab.web import request_slots
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


@dataclass(frozen=True)
class Selection:
    """Factors of a campaign: rows of a team, the repeats of each point, and I/O schedulers to measure it with.

    Costs and build times are computed once. Raises ValidationError naming what does not go together.
    """

    hosts: Sequence[Host]
    topologies: Sequence[Topology]
    workloads: Sequence[Workload]
    repeats: int
    schedulers: Sequence[str] = ()

    def check_reach(self) -> None:
        """A host that only one tool reaches takes its workloads on what it reports, and nothing is built there."""
        listened = [host for host in self.hosts if host.only_tool]
        others = [host for host in self.hosts if not host.only_tool]
        for topology in self.topologies:
            reported = [layer["kind"] for layer in topology.stack] == ["reported"]
            if others and reported:
                raise ValidationError(
                    f"{topology} is what a tool reports of hosts that only it reaches; "
                    f"it cannot be built on {others[0]}."
                )
            if listened and (not reported or topology.stages):
                raise ValidationError(
                    f"{topology} cannot be built on {listened[0]}, which only {listened[0].only_tool} reaches: "
                    "choose one of what it reports (the host's page makes it)."
                )
        for host, workload in itertools.product(listened, self.workloads):
            if workload.tool != host.only_tool:
                raise ValidationError(
                    f"{workload} is not for {host}, which only {host.only_tool} reaches: "
                    f"it runs {host.only_tool}'s alone."
                )

    def factors(
        self, order: str = matrix.RANDOM_BLOCKS, visits: int | None = None
    ) -> matrix.Factors:
        """Factors of the matrix in that order. `visits`: as matrix.visits_of_order has them."""
        self._check_schedulers()
        try:
            return matrix.Factors(
                tuple(host.pk for host in self.hosts),
                tuple(topology.pk for topology in self.topologies),
                tuple((workload.pk, workload.sweep) for workload in self.workloads),
                self.repeats,
                {
                    row.pk: moments.measured_moments(row.stages, row.measure_resync)
                    for row in self.topologies
                },
                matrix.visits_of_order(order, visits),
                tuple(self.schedulers),
            )
        except matrix.MatrixError as error:
            text = str(error)
            for workload in self.workloads:
                text = text.replace(f"workload {workload.pk}:", f"Workload {workload.name}:")
            raise ValidationError(text) from None

    def _check_schedulers(self) -> None:
        """Check that the schedulers are known, for disks below each layout, where no layer sets one."""
        if not self.schedulers:
            return
        try:
            before_runs.check_schedulers(self.schedulers)
        except OptionsError as error:
            raise ValidationError(str(error)) from None
        for host in self.hosts:
            if host.only_tool:
                raise ValidationError(
                    f"schedulers: {host} is reached by {host.only_tool} only, and nothing can be set there."
                )
        for topology in self.topologies:
            if conflict := before_runs.conflict(self.schedulers, chain.specs(topology.stack)):
                raise ValidationError(f"{topology}: {conflict}.")

    @cached_property
    def spares(self) -> dict[int, list[Device]]:
        """The present spare devices of each host, in the order in which topologies take them."""
        devices_by_host: dict[int, list[Device]] = {host.pk: [] for host in self.hosts}
        devices = Device.objects.filter(host__in=devices_by_host, spare=True, present=True)
        for device in devices.order_by("host", "name"):
            devices_by_host[device.host_id].append(device)
        return devices_by_host

    @cached_property
    def costs(self) -> cost.Costs:
        """The cost of every point by (host, topology, workload, stages begun)."""
        costs: cost.Costs = {}
        for host, topology in itertools.product(self.hosts, self.topologies):
            for stage in range(len(topology.stages) + 1):
                target = cost.likely_target(topology, self.spares[host.pk], stage)
                for workload in self.workloads:
                    key = host.pk, topology.pk, workload.pk, stage
                    costs[key] = cost.workload_costs(workload, target, chain.specs(topology.stack))
        return costs

    @cached_property
    def build_times(self) -> cost.BuildTimes:
        return cost.estimate_builds(self.hosts, self.topologies)

    def run_costs(self, host: Host, factors: matrix.Factors) -> list[cost.Cost]:
        """The cost of each run of one host, over all visits."""
        return [
            run_cost
            for topology in self.topologies
            for visit in range(1, factors.visits + 1)
            for moment, _ in factors.visit_blocks(topology.pk, visit)
            for workload in self.workloads
            for _ in range(factors.times)
            for run_cost in self.costs[host.pk, topology.pk, workload.pk, moment.grown].values()
        ]


MAX_TRIALS = 2
WAIT_SECONDS = 5.0
LINE_SECONDS = 2.0
TOTAL_SECONDS = 6
# On a busy machine; CPU time is what counts.
WALL_SECONDS = 30.0
MEMORY_BYTES = 512 * 2**20
REGEX_SECONDS = 2.0

_trial_slots = threading.BoundedSemaphore(MAX_TRIALS)
_team_locks: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)


class Busy(Exception):
    """Others are trying patterns at the moment."""


def try_lines(team: int, sample: str, lines: Sequence[str], file: str) -> list[ExtractionOutcome]:
    """Outcome of each line on the sample, were it the program's `file`. Raises Busy."""
    content = sample.encode()
    request = Request(
        lines=list(lines),
        sizes={file: len(content)},
        regex_seconds=REGEX_SECONDS / len(lines),
        line_seconds=LINE_SECONDS,
        total_seconds=TOTAL_SECONDS,
        memory_bytes=MEMORY_BYTES,
    )
    with _trial_slot(team):
        return extraction_sandbox.run_extraction(request, content, WALL_SECONDS)


@contextmanager
def _trial_slot(team: int) -> Iterator[None]:
    request_slots.release_slot()
    same_team = _team_locks[team]
    if not same_team.acquire(timeout=WAIT_SECONDS):
        raise Busy
    try:
        if not _trial_slots.acquire(timeout=WAIT_SECONDS):
            raise Busy
        try:
            yield
        finally:
            _trial_slots.release()
    finally:
        same_team.release()
