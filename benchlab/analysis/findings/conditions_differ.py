"""Set-ups differ in what no layout asks for: scheduler, write cache, sectors, firmware, kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from benchlab.analysis.evidence import Device, Line, Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings._words import names as joined

LABEL = "Conditions differ"
METHOD = "Findings"

Told = Callable[[Device], str]
# Of disks of one kind; what a layer may set is its option of that name.
OF_KIND: dict[str, Told] = {
    "scheduler": lambda disk: disk.scheduler,
    "write_cache": lambda disk: disk.write_cache,
    "logical_block": lambda disk: f"{disk.logical_block} B" if disk.logical_block else "",
}
OF_SAME: dict[str, Told] = {"firmware": lambda disk: disk.firmware}  # another disk may have another
WORDS = {"write_cache": "write cache", "logical_block": "logical block"}


def compares(lines: Sequence[Line]) -> list[Finding]:
    """What nobody told is neither equal nor different; disks that spin are held against such only,
    and lines of a host against its others."""
    return [
        found for host in dict.fromkeys(line.host for line in lines) for found in _of(host, lines)
    ]


def _of(host: int, among: Sequence[Line]) -> list[Finding]:
    lines = [line for line in among if line.host == host]
    found = []
    for what in dict.fromkeys([*OF_KIND, *OF_SAME, *_of_hosts(lines)]):
        for kind, told in _told(lines, what):
            if len({values for values in told.values() if values}) > 1:
                found.append(_finding(what, kind, {n: v for n, v in told.items() if v}, lines))
    return found


def _of_hosts(lines: Sequence[Line]) -> Iterator[str]:
    return (name for line in lines for run in line.runs for name in run.conditions)


def _told(lines: Sequence[Line], what: str) -> Iterator[tuple[str, dict[str, tuple[str, ...]]]]:
    """(of which disks, {line: its values}): a group of each for every kind of disk, or every disk."""
    if what not in OF_KIND and what not in OF_SAME:
        yield (
            "",
            {
                line.name: _values(run.conditions.get(what, "") for run in line.runs)
                for line in lines
            },
        )
        return
    groups: dict[str, dict[str, list[str]]] = {}
    for line in lines:
        if not _asks(line, what):
            for run in line.runs:
                for kind, value in _of_run(run, what):
                    groups.setdefault(kind, {}).setdefault(line.name, []).append(value)
    for kind, told in sorted(groups.items()):
        yield kind, {name: _values(values) for name, values in told.items()}


def _of_run(run: Run, what: str) -> Iterator[tuple[str, str]]:
    wanted = set(run.disks())
    for disk in run.devices.values():
        if disk.name not in wanted:
            continue
        if what in OF_KIND:
            yield KINDS[disk.rotational], OF_KIND[what](disk)
        else:
            yield f"of {disk.name}", OF_SAME[what](disk)


KINDS = {True: "of disks that spin", False: "of SSDs", None: "of disks"}


def _values(told: Iterator[str] | Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(set(told) - {""}))


def _asks(line: Line, what: str) -> bool:
    return any(layer.options.get(what) for layer in line.layers)


def _finding(
    what: str, kind: str, told: dict[str, tuple[str, ...]], lines: Sequence[Line]
) -> Finding:
    by_value: dict[tuple[str, ...], list[str]] = {}
    for name, values in told.items():
        by_value.setdefault(values, []).append(name)
    sides = ", ".join(
        f"{' and '.join(values)} with {joined(tuple(some))}" for values, some in by_value.items()
    )
    head = " ".join(filter(None, [WORDS.get(what, what), kind]))
    runs = [run.run for line in lines if line.name in told for run in line.runs if run.run]
    return Finding(
        f"{head} differs where no layout asks for it: {sides}",
        Severity.DOUBT,
        {"ways": Number(len(by_value), "1", f"ways in which {head} was set")},
        about=f"{head} of host {lines[0].host}" if lines[0].host else head,
        runs=tuple(runs),
    )
