"""Drivers are found by scanning a package; the file name is the kind. Nothing to register, no list to edit."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar, cast

from agents import layers, options, readers, samplers, tools
from agents.contracts import Need, OptionsError, Target
from agents.protocols import (
    Ailing,
    Asking,
    Awaiting,
    Growing,
    Layer,
    Marking,
    Reader,
    Recording,
    Restoring,
    Salvaging,
    Sampler,
    Stretching,
    Tool,
)

D = TypeVar("D")

CONTRACT = {
    layers: (
        "LABEL",
        "NEEDS",
        "USES",
        "GIVES",
        "WANTS",
        "Options",
        "needs",
        "plan",
        "teardown",
        "verify",
    ),
    tools: ("LABEL", "NEEDS", "Options", "job", "precheck", "outstanding", "parse"),
    samplers: ("LABEL", "FILES", "WATCHES", "series"),
    readers: ("LABEL", "WORDS", "find"),
}


@cache
def load(package: ModuleType) -> dict[str, Any]:
    """Every driver of a package by kind. Raises ImportError naming what a module lacks."""
    drivers: dict[str, Any] = {}
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda found: found.name):
        if info.name.startswith("_"):
            continue  # _template.py is for reading
        module = import_module(f"{package.__name__}.{info.name}")
        if missing := [name for name in CONTRACT[package] if not hasattr(module, name)]:
            raise ImportError(f"{module.__name__} lacks {', '.join(missing)}")
        drivers[info.name] = module
    return drivers


def all_layers() -> dict[str, Layer]:
    return cast(dict[str, Layer], load(layers))


def all_tools() -> dict[str, Tool]:
    return cast(dict[str, Tool], load(tools))


def all_samplers() -> dict[str, Sampler]:
    return cast(dict[str, Sampler], load(samplers))


def all_readers() -> dict[str, Reader]:
    return cast(dict[str, Reader], load(readers))


def layer(kind: str) -> Layer:
    return _pick(all_layers(), kind, "layer")


def growing(kind: str) -> Growing | None:
    """The layer, if it can grow."""
    driver = layer(kind)
    return cast(Growing, driver) if hasattr(driver, "grow") else None


def stretching(kind: str) -> Stretching | None:
    """The layer, if it can follow one below that grew."""
    driver = layer(kind)
    return cast(Stretching, driver) if hasattr(driver, "stretch") else None


def awaiting(kind: str) -> Awaiting | None:
    """The layer, if the kernel may still work on it when its commands have ended."""
    driver = layer(kind)
    return cast(Awaiting, driver) if hasattr(driver, "awaits") else None


def ailing(kind: str) -> Ailing | None:
    """The layer, if something in it may fail and it serves on."""
    driver = layer(kind)
    return cast(Ailing, driver) if hasattr(driver, "ails") else None


def restoring(kind: str) -> Restoring | None:
    """The layer, if it sets something that is no disk's content and brings it back."""
    driver = layer(kind)
    return cast(Restoring, driver) if hasattr(driver, "restored") else None


def asking(kind: str) -> Asking | None:
    """The layer, if a person makes it."""
    driver = layer(kind)
    return cast(Asking, driver) if hasattr(driver, "asks") else None


def tool(kind: str) -> Tool:
    return _pick(all_tools(), kind, "tool")


def tool_needs(kind: str, given: Mapping[str, Any]) -> tuple[Need, ...]:
    """The programs that this tool uses with these options: one named by its path is not looked for elsewhere."""
    driver = tool(kind)
    asks = getattr(driver, "needs", None)
    return asks(options.build(driver.Options, given)) if asks else driver.NEEDS


def programs(kind: str, built: Any) -> tuple[str, ...]:
    """Programs on the host that a person named in these options and that root will run: an owner's to say."""
    names = getattr(tool(kind), "programs", None)
    return tuple(names(built)) if names else ()


def room(kind: str, built: Any, target: Target) -> int:
    """Bytes that the tool needs on the target; 0 where it says none."""
    asks = getattr(tool(kind), "room", None)
    return int(asks(built, target)) if asks else 0


def reads(kind: str, built: Any) -> bool:
    """Whether the tool reads what it has not written itself, on a volume."""
    asks = getattr(tool(kind), "reads", None)
    return bool(asks and asks(built))


def recording(kind: str) -> Recording | None:
    """The tool, if it also records figures over time."""
    driver = tool(kind)
    return cast(Recording, driver) if hasattr(driver, "series") else None


def marking(kind: str) -> Marking | None:
    """The tool, if it tells what it did when."""
    driver = tool(kind)
    return cast(Marking, driver) if hasattr(driver, "windows") else None


def salvaging(kind: str) -> Salvaging | None:
    """The tool, if it can read what one that gave up had printed by then."""
    driver = tool(kind)
    return cast(Salvaging, driver) if hasattr(driver, "salvage") else None


def _pick(drivers: dict[str, D], kind: str, what: str) -> D:
    try:
        return drivers[kind]
    except KeyError:
        known = ", ".join(drivers) or "none"
        raise OptionsError(f"there is no {what} named {kind!r}; known: {known}") from None
