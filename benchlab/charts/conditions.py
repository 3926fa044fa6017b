"""Under what conditions lines were measured, and in what they differ: only equals compare without a warning."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchlab.charts.queries import Group, Person, labels
from benchlab.charts.templatetags.si import size
from benchlab.runs.models import Attempt
from benchlab.topologies import moments


@dataclass(frozen=True, slots=True)
class Differences:
    """The conditions that are not the same for all lines: their names, and per line its label and values."""

    names: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


def differences(user: Person, groups: Sequence[Group]) -> dict[int, Differences]:
    """{workload: what differs between its lines}; a workload whose lines are all alike is left out. One query."""
    newest = [max(sample.attempt for sample in group.samples) for group in groups]
    rows = (
        Attempt.objects.visible_to(user)
        .select_related("facts", "layout", "run__host")
        .in_bulk(newest)
    )
    lines: dict[int, list[tuple[Group, dict[str, str]]]] = {}
    for group, pk in zip(groups, newest, strict=True):
        if pk in rows:
            lines.setdefault(group.workload, []).append((group, _conditions(rows[pk])))
    found = {workload: _differences(some) for workload, some in lines.items()}
    return {workload: one for workload, one in found.items() if one.names}


def _differences(lines: Sequence[tuple[Group, Mapping[str, str]]]) -> Differences:
    every = [conditions for _, conditions in lines]
    names = tuple(name for name in every[0] if len({one[name] for one in every}) > 1)
    texts = labels([group for group, _ in lines])
    cells = (tuple(one[name] for name in names) for one in every)
    return Differences(names, tuple(zip(texts, cells, strict=True)))


def _conditions(attempt: Attempt) -> dict[str, str]:
    """The parts of benchlab.runs.fingerprint, in words. The sweep's own options are the x axis, not a condition."""
    facts: Mapping[str, Any] = attempt.facts.facts if attempt.facts else {}
    options = {k: v for k, v in attempt.run.options.items() if k not in attempt.run.point}
    return {
        "Host": attempt.run.host.name,
        "Kernel": str(facts.get("kernel", "")),
        "CPU": f"{facts.get('cpus', '')} × {facts.get('cpu_model', '')}",
        "Memory": size(facts["memory"]) if facts.get("memory") else "",
        "Devices": ", ".join(sorted(set(identities(attempt.layout.plan)))),
        "Stack": _stack(attempt.layout.stack),
        "Condition": "; ".join(one["says"] for one in attempt.degraded) or "in order",
        "Moment": moments.parse(attempt.run.stage).words or "as built",
        "Tool": attempt.tool_version or attempt.run.tool,
        "Workload": json.dumps(options, sort_keys=True),
    }


def _stack(layers: Sequence[Mapping[str, Any]]) -> str:
    return " > ".join(f"{layer['kind']} {json.dumps(layer.get('options', {}))}" for layer in layers)


def identities(plan: object) -> Iterator[str]:
    """Every device identity that a plan claims, however deep."""
    if isinstance(plan, Mapping):
        if "identity" in plan and "node" in plan:
            yield str(plan["identity"])
        for value in plan.values():
            yield from identities(value)
    elif isinstance(plan, list):
        for value in plan:
            yield from identities(value)
