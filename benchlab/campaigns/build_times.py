# SPDX-License-Identifier: Apache-2.0
"""Durations of building a layout and taking it down: measured in earlier builds, or estimated. One query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from django.db.models import F, Min

from agents.drivers import protocols, registry
from benchlab.campaigns.cost import LAYOUT_OVERHEAD_S
from benchlab.hosts.models import Host
from benchlab.topologies.models import Topology

# builds that an estimate is the median of
MAX_BUILDS = 5
# that are looked at
MAX_ROWS = 1000
MANUAL_LAYER = "manual"


@dataclass(frozen=True, slots=True)
class BuildTime:
    """Duration of a build in seconds.

    `waits`: seconds for the kernel (a first resync) before the runs begin; None if nobody can tell.
    """

    seconds: float
    waits: float | None = 0.0
    # Measured in earlier builds of the same stack on that host, else an estimate.
    learned: bool = False
    # A person does part of the build.
    by_hand: bool = False

    @property
    def total_s(self) -> float | None:
        """Total seconds; None if nobody can tell, or a person does part of the build."""
        return None if self.waits is None or self.by_hand else self.seconds + self.waits


# (host, topology)
BuildTimes = dict[tuple[int, int], BuildTime]


def estimate_builds(hosts: Sequence[Host], topologies: Sequence[Topology]) -> BuildTimes:
    """Build time of each topology on each host."""
    took = _measured_builds(hosts, topologies)
    return {
        (host.pk, topology.pk): _build_time(topology, took.get((host.pk, topology.pk), []))
        for host in hosts
        for topology in topologies
    }


def _build_time(topology: Topology, took: Sequence[tuple[float, float]]) -> BuildTime:
    """`took`: (building and taking down, waiting until the first run) of earlier builds."""
    by_hand = any(layer["kind"] == MANUAL_LAYER for layer in topology.stack)
    awaits, grows = has_resync(topology), has_reshape(topology)
    # A person's time says nothing about the next build.
    if by_hand or not took:
        return BuildTime(LAYOUT_OVERHEAD_S, None if awaits or grows else 0.0, by_hand=by_hand)
    waits: float | None = median(waited for _, waited in took) if awaits else 0.0
    # what is waited for after a growth is among its runs
    if grows:
        waits = None
    return BuildTime(median(seconds for seconds, _ in took), waits, learned=True)


def has_resync(topology: Topology) -> bool:
    """True when the kernel works on after the layout was built, as far as is known."""
    return any(registry.starts_resync(layer["kind"], layer["options"]) for layer in topology.stack)


def has_reshape(topology: Topology) -> bool:
    """True when the kernel may work on after the layout has grown."""
    awaits = any(
        registry.implements(layer["kind"], protocols.BackgroundWork) for layer in topology.stack
    )
    return awaits and bool(topology.stages)


def _measured_builds(
    hosts: Sequence[Host], topologies: Sequence[Topology]
) -> dict[tuple[int, int], list[tuple[float, float]]]:
    """The newest builds that nothing cut off, of the stack as it is now."""
    stacks = {topology.pk: topology.stack for topology in topologies}
    rows = (
        Topology.objects.filter(
            pk__in=stacks,
            layouts__host__in=[host.pk for host in hosts],
            layouts__outcome="succeeded",
            layouts__rebuilds=0,
            layouts__begun_at__isnull=False,
            layouts__ready_at__isnull=False,
            layouts__down_at__isnull=False,
            layouts__ended_at__isnull=False,
        )
        .order_by("-layouts__pk")
        .values_list(
            "pk",
            "layouts__host",
            "layouts__stack",
            F("layouts__ready_at") - F("layouts__begun_at"),
            F("layouts__ended_at") - F("layouts__down_at"),
            "layouts__ready_at",
        )
        .annotate(first=Min("layouts__attempts__started_at"))
    )
    builds: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for topology, host, stack, up, down, ready, first in rows[:MAX_ROWS]:
        durations = builds[host, topology]
        if stack == stacks[topology] and len(durations) < MAX_BUILDS and first:
            durations.append(
                ((up + down).total_seconds(), max(0.0, (first - ready).total_seconds()))
            )
    return builds
