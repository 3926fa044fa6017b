"""What was done, whoever called it what: workloads of several teams that did the same share a chart. Pure.

Of a tool's options these make two results of it comparable at all: what is done to how large blocks. Others (how long,
on how large a file, past the page cache or not) are listed where they differ: what others published rarely says them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agents import registry
from benchlab.charts.queries import Group

DIRECTION = {"rw": 50, "readwrite": 50, "randrw": 50}  # fio's mixes, half reads unless told
SYNCS = ("fsync", "fdatasync")
Deed = tuple[Any, ...]


def cards_of(found: Iterable[Group]) -> list[list[Group]]:
    """The lines of each chart. Lines of one workload stay together; of several campaigns, those that did the same."""
    by_workload: dict[int, list[Group]] = {}
    for group in found:
        by_workload.setdefault(group.workload, []).append(group)
    if len({group.campaign for lines in by_workload.values() for group in lines}) < 2:
        return list(by_workload.values())
    by_deed: dict[Deed, list[Group]] = {}
    for lines in by_workload.values():
        by_deed.setdefault(_deed(lines), []).extend(lines)
    return list(by_deed.values())


def _deed(lines: Sequence[Group]) -> Deed:
    """Tool, options that matter, swept axes."""
    first = lines[0]
    swept = any(group.swept for group in lines)
    varied = set(first.varied)
    matters = _matters(first.tool, told(first.tool, first.options, ours=first.ours), varied)
    if matters is None:
        return "workload", first.workload
    depth = None if swept or first.tool not in ("fio", "dynamo") else first.samples[0].outstanding
    return first.tool, matters, tuple(sorted(varied)), swept, depth


def _matters(tool: str, options: Mapping[str, Any], varied: set[str]) -> tuple[Any, ...] | None:
    """None where nobody can tell what was done: a workload is then like no other."""
    if tool == "fio" and not options.get("job_file") and not options.get("extra"):
        mixed = DIRECTION.get(options.get("rw", ""))
        share = options.get("rwmixread", mixed) if mixed else None
        syncs = tuple(options.get(name) or 0 for name in SYNCS)
        return _needed(options, ("rw", "block_size"), varied, share, *syncs)
    if tool == "dynamo" and not options.get("access"):
        return _needed(options, ("block_size", "random_percent", "read_percent"), varied)
    if tool == "dd":
        flags = (tuple(sorted(options.get(name) or ())) for name in ("iflag", "oflag", "conv"))
        return _needed(options, ("direction", "block_size"), varied, *flags)
    return () if tool in ("pg_test_fsync", "bonnie") else None


def _needed(
    options: Mapping[str, Any], names: Sequence[str], varied: set[str], *more: Any
) -> tuple[Any, ...] | None:
    fixed = [name for name in names if name not in varied]
    if any(options.get(name) is None for name in fixed):
        return None
    return *((name, options[name]) for name in fixed), *more


def told(tool: str, options: Mapping[str, Any], *, ours: bool) -> dict[str, Any]:
    """Options under one name each. What was left out is the driver's default where we ran it, else nobody's word."""
    found = {**_defaults(tool), **options} if ours else dict(options)
    if tool == "dynamo" and "write_percent" in found:
        found["read_percent"] = 100 - int(found.pop("write_percent"))
    return found


def _defaults(tool: str) -> dict[str, Any]:
    if tool not in registry.all_tools():
        return {}
    fields = dataclasses.fields(registry.tool(tool).Options)
    return {one.name: one.default for one in fields if one.default is not dataclasses.MISSING}
