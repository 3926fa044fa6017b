# SPDX-License-Identifier: Apache-2.0
"""Estimated cost of a campaign before it is made: runs, seconds, bytes written per host, and warnings."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from agents.drivers import registry
from agents.plans import chain, fits
from benchlab.analysis import designs
from benchlab.campaigns import build_times, cost, matrix, ordering, services
from benchlab.campaigns.models import Campaign, Workload
from benchlab.hosts.models import Device, FactSnapshot, Host
from benchlab.topologies.models import Topology

FEW_REPEATS = 3


@dataclass(frozen=True, slots=True)
class HostEstimate:
    """Estimate for one host. `writes` is the known sum; `unknown` counts the runs whose writes cannot be estimated.

    `seconds` are all, of which `building` go into building layouts and taking them down.
    """

    host: Host
    runs: int
    seconds: float
    building: float
    writes: int
    unknown: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """`seconds` is the wall time: hosts work side by side, the layouts of one host after each other.

    `order`: the one that it is for, in which each layout has so many `visits`. `advice`: what should be, and why.
    `again`: what visits after the first cost in building, on the host where that is most.
    """

    runs: int
    layouts: int
    seconds: float
    building: float
    order: str
    visits: int
    again: float
    # whether every layout was built on its host before
    learned: bool
    design: str
    advice: ordering.Advice
    hosts: tuple[HostEstimate, ...]
    warnings: tuple[str, ...]

    @property
    def ends_at(self) -> datetime:
        """End of the campaign if it starts now."""
        return timezone.now() + timedelta(seconds=self.seconds)


def estimate(
    hosts: Sequence[Host],
    topologies: Sequence[Topology],
    workloads: Sequence[Workload],
    repeats: int,
    order: str = matrix.RANDOM_BLOCKS,
    visits: int | None = None,
    schedulers: Sequence[str] = (),
) -> Estimate:
    """Estimate a campaign. Nothing is stored and no host is asked. The order may be ordering.RECOMMENDED.

    Raises ValidationError as `create_campaign`.
    """
    once = services.build_factors(hosts, topologies, workloads, repeats, schedulers=schedulers)
    costs = services.all_costs(hosts, topologies, workloads)
    advice = ordering.advise_order(hosts, topologies, workloads, repeats, schedulers)
    order = advice.order if order == ordering.RECOMMENDED else order
    visits = visits if order == matrix.ABBA else None
    factors = services.build_factors(
        hosts, topologies, workloads, repeats, order, visits, schedulers
    )
    takes = build_times.estimate_builds(hosts, topologies)
    each = tuple(_host_estimate(host, topologies, factors, costs, takes) for host in hosts)
    slowest = max(host.building for host in each)
    pairs = len(hosts) * len(topologies)
    return Estimate(
        runs=matrix.count_runs(factors),
        layouts=pairs * factors.visits,
        seconds=max(host.seconds for host in each),
        building=slowest,
        order=str(Campaign.Order(order).label),
        visits=factors.visits,
        again=slowest * (1 - once.visits / factors.visits),
        learned=all(build.learned for build in takes.values()),
        design=designs.WORDS[ordering.order_design(order, pairs)],
        advice=advice,
        hosts=each,
        warnings=tuple(_warnings(hosts, topologies, workloads, factors)),
    )


def _host_estimate(
    host: Host,
    topologies: Sequence[Topology],
    factors: matrix.Factors,
    costs: cost.Costs,
    takes: build_times.BuildTimes,
) -> HostEstimate:
    mine = ordering.run_costs(host, topologies, factors, costs)
    once = sum(
        build.seconds + (build.waits or 0.0)
        for build in (takes[host.pk, topology.pk] for topology in topologies)
    )
    return HostEstimate(
        host=host,
        runs=len(mine),
        seconds=sum(run_cost.seconds for run_cost in mine) + once * factors.visits,
        building=once * factors.visits,
        writes=sum(run_cost.writes or 0 for run_cost in mine),
        unknown=sum(run_cost.writes is None for run_cost in mine),
    )


def _warnings(
    hosts: Sequence[Host],
    topologies: Sequence[Topology],
    workloads: Sequence[Workload],
    factors: matrix.Factors,
) -> Iterator[str]:
    if factors.repeats < FEW_REPEATS:
        yield f"With fewer than {FEW_REPEATS} repeats no interval can be claimed: the chart shows points only."
    if factors.visits > 1:
        yield from _drift_warnings(factors)
    spares = services.spare_devices(hosts)
    for host in hosts:
        if host.access == Host.Access.SSH and not host.host_key:
            yield f"{host}: its host key is not confirmed yet, so it cannot be reached."
        for topology in topologies:
            yield from _missing_devices(host, topology, spares[host.pk])
    yield from _missing_tools(hosts, workloads)
    yield from _unwritten_reads(topologies, workloads)
    waits = [
        str(topology)
        for topology in topologies
        if build_times.has_resync(topology) or build_times.has_reshape(topology)
    ]
    if waits:
        yield (
            f"{', '.join(waits)}: how long a resync or reshape takes is known only when it runs;"
            " the waiting time is not in this estimate, unless the first resync of such a layout was waited for"
            " on that host before."
        )


def _drift_warnings(factors: matrix.Factors) -> Iterator[str]:
    """Warnings of a steady drift that is left in the difference between two layouts."""
    each = [len(repeats) for repeats in matrix.divide_repeats(factors.repeats, factors.visits)]
    if len(set(each)) > 1:
        yield (
            f"The visits measure {', '.join(map(str, each))} repeats: a steady drift cancels wholly only where each "
            f"measures as many; use a multiple of {factors.visits}."
        )
    if factors.visits % 2:
        yield "A steady drift cancels wholly only in an even number of visits."


def _unwritten_reads(
    topologies: Sequence[Topology], workloads: Sequence[Workload]
) -> Iterator[str]:
    """Warnings of reads that would measure no disk: one for each pair, however many points it has."""
    for topology, workload in itertools.product(topologies, workloads):
        points = cost.check_sweep(workload.name, workload.tool, workload.options, workload.sweep)
        specs = chain.specs(topology.stack)
        messages = (fits.unwritten(specs, workload.tool, built) for _, built in points)
        if message := next(filter(None, messages), ""):
            yield f"{workload} on {topology}: {message}."


def _missing_devices(host: Host, topology: Topology, spares: Sequence[Device]) -> Iterator[str]:
    required: dict[str, int] = {}
    for role, number in cost.device_groups(topology):
        required[role] = required.get(role, 0) + number
    for role, number in required.items():
        have = sum(device.role == role for device in spares)
        if have < number:
            yield f"{host} has {have} spare {role} of the {number} that {topology} asks for; mark more devices spare."


def _missing_tools(hosts: Sequence[Host], workloads: Sequence[Workload]) -> Iterator[str]:
    """Yield a sentence for each program that a tool needs and a host lacks.

    Layers are not checked: the programs that they need depend on their options, and the plan reports them.
    """
    needs_by_workload = [
        registry.tool_programs(workload.tool, workload.options) for workload in workloads
    ]
    needs = {need.program: need for some in needs_by_workload for need in some}
    for host, facts in _latest_facts(hosts):
        installed = facts.get("tools", {})
        family = facts.get("os_family", "")
        for program, need in needs.items():
            if program not in installed:
                package = need.packages.get(family, "")
                cure = f"install the package {package}" if package else "install it"
                yield f"{host}: {program} was not found there when its facts were read; {cure}."


def _latest_facts(hosts: Sequence[Host]) -> Iterator[tuple[Host, dict[str, Any]]]:
    latest = FactSnapshot.objects.filter(host__in=[host.pk for host in hosts])
    by_host = {
        snapshot.host_id: snapshot.facts
        for snapshot in latest.order_by("host_id", "-pk").distinct("host")
    }
    for host in hosts:
        if host.pk in by_host:
            yield host, by_host[host.pk]
