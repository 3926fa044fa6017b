# SPDX-License-Identifier: Apache-2.0
"""Estimated cost of a campaign before it is made, and its recommended order with the effect of that (METHOD: order).

Sources: docs/analysis.md, section 1: in what was built one after the other, 18 to 22 % of equal set-ups seem to differ.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from agents.drivers import registry
from agents.plans import chain, fits
from benchlab.analysis import designs
from benchlab.analysis.designs import Order
from benchlab.campaigns import cost, matrix
from benchlab.campaigns.models import Campaign
from benchlab.campaigns.services import Selection
from benchlab.hosts.models import FactSnapshot, Host
from benchlab.topologies.models import required_disks

FEW_REPEATS = 3


@dataclass(frozen=True, slots=True)
class Advice:
    order: str
    says: str


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
    advice: Advice
    hosts: tuple[HostEstimate, ...]
    warnings: tuple[str, ...]

    @property
    def ends_at(self) -> datetime:
        """End of the campaign if it starts now."""
        return timezone.now() + timedelta(seconds=self.seconds)


# building all visits must cost less than one in so many parts of the measuring
CHEAP_FACTOR = 3.0
LARGER_ERROR = (
    "Differences between layouts may then be drift or the effect of one build, "
    "and are given with a larger error."
)
# of the wizard: whichever is advised
RECOMMENDED = "recommended"


def estimate(
    selection: Selection, order: str = matrix.RANDOM_BLOCKS, visits: int | None = None
) -> Estimate:
    """Estimate a campaign. Nothing is stored and no host is asked. The order may be RECOMMENDED.

    Raises ValidationError as `create_campaign`.
    """
    once = selection.factors()
    advice = advise_order(selection)
    order = advice.order if order == RECOMMENDED else order
    factors = selection.factors(order, visits if order == matrix.ABBA else None)
    each = tuple(_host_estimate(host, selection, factors) for host in selection.hosts)
    slowest = max(host.building for host in each)
    pairs = len(selection.hosts) * len(selection.topologies)
    return Estimate(
        runs=matrix.count_runs(factors),
        layouts=pairs * factors.visits,
        seconds=max(host.seconds for host in each),
        building=slowest,
        order=str(Campaign.Order(order).label),
        visits=factors.visits,
        again=slowest * (1 - once.visits / factors.visits),
        learned=all(build.learned for build in selection.build_times.values()),
        design=designs.WORDS[order_design(order, pairs)],
        advice=advice,
        hosts=each,
        warnings=tuple(_warnings(selection, factors)),
    )


def _host_estimate(host: Host, selection: Selection, factors: matrix.Factors) -> HostEstimate:
    mine = selection.run_costs(host, factors)
    builds = [selection.build_times[host.pk, topology.pk] for topology in selection.topologies]
    building = sum(build.seconds + (build.waits or 0.0) for build in builds) * factors.visits
    return HostEstimate(
        host=host,
        runs=len(mine),
        seconds=sum(run_cost.seconds for run_cost in mine) + building,
        building=building,
        writes=sum(run_cost.writes or 0 for run_cost in mine),
        unknown=sum(run_cost.writes is None for run_cost in mine),
    )


def _warnings(selection: Selection, factors: matrix.Factors) -> Iterator[str]:
    if factors.repeats < FEW_REPEATS:
        yield f"With fewer than {FEW_REPEATS} repeats no interval can be claimed: the chart shows points only."
    if factors.visits > 1:
        yield from _drift_warnings(factors)
    for host in selection.hosts:
        if host.access == Host.Access.SSH and not host.host_key:
            yield f"{host}: its host key is not confirmed yet, so it cannot be reached."
        spares = Counter(device.role for device in selection.spares[host.pk])
        for topology in selection.topologies:
            required = required_disks((*topology.stack, *topology.stages))
            for role, number in required.items():
                if spares[role] < number:
                    yield (
                        f"{host} has {spares[role]} spare {role} of the {number} that {topology} asks for; "
                        "mark more devices spare."
                    )
    yield from _missing_tools(selection)
    yield from _unwritten_reads(selection)
    waits = [
        str(topology)
        for topology in selection.topologies
        if cost.has_resync(topology) or cost.has_reshape(topology)
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


def _unwritten_reads(selection: Selection) -> Iterator[str]:
    """Warnings of reads that would measure no disk: one for each pair, however many points it has."""
    for topology, workload in itertools.product(selection.topologies, selection.workloads):
        points = cost.check_sweep(workload.name, workload.tool, workload.options, workload.sweep)
        specs = chain.specs(topology.stack)
        messages = (fits.unwritten(specs, workload.tool, built) for _, built in points)
        if message := next(filter(None, messages), ""):
            yield f"{workload} on {topology}: {message}."


def _missing_tools(selection: Selection) -> Iterator[str]:
    """Yield a sentence for each program that a tool needs and a host lacks.

    Layers are not checked: the programs that they need depend on their options, and the plan reports them.
    """
    needs = {
        need.program: need
        for workload in selection.workloads
        for need in registry.tool_programs(workload.tool, workload.options)
    }
    snapshots = FactSnapshot.objects.filter(host__in=[host.pk for host in selection.hosts])
    newest = snapshots.order_by("host_id", "-pk").distinct("host")
    facts_by_host: dict[int, dict[str, Any]] = dict(newest.values_list("host_id", "facts"))
    for host in selection.hosts:
        facts = facts_by_host.get(host.pk)
        if facts is None:
            continue
        for program, need in needs.items():
            if program not in facts.get("tools", {}):
                package = need.packages.get(facts.get("os_family", ""), "")
                cure = f"install the package {package}" if package else "install it"
                yield f"{host}: {program} was not found there when its facts were read; {cure}."


def order_design(order: str, pairs: int) -> Order:
    """Order by which the layouts of a campaign are compared: `pairs` of host and topology, built in that order.

    Workloads on one layout are interleaved whatever the order: each block has all of them.
    """
    if order == matrix.ABBA:
        return Order.ABBA
    return Order.INTERLEAVED if pairs == 1 else Order.ONE_AFTER_OTHER


def campaign_design(campaign: Campaign) -> Order:
    """Order in which the campaign was planned; its layouts show what became of the visits. Makes one query."""
    if campaign.source:
        return Order.UNTOLD
    pairs = campaign.layouts.order_by().values("host", "topology").distinct().count()
    return order_design(campaign.order, pairs)


def advise_order(selection: Selection) -> Advice:
    """ABBA where layouts are compared on the same disks and building them costs less than a third of the measuring.

    Raises ValidationError as `create_campaign`.
    """
    if not any(_share_disks(host, selection) for host in selection.hosts):
        why = "Each layout is built once: none is compared with another on the same disks."
        return Advice(matrix.RANDOM_BLOCKS, why)
    if why := _obstacle_to_abba(selection):
        return Advice(matrix.RANDOM_BLOCKS, f"Built one after the other: {why}. {LARGER_ERROR}")
    return Advice(
        matrix.ABBA,
        "The layouts take turns on the same disks (A B B A), each built twice: drift and the effect of one build "
        "do not appear as a difference.",
    )


def _share_disks(host: Host, selection: Selection) -> bool:
    """True when any two of the topologies would take a disk in common."""
    picked = [
        device
        for topology in selection.topologies
        for device in cost.picked_devices(topology, selection.spares[host.pk]) or []
    ]
    return len(set(picked)) < len(picked)


def _obstacle_to_abba(selection: Selection) -> str:
    """Reason not to build each layout twice; "" if there is none."""
    if selection.repeats < matrix.MIN_ABBA_VISITS:
        least = matrix.MIN_ABBA_VISITS
        return f"{selection.repeats} repeat cannot be divided over {least} visits of each layout (ABBA)"
    factors, builds = selection.factors(matrix.ABBA), selection.build_times
    if any(build.by_hand for build in builds.values()):
        return "the manual steps of each layout would have to be done twice"
    if any(build.total_s is None for build in builds.values()):
        return "the duration of the initial resync is not known yet, and every visit waits for it again"
    for host in selection.hosts:
        once_s = sum(
            builds[host.pk, topology.pk].total_s or 0.0 for topology in selection.topologies
        )
        measuring_s = sum(run.seconds for run in selection.run_costs(host, factors))
        if once_s * factors.visits * CHEAP_FACTOR >= measuring_s:
            return "building each layout twice would cost a third of the measuring or more"
    return ""
