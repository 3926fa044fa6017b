# SPDX-License-Identifier: Apache-2.0
"""Recommended order of a campaign, and its effect on comparisons between layouts (METHOD: order).

Sources: docs/analysis.md, section 1: in what was built one after the other, 18 to 22 % of equal set-ups seem to differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchlab.analysis.designs import Order
from benchlab.campaigns import build_times, cost, matrix, services
from benchlab.campaigns.models import Campaign, Workload
from benchlab.hosts.models import Device, Host
from benchlab.topologies.models import Topology

# building all visits must cost less than one in so many parts of the measuring
CHEAP_FACTOR = 3.0
LARGER_ERROR = (
    "Differences between layouts may then be drift or the effect of one build, "
    "and are given with a larger error."
)
# of the wizard: whichever is advised
RECOMMENDED = "recommended"


@dataclass(frozen=True, slots=True)
class Advice:
    order: str
    says: str


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


def advise_order(
    hosts: Sequence[Host],
    topologies: Sequence[Topology],
    workloads: Sequence[Workload],
    repeats: int,
    schedulers: Sequence[str] = (),
) -> Advice:
    """ABBA where layouts are compared on the same disks and building them costs less than a third of the measuring.

    Raises ValidationError as `create_campaign`.
    """
    once = matrix.RANDOM_BLOCKS
    spares = services.spare_devices(hosts)
    if not any(share_disks(topologies, spares[host.pk]) for host in hosts):
        why = "Each layout is built once: none is compared with another on the same disks."
        return Advice(once, why)
    if repeats < matrix.MIN_ABBA_VISITS:
        return _one_after_other(
            f"{repeats} repeat cannot be divided over {matrix.MIN_ABBA_VISITS} visits of each layout (ABBA)"
        )
    return _by_cost(
        hosts,
        topologies,
        services.build_factors(
            hosts, topologies, workloads, repeats, matrix.ABBA, schedulers=schedulers
        ),
        services.all_costs(hosts, topologies, workloads),
    )


def _one_after_other(why: str) -> Advice:
    return Advice(matrix.RANDOM_BLOCKS, f"Built one after the other: {why}. {LARGER_ERROR}")


def _by_cost(
    hosts: Sequence[Host],
    topologies: Sequence[Topology],
    factors: matrix.Factors,
    costs: cost.Costs,
) -> Advice:
    """Advice by the cost of building. `factors`: those of the order ABBA."""
    takes = build_times.estimate_builds(hosts, topologies)
    if any(build.by_hand for build in takes.values()):
        why = "the manual steps of each layout would have to be done twice"
    elif any(build.total_s is None for build in takes.values()):
        why = "the duration of the initial resync is not known yet, and every visit waits for it again"
    elif _is_cheap(hosts, topologies, factors, costs, takes):
        return Advice(
            matrix.ABBA,
            "The layouts take turns on the same disks (A B B A), each built twice: drift and the effect of one build "
            "do not appear as a difference.",
        )
    else:
        why = "building each layout twice would cost a third of the measuring or more"
    return _one_after_other(why)


def _is_cheap(
    hosts: Sequence[Host],
    topologies: Sequence[Topology],
    factors: matrix.Factors,
    costs: cost.Costs,
    takes: build_times.BuildTimes,
) -> bool:
    """True if, on each host, building takes less than 1/CHEAP_FACTOR of the time that measuring takes."""
    for host in hosts:
        builds = (
            sum(takes[host.pk, topology.pk].total_s or 0.0 for topology in topologies)
            * factors.visits
        )
        if builds * CHEAP_FACTOR >= measuring_s(host, topologies, factors, costs):
            return False
    return True


def measuring_s(
    host: Host, topologies: Sequence[Topology], factors: matrix.Factors, costs: cost.Costs
) -> float:
    """Seconds that all runs of one host take."""
    return sum(run_cost.seconds for run_cost in run_costs(host, topologies, factors, costs))


def run_costs(
    host: Host, topologies: Sequence[Topology], factors: matrix.Factors, costs: cost.Costs
) -> list[cost.Cost]:
    """The cost of each run of one host, over all visits."""
    return [
        run_cost
        for topology in topologies
        for visit in range(1, factors.visits + 1)
        for moment, _ in factors.visit_blocks(topology.pk, visit)
        for workload, _ in factors.workloads
        for _ in range(factors.times)
        for run_cost in costs[host.pk, topology.pk, workload, moment.grown].values()
    ]


def share_disks(topologies: Sequence[Topology], spares: Sequence[Device]) -> bool:
    """True when any two of the topologies would take a disk in common."""
    used: set[int] = set()
    for topology in topologies:
        picked = {device.pk for device in cost.picked_devices(topology, list(spares)) or []}
        if used & picked:
            return True
        used |= picked
    return False
