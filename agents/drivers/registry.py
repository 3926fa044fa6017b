# SPDX-License-Identifier: Apache-2.0
"""Drivers are found by scanning a package; the file name is the kind. Nothing to register, no list to edit.

A module of small related drivers names them itself: `DRIVERS` maps each kind to its driver.
"""

from __future__ import annotations

import dataclasses
import pkgutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

from agents import layers, options, readers, samplers, tools
from agents.command_forms import Arguments, Form
from agents.contracts import Access, Need, OptionsError, SameWork, Target, Watch
from agents.drivers import protocols

DriverT = TypeVar("DriverT")
ProtocolT = TypeVar("ProtocolT")

CONTRACT: Mapping[ModuleType, type[Any]] = {
    layers: protocols.Layer,
    tools: protocols.Tool,
    samplers: protocols.Sampler,
    readers: protocols.Reader,
}


def protocol_members(contract: type[Any]) -> list[str]:
    """The names that a Protocol itself requires, without those of the Protocol that it extends."""
    return [name for name in vars(contract) if not name.startswith("_")]


@cache
def load_drivers(package: ModuleType) -> dict[str, Any]:
    """Every driver of a package by kind. Raises ImportError naming what a module lacks."""
    drivers: dict[str, Any] = {}
    for module in driver_modules(package):
        for kind, driver in module_drivers(module).items():
            if missing := [
                name for name in protocol_members(CONTRACT[package]) if not hasattr(driver, name)
            ]:
                raise ImportError(f"{module.__name__} lacks {', '.join(missing)}")
            if kind in drivers:
                raise ImportError(f"{module.__name__}: there are two drivers named {kind}")
            drivers[kind] = driver
    return drivers


def driver_modules(package: ModuleType) -> Iterator[ModuleType]:
    """The modules of a package that hold drivers, by name."""
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        # _template.py is only an example.
        if not info.name.startswith("_"):
            yield import_module(f"{package.__name__}.{info.name}")


def module_drivers(module: ModuleType) -> Mapping[str, Any]:
    """The drivers of a module by kind: those that it names, or the module itself under its file's name."""
    named: Mapping[str, Any] = getattr(module, "DRIVERS", {})
    return named or {module.__name__.rpartition(".")[2]: module}


def all_layers() -> dict[str, protocols.Layer[Any]]:
    return load_drivers(layers)


def all_tools() -> dict[str, protocols.Tool[Any]]:
    return load_drivers(tools)


def all_samplers() -> dict[str, protocols.Sampler]:
    return load_drivers(samplers)


def all_readers() -> dict[str, protocols.Reader]:
    return load_drivers(readers)


def sampled_sources(family: str) -> tuple[str | Watch, ...]:
    """The files that hostside/sampler.sh reads on every tick, and the commands it runs on that family of hosts."""
    samplers = all_samplers().values()
    watches = [watch for sampler in samplers for watch in sampler.WATCHES]
    return (
        *dict.fromkeys(name for sampler in samplers for name in sampler.FILES),
        *dict.fromkeys(w for w in watches if not w.families or family in w.families),
    )


@cache
def opening_readers() -> tuple[protocols.KnownStart, ...]:
    return tuple(
        reader for reader in all_readers().values() if isinstance(reader, protocols.KnownStart)
    )


def layer(kind: str) -> protocols.Layer[Any]:
    return _driver_of_kind(all_layers(), kind, "layer")


def starts_resync(kind: str, option_values: Mapping[str, Any]) -> bool:
    """True if the kernel is known to continue to work after a layer with these complete options is built."""
    driver = layer(kind)
    if isinstance(driver, protocols.InitialResync):
        return driver.starts_resync(options.build_options(driver.Options, option_values))
    return isinstance(driver, protocols.BackgroundWork)


def implements(kind: str, protocol: type[ProtocolT]) -> ProtocolT | None:
    """The driver of that kind, if it has what the protocol adds to a layer, a tool or a reader."""
    driver: object
    if protocols.Layer in protocol.__mro__:
        driver = layer(kind)
    elif protocols.Tool in protocol.__mro__:
        driver = tool(kind)
    else:
        driver = all_readers()[kind]
    return driver if isinstance(driver, protocol) else None


def layer_commands(program: str) -> tuple[Form, ...]:
    """Forms of command of a program that one layer has for itself (protocols.LayerCommands)."""
    forms_by_driver = (getattr(driver, "COMMANDS", {}) for driver in all_layers().values())
    return tuple(form for forms in forms_by_driver for form in forms.get(program, ()))


def layer_scripts() -> dict[str, Arguments]:
    """Scripts that one layer has for itself (protocols.LayerScripts), and what they take."""
    scripts_by_driver = (getattr(driver, "SCRIPTS", {}) for driver in all_layers().values())
    return {script: takes for scripts in scripts_by_driver for script, takes in scripts.items()}


def tool_scripts() -> dict[bytes, Sequence[str]]:
    """The tools' own scripts (protocols.ToolScripts), and what they take."""
    scripts_by_driver = (getattr(driver, "SCRIPTS", {}) for driver in all_tools().values())
    return {script: takes for scripts in scripts_by_driver for script, takes in scripts.items()}


def tool(kind: str) -> protocols.Tool[Any]:
    return _driver_of_kind(all_tools(), kind, "tool")


def tool_programs(kind: str, option_values: Mapping[str, Any]) -> tuple[Need, ...]:
    """The programs that this tool uses with these options."""
    driver = tool(kind)
    if isinstance(driver, protocols.RequiresPrograms):
        return driver.required_programs(options.build_options(driver.Options, option_values))
    return driver.NEEDS


def named_programs(kind: str, built: Any) -> tuple[str, ...]:
    """Programs that a person named in these options and that root will run. Only an owner may name them."""
    driver = tool(kind)
    return driver.named_programs(built) if isinstance(driver, protocols.NamesPrograms) else ()


def with_program(kind: str, built: Any, path: str) -> Any:
    """These options with `path` as their program. Raises OptionsError if the tool does not accept it."""
    driver = tool(kind)
    assert isinstance(driver, protocols.NamesPrograms), "only these name programs"
    return dataclasses.replace(built, **{driver.PROGRAM_OPTION: path})


def root_reason(kind: str, built: Any, target: Target) -> str:
    """Reason why root must run the tool on the target; "" if a user who may open the target is enough."""
    driver = tool(kind)
    if isinstance(driver, protocols.Unprivileged):
        return driver.root_reason(built, target)
    return f"{driver.LABEL} does more than read and write the target"


def runs_user_code(kind: str) -> bool:
    """True if the tool runs code of a user, possibly as root. Only an owner may write such options."""
    driver = tool(kind)
    return isinstance(driver, protocols.RunsUserCode) and driver.OWN_CODE


def live_files(kind: str) -> tuple[str, ...]:
    """The files in which the tool reports its progress."""
    driver = tool(kind)
    return driver.LIVE_FILES if isinstance(driver, protocols.LiveOutput) else ()


def depth_options(kind: str = "") -> tuple[str, ...]:
    """The options that determine the outstanding I/Os, in order: of this tool, or of every tool."""
    drivers = (driver for name, driver in all_tools().items() if kind in ("", name))
    return _depth_option_names(tuple(driver.Options for driver in drivers))


# By the tools there are: pages ask for every run.
@cache
def _depth_option_names(of_tools: tuple[type[Any], ...]) -> tuple[str, ...]:
    specs = (spec for options_type in of_tools for spec in dataclasses.fields(options_type))
    return tuple(dict.fromkeys(spec.name for spec in specs if spec.metadata.get("depth")))


def required_bytes(kind: str, built: Any, target: Target) -> int:
    """Bytes that the tool needs on the target; 0 if it declares none."""
    driver = tool(kind)
    return driver.required_bytes(built, target) if isinstance(driver, protocols.SizedTarget) else 0


def reads_existing(kind: str, built: Any) -> bool:
    """True if the tool reads blocks of a volume that it has not written itself."""
    driver = tool(kind)
    return isinstance(driver, protocols.SizedTarget) and driver.reads_existing(built)


def access_pattern(
    kind: str, built: Any, reported_options: Collection[str] | None = None
) -> Access:
    """Access of the tool to the storage. `reported_options`: only these are known; fields that need others are None."""
    driver = tool(kind)
    if not isinstance(driver, protocols.DescribesIO):
        return Access()
    pattern = driver.access_pattern(built)
    if reported_options is None:
        return pattern
    needs = driver.IO_FIELDS.items()
    reported_fields = {name for name, names in needs if set(names) <= set(reported_options)}
    unknown = [spec.name for spec in dataclasses.fields(Access) if spec.name not in reported_fields]
    return dataclasses.replace(pattern, **dict.fromkeys(unknown))


def same_work(kind: str, options: Mapping[str, object]) -> SameWork | None:
    """The parts that results of the same work have in common with these options; None if unknown."""
    driver = all_tools().get(kind)
    return driver.same_work(options) if isinstance(driver, protocols.ComparableWork) else None


def canonical_options(kind: str, option_values: Mapping[str, Any], *, ours: bool) -> dict[str, Any]:
    """Options under one name each. An option left out has the driver's default if BenchLab ran it, else none."""
    driver = all_tools().get(kind)
    values = (
        {**_option_defaults(driver.Options), **option_values}
        if driver and ours
        else dict(option_values)
    )
    return driver.canonical_names(values) if isinstance(driver, protocols.OptionAliases) else values


def _option_defaults(of_tool: type[Any]) -> dict[str, Any]:
    fields = dataclasses.fields(of_tool)
    return {spec.name: spec.default for spec in fields if spec.default is not dataclasses.MISSING}


def uses_monotonic_clock(kind: str, option_values: Mapping[str, Any]) -> bool:
    """True if the tool with these options is known to use a clock that nobody can set."""
    driver = tool(kind)
    if not isinstance(driver, protocols.KnownClock):
        return False
    try:
        return driver.uses_monotonic_clock(options.build_options(driver.Options, option_values))
    except OptionsError:
        # those of an earlier release
        return False


def printed_version(kind: str, outputs: Mapping[str, bytes]) -> str:
    """The version that the tool's output names; "" if it names none."""
    driver = tool(kind)
    return driver.printed_version(outputs) if isinstance(driver, protocols.PrintsVersion) else ""


def _driver_of_kind(drivers: dict[str, DriverT], kind: str, what: str) -> DriverT:
    try:
        return drivers[kind]
    except KeyError:
        kinds = ", ".join(drivers) or "none"
        raise OptionsError(f"there is no {what} named {kind!r}; known: {kinds}") from None
