# SPDX-License-Identifier: Apache-2.0
"""Set-ups differ in conditions that no layout or run requests: scheduler, write cache, sectors, firmware, kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from benchlab.analysis.evidence import Device, Line, Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.formats import join_names as joined

LABEL = "Conditions differ"
METHOD = "Findings"

DeviceSetting = Callable[[Device], str]
# Settings compared on disks of one kind; a layer that sets one has an option of the same name.
OF_KIND: dict[str, DeviceSetting] = {
    "scheduler": lambda disk: disk.scheduler,
    "write_cache": lambda disk: disk.write_cache,
    "logical_block": lambda disk: f"{disk.logical_block} B" if disk.logical_block else "",
}
# settings compared on the same disk only, as another disk may have another value
OF_SAME: dict[str, DeviceSetting] = {"firmware": lambda disk: disk.firmware}
OF_DISKS = OF_KIND | OF_SAME
WORDS = {"write_cache": "write cache", "logical_block": "logical block"}


def compares(lines: Sequence[Line]) -> list[Finding]:
    """Report conditions that differ; an unknown one is neither equal nor different.

    Rotating disks and NVMe disks are compared with their own kind only, and lines only with others of the same host.
    Runs of one line may differ, too: it was built anew, or began again.
    """
    return [
        finding
        for host in dict.fromkeys(line.host for line in lines)
        for finding in _host_differences(host, lines)
    ]


def _host_differences(host: int, among: Sequence[Line]) -> list[Finding]:
    lines = [line for line in among if line.host == host]
    findings = []
    for what in dict.fromkeys([*OF_DISKS, *_host_conditions(lines)]):
        for kind, sides in _group_by_value(lines, what).items():
            if len(sides) > 1:
                findings.append(_describe_condition(what, kind, sides, lines))
    return findings


def _host_conditions(lines: Sequence[Line]) -> Iterator[str]:
    return (name for line in lines for run in line.runs for name in run.conditions)


Values = tuple[str, ...]
# values -> number of runs of each line that had them
Sides = dict[Values, Counter[str]]


def _group_by_value(lines: Sequence[Line], what: str) -> dict[str, Sides]:
    """Count the runs of each line by the values of a condition, for each kind of disks or each disk; "" is the host."""
    sides_by_kind: dict[str, Sides] = {}
    for line in lines:
        if not _layout_sets(line, what):
            for run in line.runs:
                if what in run.requested:
                    continue
                for kind, values in _condition_values(run, what).items():
                    sides = sides_by_kind.setdefault(kind, {})
                    sides.setdefault(values, Counter())[line.name] += 1
    return dict(sorted(sides_by_kind.items()))


def _condition_values(run: Run, what: str) -> dict[str, Values]:
    """Values of one condition in a run, by kind of disk, or by disk; under "" if it belongs to no disk."""
    if what not in OF_DISKS:
        return {"": (value_of_host,)} if (value_of_host := run.conditions.get(what)) else {}
    disks, groups = set(run.layout_disks), dict[str, set[str]]()
    for disk in run.devices.values():
        if disk.name not in disks:
            continue
        kind = _disk_kind(disk) if what in OF_KIND else f"of {disk.name}"
        if value := OF_DISKS[what](disk):
            groups.setdefault(kind, set()).add(value)
    return {kind: tuple(sorted(values)) for kind, values in groups.items()}


def _disk_kind(disk: Device) -> str:
    """NVMe disks have queues, and mostly a cache, of another kind than SSDs behind a SCSI link."""
    return NVME if disk.name.startswith("nvme") else KINDS[disk.rotational]


NVME = "of NVMe disks"
KINDS = {True: "of disks that spin", False: "of SSDs", None: "of disks"}


def _layout_sets(line: Line, what: str) -> bool:
    return any(layer.options.get(what) for layer in line.layers)


def _describe_condition(what: str, kind: str, sides: Sides, lines: Sequence[Line]) -> Finding:
    runs_by_line = Counter(name for counts in sides.values() for name in counts.elements())
    words = ", ".join(
        f"{' and '.join(values)} with {joined(tuple(_share_of_runs(name, counts, runs_by_line) for name in counts))}"
        for values, counts in sides.items()
    )
    head = " ".join(filter(None, [WORDS.get(what, what), kind]))
    runs = [run.run for line in lines if line.name in runs_by_line for run in line.runs if run.run]
    return Finding(
        f"{head} differs where no layout asks for it: {words}",
        Severity.DOUBT,
        {"ways": Number(len(sides), "1", f"ways in which {head} was set")},
        about=f"{head} of host {lines[0].host}" if lines[0].host else head,
        runs=tuple(runs),
    )


def _share_of_runs(name: str, counts: Counter[str], totals: Counter[str]) -> str:
    """Name a set-up, or the number of its runs."""
    return (
        name if counts[name] == totals[name] else f"{counts[name]} of {totals[name]} runs of {name}"
    )
