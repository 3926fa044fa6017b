"""Stacks of each layer, by what it says of itself and by its cases: a new one needs no place in any list."""

from __future__ import annotations

import json
from collections.abc import Iterator

from agents.contracts import AgentError
from agents.drivers import registry
from agents.plans import chain
from agents.plans.chain import DiskRequest, LayerSpec
from tests.agents import layer_cases

BELOW = {"nothing": "", "parts": "partition", "volume": "raw", "lv": "lvm", "pool": "zpool", "any": "raw"}  # fmt: skip
ABOVE = {"parts": "raw", "pool": "zfs"}


def takes_disks(kind: str) -> bool:
    """True when a stack of it has disks: all but those that stand on nothing and use none."""
    driver = registry.layer(kind)
    return bool(driver.USES) or driver.REQUIRES != "nothing"


def of(kind: str) -> Iterator[tuple[LayerSpec, ...]]:
    """One for each case that has a plan: with its options, on as many disks. Stacks that cannot be are left out."""
    for path in sorted((layer_cases.CASES / kind).glob("*.json")):
        case = json.loads(path.read_text())
        if not case.keys() & set(layer_cases.ANSWERS):  # it only asks yet
            case = layer_cases.as_now(kind, case)
        if "plan" in case:
            made = _stack(kind, case)
            try:
                chain.check_chain(made)
            except AgentError:
                continue
            yield made


def _stack(kind: str, case: dict) -> tuple[LayerSpec, ...]:
    driver, target = registry.layer(kind), case.get("target", {})
    disks = {use: len(names) for use, names in target.get("devices", {}).items() if use in driver.USES}  # fmt: skip
    wanted = tuple(DiskRequest(use, "ssd", count) for use, count in disks.items() if count)
    below = BELOW.get(driver.REQUIRES, "")
    if driver.REQUIRES == "devices" and next(iter(driver.USES)) not in disks:
        below = "partition" if target.get("parts") else "raw"
    stack: tuple[LayerSpec, ...] = (LayerSpec(kind, case.get("options", {}), wanted),)
    if below:
        use = "data" if driver.REQUIRES != "devices" else next(iter(driver.USES))
        options = {"use": use} if below == "partition" else {}
        stack = (LayerSpec(below, options, (DiskRequest("data", "ssd"),)), *stack)
    if above := ABOVE.get(driver.PROVIDES):
        stack = (*stack, LayerSpec(above))
    return stack
