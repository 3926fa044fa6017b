# SPDX-License-Identifier: Apache-2.0
"""A topology in terms of roles, and whether its layers can stand on each other. Pure, no host needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents import options
from agents.contracts import PlanError
from agents.drivers import protocols, registry
from agents.drivers.protocols import Layer

WORDS = {
    "nothing": "nothing",
    "devices": "disks",
    "own": "disks of its own",
    "parts": "partitions",
    "volume": "a volume",
    "lv": "a logical volume",
    "pool": "a zpool",
    "mount": "a mounted directory",
    "any": "anything",
    "same": "what is below it",
}
IS_VOLUME = {"volume", "lv"}
TOOLS_TAKE = {*IS_VOLUME, "mount"}


@dataclass(frozen=True, slots=True)
class DiskRequest:
    """A request for `count` disks of a role for one use of a layer."""

    use: str
    role: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """One layer of a topology, in terms of roles."""

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    devices: tuple[DiskRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class StageSpec:
    """A layer that grows once the stack stands: by more disks, with the options of its driver's `Grow`."""

    # 1-based, bottom up
    layer: int
    options: Mapping[str, Any] = field(default_factory=dict)
    devices: tuple[DiskRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class ChainFault:
    """Reason why layers cannot stand, in words, and the number of the layer from 1 (0: there is none)."""

    layer: int
    message: str
    # nothing is wrong so far: a layer on top of it is missing
    unfinished: bool = False


def specs(data: Iterable[Mapping[str, Any]]) -> list[LayerSpec]:
    """A topology's stored stack: {"kind", "options", "devices": [{"use", "role", "count"}]} for each layer."""
    return [
        LayerSpec(layer["kind"], layer.get("options", {}), _disk_requests(layer.get("devices", [])))
        for layer in data
    ]


def stage_specs(data: Iterable[Mapping[str, Any]]) -> list[StageSpec]:
    """A topology's stored stages: {"layer", "options", "devices"} for each; other keys are not for a plan."""
    return [
        StageSpec(
            stage["layer"], stage.get("options", {}), _disk_requests(stage.get("devices", []))
        )
        for stage in data
    ]


def _disk_requests(groups: Iterable[Mapping[str, Any]]) -> tuple[DiskRequest, ...]:
    return tuple(DiskRequest(**group) for group in groups)


def assign_source_disks(
    specs: Iterable[LayerSpec], disks: Mapping[str, Sequence[str]]
) -> list[dict[str, tuple[str, ...]]]:
    """{use: its disks} of each layer, of results whose source tells `disks`: role -> kernel names, in order.

    A use with an unknown disk is left out.
    """
    remaining = {role: list(names) for role, names in disks.items()}
    assigned: list[dict[str, tuple[str, ...]]] = []
    for spec in specs:
        uses: dict[str, tuple[str, ...]] = {}
        for request in spec.devices:
            names = remaining.get(request.role, [])
            if request.count and len(names) >= request.count:
                uses[request.use] = (*uses.get(request.use, ()), *names[: request.count])
                remaining[request.role] = names[request.count :]
        assigned.append(uses)
    return assigned


def check_chain(specs: Sequence[LayerSpec]) -> None:
    """Every layer stands on what the one below gives, and the top one on which a tool can work.

    Raises PlanError naming the layer.
    """
    for trouble in troubles(specs):
        raise PlanError(trouble.message)


def troubles(specs: Sequence[LayerSpec]) -> Iterator[ChainFault]:
    """All that keeps the layers from standing on each other, from the bottom up; then what is missing on top."""
    if not specs:
        yield ChainFault(0, "a topology needs one layer at least", unfinished=True)
        return
    form, giver = "nothing", ""
    for number, spec in enumerate(specs, start=1):
        driver = registry.layer(spec.kind)
        where = f"layer {number} ({driver.LABEL})"
        if not stands_on(driver, form):
            below = (
                f"but {giver} gives {WORDS[form]}"
                if giver
                else "add a layer below that provides one"
            )
            yield ChainFault(number, f"{where} needs {WORDS[driver.REQUIRES]}, {below}")
        elif wrong := _wrong_uses(driver, spec.devices, form):
            yield ChainFault(number, f"{where}{wrong}")
        if driver.PROVIDES != "same":
            form, giver = driver.PROVIDES, where
    if form not in TOOLS_TAKE:
        who = giver or "the topology"
        problem = f"{who} gives {WORDS[form]}; a tool needs a volume or a mounted directory"
        yield ChainFault(len(specs), problem, unfinished=True)


def gives(kinds: Iterable[str]) -> str:
    """Word of GIVES for a stack of these layers: a layer that only sets something passes on what is below it."""
    forms = [form for kind in kinds if (form := registry.layer(kind).PROVIDES) != "same"]
    return forms[-1] if forms else "nothing"


def stands_on(driver: Layer[Any], form: str) -> bool:
    """True when the layer can stand on one that gives this (a word of GIVES; "nothing": on no layer)."""
    accepts = {
        "devices": {"nothing", "parts", *IS_VOLUME},
        "own": {"nothing", "parts"},
        "volume": {"parts", *IS_VOLUME},
        "any": set(WORDS),
    }
    return form in accepts.get(driver.REQUIRES, {driver.REQUIRES})


def _wrong_uses(driver: Layer[Any], requests: Sequence[DiskRequest], below: str) -> str:
    """Fault in the layer's own disks, to be said after its name; "" where there is none."""
    counts: dict[str, int] = {}
    for request in requests:
        if request.use not in driver.USES or request.use in counts:
            uses = ", ".join(driver.USES) or "none"
            return f": disks for {request.use!r}; its uses are {uses}"
        counts[request.use] = request.count
    main = next(iter(driver.USES), "")
    if below in IS_VOLUME and driver.REQUIRES == "devices":
        if main in counts:
            return f" has {main} disks of its own, but {WORDS[below]} is below it"
        counts[main] = 1
    for use, means in driver.USES.items():
        have = counts.get(use, 0)
        # What was cut for it, its plan counts: also the several volumes that bcache may give.
        cut = below == "parts" or (below in IS_VOLUME and use == main)
        least = 0 if cut else means.least
        if not (least <= have <= means.most) or (use in counts and have < 1):
            most = f"{max(least, 1)} to {means.most} disks, not {have}"
            return f" takes {use} ({means.purpose}): {most}"
    return ""


def check_stages(specs: Sequence[LayerSpec], stages: Sequence[StageSpec]) -> None:
    """Every stage names a layer that can grow, by disks it has a use for. Raises PlanError or OptionsError."""
    for number, stage in enumerate(stages, start=1):
        where = f"stage {number}"
        if not 1 <= stage.layer <= len(specs):
            raise PlanError(f"{where}: there is no layer {stage.layer}")
        spec = specs[stage.layer - 1]
        driver = registry.implements(spec.kind, protocols.Growable)
        if driver is None:
            raise PlanError(f"{where}: {registry.layer(spec.kind).LABEL} cannot grow")
        options.build_options(driver.Grow, stage.options)
        for request in stage.devices:
            if request.use not in driver.USES or request.count < 1:
                raise PlanError(f"{where}: {request.count} disks for {request.use!r}")
        for above in specs[stage.layer :]:
            upper = registry.layer(above.kind)
            if (
                upper.PROVIDES != "same"
                and registry.implements(above.kind, protocols.Expandable) is None
            ):
                raise PlanError(f"{where}: {upper.LABEL} above it cannot follow when it grows")
