"""Making and changing topologies. Layouts copy the stack, so a change touches no campaign that exists."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import ValidationError

from agents import options as driver_options
from agents import registry
from agents.chain import check_chain, specs
from agents.contracts import AgentError
from agents.protocols import Layer
from benchlab.team.models import Team
from benchlab.topologies.models import Topology

Person = AbstractBaseUser | AnonymousUser
Stack = Sequence[Mapping[str, Any]]
ROLE = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
MOST_DEVICES = 256


def create_topology(
    *, team: Team, user: Person | None, name: str, stack: Stack, description: str = ""
) -> Topology:
    """Raises ValidationError naming the layer and what is wrong."""
    made = Topology(team=team, created_by_id=user.pk if user else None)
    return change_topology(made, name=name, stack=stack, description=description)


def change_topology(
    topology: Topology, *, name: str, stack: Stack, description: str = ""
) -> Topology:
    """Raises ValidationError naming the layer and what is wrong; then nothing was stored."""
    topology.name, topology.description, topology.stack = name, description, checked(stack)
    topology.full_clean(exclude=["created_by"])
    topology.save()
    return topology


def checked(stack: Stack) -> list[dict[str, Any]]:
    """The stack with complete options. Raises ValidationError when a layer or the chain cannot be."""
    if not stack:
        raise ValidationError("A topology needs at least one layer.")
    drivers = [_driver(number, entry) for number, entry in enumerate(stack, 1)]
    layers = [
        _checked_layer(number, driver, entry)
        for number, (driver, entry) in enumerate(zip(drivers, stack, strict=True), 1)
    ]
    _check_chain(layers)
    return layers


def _check_chain(layers: Stack) -> None:
    try:
        check_chain(specs(layers))
    except AgentError as error:
        said = str(error)
        raise ValidationError(f"{said[:1].upper()}{said[1:]}.") from None


def _driver(number: int, entry: Mapping[str, Any]) -> Layer:
    if not isinstance(entry, Mapping):
        raise ValidationError(f"Layer {number}: {entry!r} is no layer.")
    try:
        return registry.layer(str(entry.get("kind", "")))
    except AgentError as error:
        raise ValidationError(f"Layer {number}: {error}") from None


def _checked_layer(number: int, driver: Layer, entry: Mapping[str, Any]) -> dict[str, Any]:
    where = f"Layer {number} ({driver.LABEL})"
    try:
        built = driver_options.build(driver.Options, entry.get("options", {}))
    except AgentError as error:
        raise ValidationError(f"{where}: {error}") from None
    groups = entry.get("devices", [])
    _check_devices(where, driver, groups)
    return {"kind": entry["kind"], "options": driver_options.dump(built), "devices": list(groups)}


def _check_devices(where: str, driver: Layer, groups: Sequence[Mapping[str, Any]]) -> None:
    keys = {"use", "role", "count"}
    if not isinstance(groups, list | tuple) or any(
        not isinstance(group, Mapping) or set(group) != keys for group in groups
    ):
        raise ValidationError(f"{where}: devices is a list of groups with use, role and count.")
    uses = [group["use"] for group in groups]
    if not set(map(str, uses)) <= set(driver.USES):
        wanted = ", ".join(f"{u} ({what.says})" for u, what in driver.USES.items()) or "no disks"
        raise ValidationError(f"{where} takes {wanted}; it was given {uses}.")
    for group in groups:
        role, count = group["role"], group["count"]
        if not isinstance(role, str) or not ROLE.fullmatch(role):
            raise ValidationError(
                f"{where}: {role!r} is no role; use a short word such as ssd or hdd."
            )
        if type(count) is not int or not 1 <= count <= MOST_DEVICES:
            raise ValidationError(
                f"{where}: {group['use']} takes 1 to {MOST_DEVICES} disks, not {count!r}."
            )
