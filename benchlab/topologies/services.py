# SPDX-License-Identifier: Apache-2.0
"""Making and changing topologies. Layouts copy the stack, so a change touches no campaign that exists."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import ValidationError

from agents import options as driver_options
from agents.contracts import AgentError
from agents.drivers import protocols, registry
from agents.drivers.protocols import Growable, Layer
from agents.plans.chain import check_chain, check_stages, specs, stage_specs
from benchlab.team.models import Team
from benchlab.topologies.models import MAX_DEVICES, OnDegraded, Topology

Person = AbstractBaseUser | AnonymousUser
Stack = Sequence[Mapping[str, Any]]
ROLE = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
LAYER_KEYS = {"kind", "options", "devices"}
STAGE_KEYS = {"layer", "options", "devices", "during"}


def create_topology(
    *,
    team: Team,
    user: Person | None,
    name: str,
    stack: Stack,
    description: str = "",
    stages: Stack = (),
    measure_resync: bool = False,
    on_degraded: str = OnDegraded.STOP,
) -> Topology:
    """Create a topology. Raises ValidationError that names the layer or stage and what is wrong."""
    topology = Topology(team=team, created_by_id=user.pk if user else None)
    return change_topology(
        topology,
        name=name,
        stack=stack,
        description=description,
        stages=stages,
        measure_resync=measure_resync,
        on_degraded=on_degraded,
    )


def change_topology(
    topology: Topology,
    *,
    name: str,
    stack: Stack,
    description: str = "",
    stages: Stack = (),
    measure_resync: bool = False,
    on_degraded: str = OnDegraded.STOP,
) -> Topology:
    """Change a topology. Raises ValidationError that names the layer or stage and what is wrong, and stores nothing."""
    topology.name, topology.description, topology.stack = name, description, checked_stack(stack)
    topology.stages = checked_stages(topology.stack, stages)
    if measure_resync and not any(
        registry.implements(layer["kind"], protocols.BackgroundWork) for layer in topology.stack
    ):
        raise ValidationError("No layer of this topology has a first resync to measure.")
    topology.measure_resync, topology.on_degraded = measure_resync, on_degraded
    topology.full_clean(exclude=["created_by"])
    # One that was removed meanwhile does not come back
    topology.save(force_update=topology.pk is not None)
    return topology


def checked_stack(stack: Stack) -> list[dict[str, Any]]:
    """The stack with complete options. Raises ValidationError when a layer or the chain cannot be."""
    if not stack:
        raise ValidationError("A topology needs at least one layer.")
    drivers = [_layer_driver(number, entry) for number, entry in enumerate(stack, 1)]
    layers = [
        _checked_layer(number, driver, entry)
        for number, (driver, entry) in enumerate(zip(drivers, stack, strict=True), 1)
    ]
    with _as_validation_error():
        check_chain(specs(layers))
    return layers


def checked_stages(layers: Stack, stages: Stack) -> list[dict[str, Any]]:
    """The stages of checked layers with complete options. Raises ValidationError when one cannot be."""
    complete = [_checked_stage(number, layers, entry) for number, entry in enumerate(stages, 1)]
    with _as_validation_error():
        check_stages(specs(layers), stage_specs(complete))
    return complete


def _checked_stage(number: int, layers: Stack, entry: Mapping[str, Any]) -> dict[str, Any]:
    where = f"Stage {number}"
    if not isinstance(entry, Mapping) or not set(entry) <= STAGE_KEYS:
        raise ValidationError(f"{where}: a stage is {', '.join(sorted(STAGE_KEYS))}.")
    layer, during = entry.get("layer"), entry.get("during", False)
    if type(layer) is not int or not 1 <= layer <= len(layers):
        raise ValidationError(f"{where}: there is no layer {layer!r}.")
    kind = layers[layer - 1]["kind"]
    driver = registry.implements(kind, protocols.Growable)
    if driver is None:
        raise ValidationError(f"{where}: {registry.layer(kind).LABEL} cannot grow.")
    if type(during) is not bool:
        raise ValidationError(f"{where}: during is true or false, not {during!r}.")
    if during and registry.implements(kind, protocols.BackgroundWork) is None:
        raise ValidationError(
            f"{where}: {driver.LABEL} has grown when its command ends: there is no time to measure during it."
        )
    return {"layer": layer, **_checked_part(where, driver, driver.Grow, entry), "during": during}


@contextmanager
def _as_validation_error() -> Iterator[None]:
    try:
        yield
    except AgentError as error:
        message = str(error)
        raise ValidationError(f"{message[:1].upper()}{message[1:]}.") from None


def _layer_driver(number: int, entry: Mapping[str, Any]) -> Layer[Any]:
    if not isinstance(entry, Mapping):
        raise ValidationError(f"Layer {number}: {entry!r} is not a layer.")
    try:
        return registry.layer(str(entry.get("kind", "")))
    except AgentError as error:
        raise ValidationError(f"Layer {number}: {error}") from None


def _checked_layer(number: int, driver: Layer[Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    where = f"Layer {number} ({driver.LABEL})"
    # Passed over, the layer would be measured as it is by default
    if unknown := set(entry) - LAYER_KEYS:
        raise ValidationError(
            f"{where} has no {', '.join(sorted(map(repr, unknown)))}: a layer is {', '.join(sorted(LAYER_KEYS))}."
        )
    return {"kind": entry["kind"], **_checked_part(where, driver, driver.Options, entry)}


def _checked_part(
    where: str,
    driver: Layer[Any] | Growable[Any, Any],
    options: type[Any],
    entry: Mapping[str, Any],
) -> dict[str, Any]:
    """Complete options and disks of a layer or stage."""
    try:
        built = driver_options.build_options(options, entry.get("options", {}))
    except AgentError as error:
        raise ValidationError(f"{where}: {error}") from None
    groups = entry.get("devices", [])
    _check_devices(where, driver, groups)
    return {"options": driver_options.dump(built), "devices": list(groups)}


def _check_devices(
    where: str, driver: Layer[Any] | Growable[Any, Any], groups: Sequence[Mapping[str, Any]]
) -> None:
    keys = {"use", "role", "count"}
    if not isinstance(groups, list | tuple) or any(
        not isinstance(group, Mapping) or set(group) != keys for group in groups
    ):
        raise ValidationError(f"{where}: devices is a list of groups with use, role and count.")
    uses = [group["use"] for group in groups]
    if not set(map(str, uses)) <= set(driver.USES):
        accepted = (
            ", ".join(f"{u} ({what.purpose})" for u, what in driver.USES.items()) or "no disks"
        )
        raise ValidationError(f"{where} takes {accepted}; it got {uses}.")
    for group in groups:
        role, count = group["role"], group["count"]
        if not isinstance(role, str) or not ROLE.fullmatch(role):
            raise ValidationError(
                f"{where}: {role!r} is not a role; use a short word such as ssd or hdd."
            )
        if type(count) is not int or not 1 <= count <= MAX_DEVICES:
            raise ValidationError(
                f"{where}: {group['use']} takes 1 to {MAX_DEVICES} disks, not {count!r}."
            )
