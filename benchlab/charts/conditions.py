# SPDX-License-Identifier: Apache-2.0
"""Conditions under which lines were measured: what one compares, and what else differs.

Only equals compare without a warning (docs/method.md), but what one compares on purpose is no cause for one: layouts,
hosts, moments, points of a sweep, and what follows from them. What a source never told is not known, neither equal nor
different, and a driver's default is no fact of a result that it did not make.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from agents.drivers import registry
from benchlab.campaigns import matrix
from benchlab.campaigns.models import Campaign
from benchlab.charts.device_stacks import Facts, describe_claims
from benchlab.charts.line_analysis import group_by_work
from benchlab.charts.queries import Group, Person, line_labels
from benchlab.hosts.models import FactSnapshot
from benchlab.runs import attempt_meta
from benchlab.runs.models import Attempt, Layout
from benchlab.topologies import moments
from benchlab.web.units import format_size

NOT_STATED = "not told"
LAYOUT, POINT = "Layout", "Point"
OPTION, OPTIONS = "Option ", "some options of the tool"
# The properties of a line, by the attribute that shows whether lines differ in it on purpose.
COMPARED_CONDITIONS = {"Host": "host", LAYOUT: "topology", "Moment": "stage", POINT: "rest"}
# a host has its own
HOST_CONDITIONS = ("CPU", "Memory")
DEVICES = "Devices"
# Of each device that a layout claims: what facts and plan call it.
DEVICE_CONDITIONS = {
    "Device model": "model",
    "Firmware": "firmware",
    "Device size": "size",
    "Sectors": "sectors",
    "Scheduler": "scheduler",
}
# a layer of the layout may set it, or the run
SCHEDULER = "Scheduler"


@dataclass(frozen=True, slots=True)
class ConditionTable:
    """A column per condition; a row per line, its label and values."""

    names: tuple[str, ...] = ()
    rows: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Differences:
    """Differences between lines. `untold`: (line, conditions that others state and its source does not)."""

    compared: ConditionTable = ConditionTable()
    others: ConditionTable = ConditionTable()
    unstated: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.compared.names or self.others.names or self.unstated)


# identity -> its model, size, …, each in words
Devices = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class AttemptConditions:
    """Conditions of one attempt; "" is not stated."""

    texts: Mapping[str, str]
    devices: Devices
    # the entry of CHOSEN that sets its schedulers: its layout, or its point
    scheduler_origin: str = ""


@dataclass(frozen=True)
class LineConditions:
    group: Group
    label: str
    conditions: tuple[AttemptConditions, ...]

    def count_values(self, name: str) -> Counter[str]:
        """Count the values that its attempts state; "" for those that state none."""
        counted = self._counted.get(name, Counter())
        unstated = len(self.conditions) - counted.total()
        return counted + Counter({"": unstated})

    def stated(self, name: str) -> set[str]:
        """Values that its attempts state."""
        return {text for text in self._counted.get(name, ()) if text}

    @cached_property
    def _counted(self) -> Mapping[str, Counter[str]]:
        counted: dict[str, Counter[str]] = defaultdict(Counter)
        for attempt in self.conditions:
            for name, text in attempt.texts.items():
                counted[name][text] += 1
        return counted


def line_differences(user: Person, groups: Sequence[Group]) -> dict[int, Differences]:
    """Return {workload: the differences between its chart's lines}, without charts whose lines are all alike."""
    return _differences_by_workload(user, groups, _compare_lines)


def repeat_differences(user: Person, groups: Sequence[Group]) -> dict[int, Differences]:
    """Return {workload: the differences between repeats of a point}. No query if all fingerprints are equal."""
    mixed = [group for group in groups if group.has_unlike_repeats]
    return _differences_by_workload(user, mixed, _compare_repeats) if mixed else {}


def _differences_by_workload(
    user: Person, groups: Sequence[Group], make: Callable[[Sequence[LineConditions]], Differences]
) -> dict[int, Differences]:
    conditions = _read_conditions(user, groups)
    by_workload: dict[int, Differences] = {}
    for some in group_by_work(groups):
        lines = [
            LineConditions(
                group,
                label,
                tuple(conditions[s.attempt] for s in group.samples if s.attempt in conditions),
            )
            for group, label in zip(some, line_labels(some), strict=True)
        ]
        if difference := make([line for line in lines if line.conditions]):
            by_workload |= {group.workload: difference for group in some}
    return by_workload


def _compare_repeats(lines: Sequence[LineConditions]) -> Differences:
    varying = [
        name
        for name in _condition_names(lines)
        if any(_varies_within(line, name) for line in lines)
    ]
    return Differences(others=_condition_table(lines, varying))


def _compare_lines(lines: Sequence[LineConditions]) -> Differences:
    """Separate what one compares, and what differs because of that, from all else that differs."""
    chosen = [
        name
        for name, part in COMPARED_CONDITIONS.items()
        if len({getattr(line.group, part) for line in lines}) > 1
    ]
    implied = {*HOST_CONDITIONS} if "Host" in chosen else set()
    if any(attempt.scheduler_origin in chosen for line in lines for attempt in line.conditions):
        implied.add(SCHEDULER)
    others, following = [], []
    for name in _condition_names(lines):
        if any(_varies_within(line, name) for line in lines):
            others.append(name)
        elif _lines_differ(lines, name, nested=LAYOUT in chosen):
            if name in implied:
                following.append(name)
            elif name not in chosen:
                others.append(name)
    return Differences(
        _condition_table(lines, [*chosen, *following]),
        _condition_table(lines, others),
        tuple(_unstated_conditions(lines)),
    )


def _condition_names(lines: Sequence[LineConditions]) -> list[str]:
    return list(
        dict.fromkeys(n for line in lines for attempt in line.conditions for n in attempt.texts)
    )


def _stated_values(lines: Iterable[LineConditions], name: str) -> set[str]:
    return {word for line in lines for word in line.stated(name)}


def _varies_within(line: LineConditions, name: str) -> bool:
    return len(_stated_values([line], name)) > 1


def _lines_differ(lines: Sequence[LineConditions], name: str, *, nested: bool) -> bool:
    if name == DEVICES:
        return _disks_differ(lines, nested=nested)
    if name in DEVICE_CONDITIONS:
        return _disk_kinds_differ(lines, DEVICE_CONDITIONS[name], nested=nested)
    return len(_stated_values(lines, name)) > 1


def _disks_differ(lines: Sequence[LineConditions], *, nested: bool) -> bool:
    """True when lines of one host stand on other disks; a layout that takes more of the same ones is `nested`."""
    by_host: dict[int, list[set[str]]] = {}
    for line in lines:
        if disks := set(line.conditions[0].devices):
            by_host.setdefault(line.group.host, []).append(disks)
    return any(not _sets_match(sets, nested=nested) for sets in by_host.values())


def _sets_match(sets: Sequence[set[str]], *, nested: bool) -> bool:
    return all(a == b or (nested and (a < b or b < a)) for a in sets for b in sets)


def _disk_kinds_differ(lines: Sequence[LineConditions], part: str, *, nested: bool) -> bool:
    """True when one disk is not what it was, or lines stand on disks of kinds that are no subset of each other."""
    by_disk: dict[str, set[str]] = {}
    kinds: list[set[str]] = []
    for line in lines:
        devices = line.conditions[0].devices
        for identity, device in devices.items():
            by_disk.setdefault(identity, set()).update(filter(None, [device[part]]))
        kinds.append({device[part] for device in devices.values() if device[part]})
    if any(len(words) > 1 for words in by_disk.values()):
        return True
    return not _sets_match(
        [kind for kind in kinds if kind], nested=nested and not _disks_differ(lines, nested=True)
    )


def _condition_table(lines: Sequence[LineConditions], names: Sequence[str]) -> ConditionTable:
    rows = (
        (line.label, tuple(_condition_cell(line.count_values(name)) for name in names))
        for line in lines
    )
    return ConditionTable(tuple(names), tuple(rows) if names else ())


def _condition_cell(counted: Counter[str]) -> str:
    if len(counted) == 1:
        return next(iter(counted)) or NOT_STATED
    return "; ".join(
        f"{word or NOT_STATED} ({n} run{'s' * (n > 1)})" for word, n in counted.items()
    )


def _unstated_conditions(lines: Sequence[LineConditions]) -> Iterator[tuple[str, str]]:
    """Return the unstated conditions, the tool's options as one word: there are many, and few sources state them."""
    names = [
        name
        for name in _condition_names(lines)
        if _stated_values(lines, name) and name not in COMPARED_CONDITIONS
    ]
    for line in lines:
        missing = [name for name in names if not _stated_values([line], name)]
        told_of = [OPTIONS if name.startswith(OPTION) else name for name in missing]
        if told_of:
            yield line.label, ", ".join(dict.fromkeys(told_of))


def _read_conditions(user: Person, groups: Sequence[Group]) -> dict[int, AttemptConditions]:
    """Return {attempt: its conditions} in three queries; most attempts share the large parts."""
    rest = {sample.attempt: group.rest for group in groups for sample in group.samples}
    rows = list(
        Attempt.objects.visible_to(user)
        .filter(pk__in=rest)
        .select_related("run__host", "run__campaign")
        .only(
            "facts",
            "layout",
            "tool_version",
            "degraded",
            "meta",
            "run__tool",
            "run__scheduler",
            "run__options",
            "run__point",
            "run__stage",
            "run__host__name",
            "run__campaign__source",
        )
    )
    facts = FactSnapshot.objects.in_bulk({row.facts_id for row in rows if row.facts_id})
    layouts = Layout.objects.only("stack", "plan").in_bulk({row.layout_id for row in rows})
    shared: dict[tuple[int | None, int, str], tuple[dict[str, str], Devices]] = {}
    conditions = {}
    for row in rows:
        layout, queues = layouts[row.layout_id], row.meta.get(attempt_meta.QUEUES)
        key = row.facts_id, row.layout_id, json.dumps(queues)
        if key not in shared:
            snapshot = facts[row.facts_id].facts if row.facts_id else {}
            shared[key] = _layout_conditions(
                attempt_meta.facts_during_attempt(snapshot, row.meta), layout
            )
        words, devices = shared[key]
        conditions[row.pk] = AttemptConditions(
            {**_run_conditions(row, rest[row.pk]), **words, **_option_conditions(row)},
            devices,
            _scheduler_origin(row, layout),
        )
    return conditions


def _scheduler_origin(row: Attempt, layout: Layout) -> str:
    if row.run.scheduler:
        return POINT
    return LAYOUT if any(layer["kind"] == "tuning" for layer in layout.stack) else ""


def _run_conditions(attempt: Attempt, rest: str) -> dict[str, str]:
    moment = moments.parse_moment(attempt.run.stage).phrase or "as built"
    return {
        "Host": attempt.run.host.name,
        "Moment": moment,
        POINT: rest,
        "Tool": attempt.tool_version,
        "Condition": "; ".join(fault["says"] for fault in attempt.degraded) or "in order",
    }


def _option_conditions(attempt: Attempt) -> dict[str, str]:
    """Return the options as conditions, without the sweep's own, which are the x axis or the line."""
    run = attempt.run
    options = registry.canonical_options(
        run.tool, run.options, ours=run.campaign.source == Campaign.Source.MEASURED
    )
    return {
        f"{OPTION}{name.replace('_', ' ')}": _option_text(name, value)
        for name, value in options.items()
        if name not in run.point
    }


def _option_text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return matrix.format_value(name, value) or "none"


def _layout_conditions(facts: Facts, layout: Layout) -> tuple[dict[str, str], Devices]:
    devices = describe_claims(layout.plan, facts)
    words = {
        LAYOUT: stack_text(layout.stack),
        "Kernel": str(facts.get("kernel", "")),
        "CPU": f"{facts['cpus']} × {facts.get('cpu_model', '')}" if facts.get("cpus") else "",
        "Memory": format_size(facts["memory"]) if facts.get("memory") else "",
        DEVICES: ", ".join(sorted(devices)),
        **{name: _text_per_device(devices, part) for name, part in DEVICE_CONDITIONS.items()},
    }
    return words, devices


def _text_per_device(devices: Devices, part: str) -> str:
    """ "none" where all have it, else "none (sdb, sdc), mq-deadline (sdd)"."""
    nodes: dict[str, list[str]] = {}
    for device in devices.values():
        if device[part]:
            nodes.setdefault(device[part], []).append(device["name"])
    if len(nodes) < 2:
        return "".join(nodes)
    return ", ".join(
        f"{word} ({', '.join(sorted(names))})" for word, names in sorted(nodes.items())
    )


def stack_text(layers: Sequence[Facts]) -> str:
    """The layers from the bottom up, each with what its driver would not have done by itself."""
    return " > ".join(
        " ".join(filter(None, [layer["kind"], _changed_options(layer)])) for layer in layers
    )


def _changed_options(layer: Facts) -> str:
    fields: dict[str, dataclasses.Field[object]] = {}
    if layer["kind"] in registry.all_layers():
        options = dataclasses.fields(registry.layer(layer["kind"]).Options)
        fields = {option.name: option for option in options}
    changed = []
    for name, value in layer.get("options", {}).items():
        field = fields.get(name)
        # The value as JSON stores it.
        default = field and (
            list(field.default) if isinstance(field.default, tuple) else field.default
        )
        if field and default == value:
            continue
        # The name by which `matrix.format_value` recognises bytes.
        unit_name = "size" if field and field.metadata.get("unit") == "B" else name
        changed.append(f"{name.replace('_', ' ')} {_option_text(unit_name, value)}")
    return f"({', '.join(changed)})" if changed else ""
