"""The text of agents/drivers/conformance.py: a line for each driver and each Protocol of it, by the registry's scan."""

from __future__ import annotations

from importlib import import_module
from inspect import isclass
from pathlib import Path
from types import ModuleType
from typing import Any

from agents import layers, readers, samplers, tools
from agents.drivers import protocols, registry

FILE = Path(protocols.__file__).with_name("conformance.py")
PACKAGES = {"layer": layers, "tool": tools, "sampler": samplers, "reader": readers}
OWN = {"OptionsT": "Options", "GrowT": "Grow"}  # type variable of a Protocol -> the driver's class
LINE = 100  # of the formatter (pyproject.toml)
HEAD = '''# SPDX-License-Identifier: Apache-2.0
"""Every driver held to the Protocols that it follows, for mypy: nothing imports this.

Written from the scan: `pytest tests/agents/test_typed_drivers.py --accept` writes it anew.
"""
'''


def text() -> str:
    imports, lines = ["from agents.drivers import protocols"], []
    for what, package in PACKAGES.items():
        templates = (import_module(f"{package.__name__}.{name}") for name in _template(package))
        for module in (*templates, *registry.driver_modules(package)):
            stem = module.__name__.rpartition(".")[2]
            name = f"{what}_{stem.removeprefix('_')}"
            imports.append(f"from {package.__name__} import {stem} as {name}")
            lines += [
                line
                for kind, driver in registry.module_drivers(module).items()
                for line in _lines(name, kind if driver is not module else "", driver, package)
            ]
    return "\n".join([HEAD, *sorted(imports), "", *lines, ""])


def _protocols() -> dict[str, type[Any]]:
    of_ours = {n: c for n, c in vars(protocols).items() if getattr(c, "_is_protocol", False)}
    return {n: c for n, c in of_ours.items() if isclass(c) and c.__module__ == protocols.__name__}


def _template(package: ModuleType) -> list[str]:
    """Template among the drivers, where there is one: what is copied must be right, too."""
    return ["_template"] if (Path(package.__path__[0]) / "_template.py").exists() else []


def _lines(name: str, kind_of_many: str, driver: Any, package: ModuleType) -> list[str]:
    """Its package's own Protocol, and those of which it has a member: then it must have all of it."""
    contract = registry.CONTRACT[package]
    value = f'{name}.DRIVERS["{kind_of_many}"]' if kind_of_many else name
    label_of = f"{name.partition('_')[0]}_{kind_of_many}" if kind_of_many else name
    found = []
    for label, protocol in _protocols().items():
        ability = contract in protocol.__mro__[1:]
        if protocol is contract or (
            ability
            and any(hasattr(driver, member) for member in registry.protocol_members(protocol))
        ):
            own = ", ".join(f"{name}.{OWN[p.__name__]}" for p in protocol.__parameters__)
            kind = f"protocols.{label}[{own}]" if own else f"protocols.{label}"
            suffix = f"_{label.lower()}" if ability else ""
            found.append(_laid_out(f"of_{label_of}{suffix}: {kind} = ", value))
    return found


def _laid_out(before: str, value: str) -> str:
    """As the formatter does it."""
    flat = before + value
    return flat if len(flat) <= LINE else f"{before}(\n    {value}\n)"
