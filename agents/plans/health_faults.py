# SPDX-License-Identifier: Apache-2.0
"""Faults of a layout's layers: at one moment, and in the samples of a run. Pure.

Each frame is a health check of its own, in the parts that it has; layers judge it by their `health_faults`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agents import options
from agents.contracts import Frame, claims_of
from agents.drivers import protocols, registry
from agents.facts import health
from agents.facts.health import Health
from agents.plans.stack import StackPlan


def stack_faults(plan: StackPlan, health: Health, stage: int = 0) -> list[str]:
    """Faults in any layer, hidden or not, after `stage` stages; and disks that are gone. [] is right."""
    layers = plan.layers_after(stage)
    faults = [fault for claim in claims_of(layers[-1].gives) for fault in _disk(claim.node, health)]
    for layer in layers:
        kind = layer.spec.kind
        if driver := registry.implements(kind, protocols.HealthCheck):
            built = options.build_options(driver.Options, layer.spec.options)
            faults += [
                f"{kind}: {fault}" for fault in driver.health_faults(built, layer.target, health)
            ]
    return list(dict.fromkeys(faults))


def _disk(node: str, health: Health) -> list[str]:
    if node not in health.names:
        return [f"{node} is gone"]
    values = health.values.get(health.kernel_name(node), {})
    wrong = [f"{node} is gone"] if values.get("size") == "0" else []
    if values.get("ro") == "1":
        wrong.append(f"{node} is read-only")
    if values.get("device/state", "running") not in ("running", "live"):
        wrong.append(f"{node} is {values['device/state']}")
    return wrong


def layout_nodes(plan: StackPlan, stage: int = 0) -> list[str]:
    """Every node that a layer after `stage` stages stands on or gives: disks, pieces of them, volumes."""
    node_set: dict[str, None] = {}
    for layer in plan.layers_after(stage):
        for target in (layer.target, layer.gives):
            node_set |= dict.fromkeys(claim.node for claim in claims_of(target))
            node_set |= dict.fromkeys(
                part.node for parts in target.parts.values() for part in parts
            )
            node_set |= dict.fromkeys([target.volume] if target.volume else [])
    return list(node_set)


BCACHE = re.compile(r"/sys/class/block/([^/]+)/(bcache/(?:state|running))")
POOL = re.compile(r"/proc/spl/kstat/zfs/([^/]+)/state")
# the end of the sampler's command
STATUS = "dmsetup status --noflush"
SAMPLED = re.compile(
    rb"^# (?:/proc/mdstat|/sys/class/block/[^/\n]+/bcache/|/proc/spl/kstat/zfs/[^/\n]+/state|\|.*dmsetup status)",
    re.M,
)


@dataclass(frozen=True, slots=True)
class FaultSpan:
    """A fault, and for how many of the run's seconds it was there."""

    fault: str
    seconds: float
    run_seconds: float

    @property
    def sentence(self) -> str:
        return f"{self.fault}, for {self.seconds:.0f} s of {self.run_seconds:.0f} s"


def any_sampled(raw: bytes) -> bool:
    """True when samples hold any of what is looked at here: most hosts have neither arrays nor pools."""
    return SAMPLED.search(raw) is not None


def fault_spans(
    plan: StackPlan,
    frames: Sequence[Frame],
    after: Health,
    stage: int = 0,
    growing: bool = False,
    expected_faults: Collection[str] = (),
) -> list[FaultSpan]:
    """Faults that are neither `expected_faults` nor in the look `after` the run. A frame counts from the one before it.

    `growing`: the run is meant to measure while the kernel works on the layout. Raises AgentError for what no kernel
    prints.
    """
    expected = {*expected_faults, *stack_faults(plan, after, stage)}
    sampled = {path for frame in frames for path in frame.files}
    seconds = dict[str, float]()
    earlier = frames[0].at if frames else 0.0
    for frame in _complete_frames(frames):
        now = replace(_health_at(frame, after, sampled), at_rest=not growing)
        for fault in stack_faults(plan, now, stage):
            seconds[fault] = seconds.get(fault, 0.0) + frame.at - earlier
        earlier = frame.at
    total = frames[-1].at - frames[0].at if frames else 0.0
    return [FaultSpan(fault, s, total) for fault, s in seconds.items() if fault not in expected]


def _complete_frames(frames: Sequence[Frame]) -> Iterator[Frame]:
    """Without what a command printed in the last frame: it may have been ended in the midst of it, with the job."""
    yield from frames[:-1]
    for frame in frames[-1:]:
        files = {path: text for path, text in frame.files.items() if not path.endswith(STATUS)}
        yield replace(frame, files=files)


def _health_at(frame: Frame, after: Health, sampled: Collection[str]) -> Health:
    """The host as it was at that moment, as far as it was sampled; else as after the run."""
    now = replace(after, values=_caches(frame.files, after.values, sampled))
    if "/proc/mdstat" in frame.files:
        now = replace(now, arrays=health.parse_mdstat_text(frame.files["/proc/mdstat"]))
    for path, text in frame.files.items():
        if path.endswith(STATUS) and text:
            now = replace(now, mapped={**after.mapped, **health.parse_dm_status(text)})
        elif pool := POOL.fullmatch(path):
            now = health.with_pool_state(now, pool[1], text.strip())
    return now


def _caches(
    files: Mapping[str, str], after: Mapping[str, Mapping[str, str]], sampled: Collection[str]
) -> Mapping[str, Mapping[str, str]]:
    """State of each backing device of bcache; none where a file is away that is in other frames."""
    caches = {name: dict(values) for name, values in after.items()}
    for path in sampled:
        if match := BCACHE.fullmatch(path):
            caches.setdefault(match[1], {})[match[2]] = files.get(path, "").strip()
    return caches
