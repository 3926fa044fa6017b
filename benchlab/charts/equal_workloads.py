# SPDX-License-Identifier: Apache-2.0
"""Equal workloads, whatever their names: workloads of several teams that did the same share a chart. Pure.

Which of a tool's options make two results of it comparable at all, its driver says (protocols.ComparableWork). Others
are listed where they differ: what others published rarely says them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from agents.drivers import registry
from benchlab.charts.queries import Group

WorkKey = tuple[Any, ...]


def group_by_work(groups: Iterable[Group]) -> list[list[Group]]:
    """The lines of each chart. Lines of one workload stay together; of several campaigns, those that did the same."""
    by_workload: dict[int, list[Group]] = {}
    for group in groups:
        by_workload.setdefault(group.workload, []).append(group)
    if len({group.campaign for lines in by_workload.values() for group in lines}) < 2:
        return list(by_workload.values())
    by_deed: dict[WorkKey, list[Group]] = {}
    for lines in by_workload.values():
        by_deed.setdefault(_work_key(lines), []).extend(lines)
    return list(by_deed.values())


def _work_key(lines: Sequence[Group]) -> WorkKey:
    """Tool, options that matter, swept axes. Where nobody can tell what was done, a workload is like no other."""
    first = lines[0]
    swept = any(group.swept for group in lines)
    options = registry.canonical_options(first.tool, first.options, ours=first.measured_here)
    work = registry.same_work(first.tool, options)
    fixed = [name for name in work.options if name not in first.varied_options] if work else []
    if work is None or any(options.get(name) is None for name in fixed):
        return "workload", first.workload
    matters = *((name, options[name]) for name in fixed), *work.more
    counts = not swept and registry.depth_options(first.tool)
    depth = first.samples[0].outstanding if counts else None
    return first.tool, matters, tuple(sorted(set(first.varied_options))), swept, depth
