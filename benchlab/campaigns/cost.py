# SPDX-License-Identifier: Apache-2.0
"""Cost of one run by its tool driver, and of building a layout, measured in earlier builds. No host is touched."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import F, Min

from agents import options as driver_options
from agents.contracts import AgentError, OptionsError, Target
from agents.drivers import protocols, registry
from agents.plans import chain, fits
from benchlab.campaigns import matrix
from benchlab.campaigns.models import Workload
from benchlab.hosts.models import Device, Host
from benchlab.topologies.models import Topology, required_disks

# (host, topology, workload, stages begun) -> matrix.json_key(point) -> cost
Costs = dict[tuple[int, int, int, int], "dict[str, Cost]"]

# Building and taking down a layout, beside its runs: facts, mkfs, mount, proving the disks blank.
LAYOUT_OVERHEAD_S = 20.0


@dataclass(frozen=True, slots=True)
class Cost:
    """`options` are complete and checked, ready to be frozen into a Run. `writes` None: nobody can tell."""

    options: dict[str, Any]
    outstanding: int | None
    seconds: float
    writes: int | None


def check_sweep(
    name: str, tool: str, options: Mapping[str, Any], sweep: matrix.Sweep
) -> Iterator[tuple[dict[str, Any], Any]]:
    """Check a sweep; return (point, checked Options) of every point.

    Raises ValidationError naming workload, option and value.
    """
    try:
        driver = registry.tool(tool)
    except AgentError as error:
        raise ValidationError(f"Workload {name}: {error}") from None
    for point in matrix.sweep_points(sweep):
        try:
            yield point, driver_options.build_options(driver.Options, {**options, **point})
        except AgentError as error:
            raise ValidationError(f"Workload {name}{_at_point(point)}: {error}") from None


def workload_costs(
    workload: Workload, target: Target, stack: Sequence[chain.LayerSpec] = ()
) -> dict[str, Cost]:
    """Costs by matrix.json_key(point) on `target`, the top of `stack`. Raises ValidationError as `check_sweep`."""
    costs = {}
    for point, built in check_sweep(workload.name, workload.tool, workload.options, workload.sweep):
        try:
            fits.check_size(stack, workload.tool, built, target)
            costs[matrix.json_key(point)] = _point_cost(workload.tool, built, target)
        except AgentError as error:
            raise ValidationError(f"Workload {workload.name}{_at_point(point)}: {error}") from None
    return costs


def _point_cost(tool: str, built: Any, target: Target) -> Cost:
    driver = registry.tool(tool)
    job = driver.build_job(built, target)
    dumped, outstanding = driver_options.dump(built), driver.outstanding_ios(built)
    # A product of several options
    if outstanding and outstanding > driver_options.MOST_OUTSTANDING:
        raise OptionsError(
            f"{outstanding} outstanding I/Os: more than {driver_options.MOST_OUTSTANDING}"
        )
    return Cost(dumped, outstanding, job.expected_s, job.writes)


def likely_target(topology: Topology, spares: Sequence[Device], stage: int = 0) -> Target:
    """Target that the layout will probably give its runs: the plan knows better, but it needs the host to answer.

    The size is that of the spare devices its layers have after `stage` stages; 0 when it cannot be told.
    """
    gives = chain.gives(layer["kind"] for layer in topology.stack)
    number = sum(required_disks((*topology.stack, *topology.stages[:stage])).values())
    size = sum(device.size for device in (picked_devices(topology, spares) or [])[:number])
    if gives == "mount":
        return Target(name="bl0", size=size, mount="/mnt/bl0")
    return Target(name="bl0", size=size, volume="/dev/mapper/bl0")


def picked_devices(topology: Topology, spares: Sequence[Device]) -> list[Device] | None:
    """The spare devices that would be taken, by role in the order given; None when there are too few."""
    free, picked = list(spares), list[Device]()
    for entry in (*topology.stack, *topology.stages):
        for group in entry.get("devices", ()):
            mine = [device for device in free if device.role == group["role"]][: group["count"]]
            if len(mine) < group["count"]:
                return None
            picked += mine
            free = [device for device in free if device not in mine]
    return picked


def _at_point(point: Mapping[str, Any]) -> str:
    words = matrix.describe_point(point)
    return f" at {words}" if words else ""


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
