# SPDX-License-Identifier: Apache-2.0
"""Cost of one run by its tool driver: seconds, bytes written, outstanding I/Os. No host is touched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError

from agents import options as driver_options
from agents.contracts import AgentError, OptionsError, Target
from agents.drivers import registry
from agents.plans import chain, fits
from benchlab.campaigns import matrix, points
from benchlab.campaigns.models import Workload
from benchlab.hosts.models import Device
from benchlab.topologies.models import Topology

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


def likely_target(topology: Topology, spares: list[Device], stage: int = 0) -> Target:
    """Target that the layout will probably give its runs: the plan knows better, but it needs the host to answer.

    The size is that of the spare devices its layers have after `stage` stages; 0 when it cannot be told.
    """
    gives = chain.gives(layer["kind"] for layer in topology.stack)
    devices = picked_devices(topology, spares)
    size = (
        sum(device.size for device in devices[: _device_count(topology, stage)]) if devices else 0
    )
    if gives == "mount":
        return Target(name="bl0", size=size, mount="/mnt/bl0")
    return Target(name="bl0", size=size, volume="/dev/mapper/bl0")


def device_groups(topology: Topology, stages: int | None = None) -> Iterator[tuple[str, int]]:
    """Pairs (role, count) of every device group that the stack asks for, then of its stages (all by default)."""
    for asking in [*topology.stack, *topology.stages[:stages]]:
        for group in asking.get("devices", ()):
            yield group["role"], group["count"]


def _device_count(topology: Topology, stages: int) -> int:
    return sum(count for _, count in device_groups(topology, stages))


def picked_devices(topology: Topology, spares: list[Device]) -> list[Device] | None:
    """The spare devices that would be taken, by role in the order given; None when there are too few."""
    free = list(spares)
    picked = []
    for role, count in device_groups(topology):
        mine = [device for device in free if device.role == role][:count]
        if len(mine) < count:
            return None
        picked += mine
        free = [device for device in free if device not in mine]
    return picked


def _at_point(point: Mapping[str, Any]) -> str:
    words = points.describe_point(point)
    return f" at {words}" if words else ""
