# SPDX-License-Identifier: Apache-2.0
"""Drivers are found by scanning a package; the file name is the kind. Nothing to register, no list to edit."""

from __future__ import annotations

import dataclasses
import pkgutil
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

from agents import layers, options, readers, samplers, tools
from agents.command_forms import Arguments, Form
from agents.contracts import Access, Need, OptionsError, SameWork, Target, Watch
from agents.drivers import protocols

D = TypeVar("D")

CONTRACT: Mapping[ModuleType, type[Any]] = {
    layers: protocols.Layer,
    tools: protocols.Tool,
    samplers: protocols.Sampler,
    readers: protocols.Reader,
}


def members(contract: type[Any]) -> list[str]:
    """The names that a Protocol itself asks for, without those of the one that it extends."""
    return [name for name in vars(contract) if not name.startswith("_")]


@cache
def load(package: ModuleType) -> dict[str, Any]:
    """Every driver of a package by kind. Raises ImportError naming what a module lacks."""
    drivers: dict[str, Any] = {}
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        if info.name.startswith("_"):
            # _template.py is for reading
            continue
        module = import_module(f"{package.__name__}.{info.name}")
        if missing := [name for name in members(CONTRACT[package]) if not hasattr(module, name)]:
            raise ImportError(f"{module.__name__} lacks {', '.join(missing)}")
        drivers[info.name] = module
    return drivers


def all_layers() -> dict[str, protocols.Layer[Any]]:
    return load(layers)


def all_tools() -> dict[str, protocols.Tool[Any]]:
    return load(tools)


def all_samplers() -> dict[str, protocols.Sampler]:
    return load(samplers)


def all_readers() -> dict[str, protocols.Reader]:
    return load(readers)


def sampled(family: str) -> tuple[str | Watch, ...]:
    """The files that hostside/sampler.sh reads on every tick, and the commands it runs on that family of hosts."""
    samplers = all_samplers().values()
    watches = [watch for sampler in samplers for watch in sampler.WATCHES]
    return (
        *dict.fromkeys(name for sampler in samplers for name in sampler.FILES),
        *dict.fromkeys(w for w in watches if not w.families or family in w.families),
    )


@cache
def opening_readers() -> tuple[protocols.Opening, ...]:
    return tuple(
        reader for reader in all_readers().values() if isinstance(reader, protocols.Opening)
    )


def layer(kind: str) -> protocols.Layer[Any]:
    return _pick(all_layers(), kind, "layer")


def growing(kind: str) -> protocols.Growing[Any, Any] | None:
    """The layer, if it can grow."""
    driver = layer(kind)
    return driver if isinstance(driver, protocols.Growing) else None


def stretching(kind: str) -> protocols.Stretching[Any] | None:
    """The layer, if it can follow one below that grew."""
    driver = layer(kind)
    return driver if isinstance(driver, protocols.Stretching) else None


def awaiting(kind: str) -> protocols.Awaiting[Any] | None:
    """The layer, if the kernel may still work on it when its commands have ended."""
    driver = layer(kind)
    return driver if isinstance(driver, protocols.Awaiting) else None


def resyncs(kind: str, option_values: Mapping[str, Any]) -> bool:
    """True when the kernel works on after a layer with these complete options was built, as far as is known."""
    driver = layer(kind)
    if isinstance(driver, protocols.Resyncing):
        return driver.resyncs(options.build(driver.Options, option_values))
    return isinstance(driver, protocols.Awaiting)


def ailing(kind: str) -> protocols.Ailing[Any] | None:
    """The layer, if something in it may fail and it serves on."""
    driver = layer(kind)
    return driver if isinstance(driver, protocols.Ailing) else None


def restoring(kind: str) -> protocols.Restoring[Any] | None:
    """The layer, if it sets something that is no disk's content and brings it back."""
    driver = layer(kind)
    return driver if isinstance(driver, protocols.Restoring) else None


def asking(kind: str) -> protocols.Asking[Any] | None:
    """The layer, if a person makes it."""
    driver = layer(kind)
    return driver if isinstance(driver, protocols.Asking) else None


def commands(program: str) -> tuple[Form, ...]:
    """Forms of command of a program that one layer has for itself (protocols.Commanding)."""
    forms_by_driver = (getattr(driver, "COMMANDS", {}) for driver in all_layers().values())
    return tuple(form for forms in forms_by_driver for form in forms.get(program, ()))


def layer_scripts() -> dict[str, Arguments]:
    """Scripts that one layer has for itself (protocols.Scripting), and what they take."""
    scripts_by_driver = (getattr(driver, "SCRIPTS", {}) for driver in all_layers().values())
    return {script: takes for scripts in scripts_by_driver for script, takes in scripts.items()}


def tool_scripts() -> dict[bytes, Sequence[str]]:
    """The tools' own scripts (protocols.Shelled), and what they take."""
    scripts_by_driver = (getattr(driver, "SCRIPTS", {}) for driver in all_tools().values())
    return {script: takes for scripts in scripts_by_driver for script, takes in scripts.items()}


def tool(kind: str) -> protocols.Tool[Any]:
    return _pick(all_tools(), kind, "tool")


def tool_needs(kind: str, option_values: Mapping[str, Any]) -> tuple[Need, ...]:
    """The programs that this tool uses with these options."""
    driver = tool(kind)
    if isinstance(driver, protocols.Needing):
        return driver.needs(options.build(driver.Options, option_values))
    return driver.NEEDS


def programs(kind: str, built: Any) -> tuple[str, ...]:
    """Programs on the host that a person named in these options and that root will run: an owner's to say."""
    driver = tool(kind)
    return driver.programs(built) if isinstance(driver, protocols.Naming) else ()


def with_program(kind: str, built: Any, path: str) -> Any:
    """These options with `path` as the program that they name. Raises OptionsError when the tool does not take it."""
    driver = tool(kind)
    assert isinstance(driver, protocols.Naming), "only these name programs"
    return dataclasses.replace(built, **{driver.PROGRAM_OPTION: path})


def needs_root(kind: str, built: Any, target: Target) -> str:
    """Reason why root must run the tool on the target; "" where a user who may open the target will do."""
    driver = tool(kind)
    if isinstance(driver, protocols.Unprivileged):
        return driver.needs_root(built, target)
    return f"{driver.LABEL} does more than read and write the target"


def own_code(kind: str) -> bool:
    """True when the tool runs what a person wrote, as root where they say so: an owner's to say, too."""
    driver = tool(kind)
    return isinstance(driver, protocols.Scripted) and driver.OWN_CODE


def live(kind: str) -> tuple[str, ...]:
    """Files in which the tool tells what happens right now."""
    driver = tool(kind)
    return driver.LIVE if isinstance(driver, protocols.Showing) else ()


def depth_options(kind: str = "") -> tuple[str, ...]:
    """Options that make the outstanding I/Os, in their order: of this tool, or of each there is."""
    drivers = (driver for name, driver in all_tools().items() if kind in ("", name))
    return _depths(tuple(driver.Options for driver in drivers))


# By the tools there are: pages ask for every run.
@cache
def _depths(of_tools: tuple[type[Any], ...]) -> tuple[str, ...]:
    specs = (spec for options_type in of_tools for spec in dataclasses.fields(options_type))
    return tuple(dict.fromkeys(spec.name for spec in specs if spec.metadata.get("depth")))


def room(kind: str, built: Any, target: Target) -> int:
    """Bytes that the tool needs on the target; 0 where it says none."""
    driver = tool(kind)
    return driver.room(built, target) if isinstance(driver, protocols.Sized) else 0


def reads(kind: str, built: Any) -> bool:
    """True when the tool reads what it has not written itself, on a volume."""
    driver = tool(kind)
    return isinstance(driver, protocols.Sized) and driver.reads(built)


def access(kind: str, built: Any, told: Collection[str] | None = None) -> Access:
    """Access of the tool to the storage. `told`: only these options are facts, the others are nobody's word."""
    driver = tool(kind)
    if not isinstance(driver, protocols.Accessing):
        return Access()
    found = driver.access(built)
    if told is None:
        return found
    known = {name for name, of in driver.ACCESS_OF.items() if set(of) <= set(told)}
    unknown = [spec.name for spec in dataclasses.fields(Access) if spec.name not in known]
    return dataclasses.replace(found, **dict.fromkeys(unknown))


def same_work(kind: str, options: Mapping[str, object]) -> SameWork | None:
    """Parts that results of the same work as one with these options have equal. None: nobody can tell."""
    driver = all_tools().get(kind)
    return driver.same_work(options) if isinstance(driver, protocols.Comparing) else None


def told(kind: str, given: Mapping[str, Any], *, ours: bool) -> dict[str, Any]:
    """Options under one name each. What was left out is the driver's default where we ran it, else nobody's word."""
    driver = all_tools().get(kind)
    found = {**_defaults(driver.Options), **given} if driver and ours else dict(given)
    return driver.renamed(found) if isinstance(driver, protocols.Renaming) else found


def _defaults(of_tool: type[Any]) -> dict[str, Any]:
    fields = dataclasses.fields(of_tool)
    return {spec.name: spec.default for spec in fields if spec.default is not dataclasses.MISSING}


def recording(kind: str) -> protocols.Recording[Any] | None:
    """The tool, if it also records figures over time."""
    driver = tool(kind)
    return driver if isinstance(driver, protocols.Recording) else None


def joining(kind: str) -> protocols.Joining | None:
    """The reader, if several of its texts are of one result."""
    reader = all_readers()[kind]
    return reader if isinstance(reader, protocols.Joining) else None


def binning(kind: str) -> protocols.Binning[Any] | None:
    """The tool, if it counts how many I/Os took how long."""
    driver = tool(kind)
    return driver if isinstance(driver, protocols.Binning) else None


def marking(kind: str) -> protocols.Marking[Any] | None:
    """The tool, if it tells what it did when."""
    driver = tool(kind)
    return driver if isinstance(driver, protocols.Marking) else None


def salvaging(kind: str) -> protocols.Salvaging[Any] | None:
    """The tool, if it can read what one that gave up had printed by then."""
    driver = tool(kind)
    return driver if isinstance(driver, protocols.Salvaging) else None


def steady(kind: str, option_values: Mapping[str, Any]) -> bool:
    """True when it is known that the tool with these options times by a clock that nobody can set."""
    driver = tool(kind)
    if not isinstance(driver, protocols.Clocked):
        return False
    try:
        return driver.steady(options.build(driver.Options, option_values))
    except OptionsError:
        # those of an earlier release
        return False


def printed_version(kind: str, outputs: Mapping[str, bytes]) -> str:
    """The version that the tool's output names, "" where it names none."""
    driver = tool(kind)
    return driver.version(outputs) if isinstance(driver, protocols.Versioned) else ""


def _pick(drivers: dict[str, D], kind: str, what: str) -> D:
    try:
        return drivers[kind]
    except KeyError:
        kinds = ", ".join(drivers) or "none"
        raise OptionsError(f"there is no {what} named {kind!r}; known: {kinds}") from None
