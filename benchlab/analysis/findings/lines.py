# SPDX-License-Identifier: Apache-2.0
"""Set-ups of one workload as a whole: conditions that differ between them, and repeats that disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from statistics import median

from benchlab.analysis.evidence import Device, Line, Run
from benchlab.analysis.finding import NEEDED, Finding, Number, Severity, line_finding
from benchlab.analysis.formats import join_names, ratio_number
from benchlab.analysis.repeats import disagreement_ratios, repeats_to_agree
from benchlab.analysis.set_ups import (
    common_figure,
    depths_text,
    figure_amount,
    figure_unit,
    figure_word,
)

DeviceSetting = Callable[[Device], str]
# Settings that a person makes, compared on disks of one kind; a layer that sets one has an option of the same name.
OF_KIND: dict[str, DeviceSetting] = {"scheduler": lambda disk: disk.scheduler}
# settings that come with a model, too: those of unlike models differ without anybody's doing
OF_MODEL: dict[str, DeviceSetting] = {
    "write_cache": lambda disk: disk.write_cache,
    "logical_block": lambda disk: f"{disk.logical_block} B" if disk.logical_block else "",
}
# settings compared on the same disk only, as another disk may have another value
OF_SAME: dict[str, DeviceSetting] = {"firmware": lambda disk: disk.firmware}
OF_DISKS = OF_KIND | OF_MODEL | OF_SAME
WORDS = {"write_cache": "write cache", "logical_block": "logical block"}
NVME = "of NVMe disks"
KINDS = {True: "of spinning disks", False: "of SSDs", None: "of disks"}
# A smaller difference of repeats is not worth naming.
WITHIN = 0.05

Values = tuple[str, ...]
# values -> number of runs of each line that had them
Sides = dict[Values, Counter[str]]


@line_finding("Conditions differ")
def conditions_differ(lines: Sequence[Line]) -> Iterator[Finding]:
    """Set-ups differ in conditions that no layout or run requests: scheduler, write cache, sectors, firmware, kernel.

    An unknown condition is neither equal nor different. Rotating disks and NVMe disks are compared with their own kind
    only, and lines only with others of the same host. Runs of one line may differ, too: it was built anew, or began
    again.
    """
    for host in dict.fromkeys(line.host for line in lines):
        same = [line for line in lines if line.host == host]
        of_host = (name for line in same for run in line.runs for name in run.conditions)
        for what in dict.fromkeys([*OF_DISKS, *of_host]):
            for kind, sides in sorted(_group_by_value(same, what).items()):
                if len(sides) > 1:
                    head = f"{WORDS.get(what, what)} {kind}".rstrip()
                    yield _describe_condition(head, sides, same)


def _group_by_value(lines: Sequence[Line], what: str) -> dict[str, Sides]:
    """Count the runs of each line by the values of a condition, for each kind of disks or each disk; "" is the host."""
    sides_by_kind: dict[str, Sides] = {}
    for line in lines:
        if any(layer.options.get(what) for layer in line.layers):
            continue
        for run in line.runs:
            values_by_kind = {} if what in run.requested else _condition_values(run, what)
            for kind, values in values_by_kind.items():
                sides = sides_by_kind.setdefault(kind, {})
                sides.setdefault(values, Counter())[line.name] += 1
    return sides_by_kind


def _condition_values(run: Run, what: str) -> dict[str, Values]:
    """Values of one condition in a run, by kind of disk, or by disk; under "" if it belongs to no disk."""
    if what not in OF_DISKS:
        value = run.conditions.get(what)
        return {"": (value,)} if value else {}
    disks, groups = set(run.layout_disks), dict[str, set[str]]()
    for disk in run.devices.values():
        value = OF_DISKS[what](disk)
        if value and disk.name in disks:
            kind = f"of {disk.name}" if what in OF_SAME else _disk_kind(disk)
            if what in OF_MODEL and disk.model:
                kind = f"of {disk.model}"
            groups.setdefault(kind, set()).add(value)
    return {kind: tuple(sorted(values)) for kind, values in groups.items()}


def _disk_kind(disk: Device) -> str:
    """NVMe disks have queues, and mostly a cache, of another kind than SSDs behind a SCSI link."""
    return NVME if disk.name.startswith("nvme") else KINDS[disk.rotational]


def _describe_condition(head: str, sides: Sides, lines: Sequence[Line]) -> Finding:
    totals = sum(sides.values(), Counter[str]())
    words = ", ".join(
        f"{' and '.join(values)} with {join_names(tuple(_part_of_runs(counts, totals)))}"
        for values, counts in sides.items()
    )
    runs = (run.run for line in lines if line.name in totals for run in line.runs)
    host = lines[0].host
    return Finding(
        f"{head} differs, though no layout asks for that: {words}",
        Severity.DOUBT,
        {"ways": Number(len(sides), "1", f"ways in which {head} was set")},
        about=f"{head} of host {host}" if host else head,
        runs=tuple(filter(None, runs)),
    )


def _part_of_runs(counts: Counter[str], totals: Counter[str]) -> Iterator[str]:
    """Name each set-up, or the number of its runs."""
    for name, count in counts.items():
        total = totals[name]
        yield name if count == total else f"{count} of {total} runs of {name}"


@line_finding("Repeats disagree")
def repeats_disagree(lines: Sequence[Line]) -> Iterator[Finding]:
    """Repeats of one point differ more than the other points' noise explains: their median is not the set-up's rate.

    Each line is checked over all of its sweep. A twofold difference is always reported, one below 10 % never
    (benchlab.analysis.repeats).
    """
    for line in lines:
        if figure := common_figure([line]):
            yield from _describe_disagreement(line, figure)


def _describe_disagreement(line: Line, figure: str) -> Iterator[Finding]:
    sweep = {
        depth: list(cell.values()) for depth, cell in sorted(line.sweep_values(figure).items())
    }
    apart = disagreement_ratios(list(sweep.values()))
    ratios = {depth: ratio for depth, ratio in zip(sweep, apart, strict=True) if ratio}
    if not ratios:
        return
    worst = max(ratios, key=lambda depth: ratios[depth])
    low, high = min(sweep[worst]), max(sweep[worst])
    differ = f"{figure_amount(low, figure)} to {figure_amount(high, figure)}"
    if low <= 0:
        differ = f"from {differ}: one of them did nothing"
    else:
        most = "up to " if len(ratios) > 1 else ""
        differ = f"by a factor of {most}{ratio_number(ratios[worst])} ({differ})"
    numbers = {}
    # None where no number in reason would do
    needed = repeats_to_agree(list(sweep.values()), WITHIN)
    if needed is not None:
        words = "repeats of each, in all, for means within 5 %"
        numbers[NEEDED] = Number(float(needed), "1", words)
    by_value = {run.figures[figure]: run.run for run in line.runs if run.depth == worst}
    for name, value, words in (("low", low, "smallest"), ("high", high, "largest")):
        what = f"{words} {figure_word(figure)} {depths_text([worst])}".rstrip()
        numbers[name] = Number(value, figure_unit(figure), what, by_value[value], figure)
    where = f"repeats of {line.name} {depths_text(sorted(ratios))}".rstrip()
    cells = [run for run in line.runs if run.depth in ratios]
    outliers = [run for run in cells if _stands_apart(run.figures[figure], sweep[run.depth])]
    # a point whose repeats fall into two halves
    split = ratios.keys() - {run.depth for run in outliers}
    if outliers:
        verb = "stands" if len(outliers) == 1 else "stand"
        differ += f"; {len(outliers)} of {len(cells)} runs {verb} apart from the others"
    yield Finding(
        f"{where} differ {differ}",
        Severity.DOUBT,
        numbers,
        about=line.name,
        runs=tuple(run.run for run in cells if run.run and (run in outliers or run.depth in split)),
    )


def _stands_apart(value: float, cell: Sequence[float]) -> bool:
    """True for a repeat that is farther from the median of three or more than half of their range."""
    return len(cell) > 2 and 2 * abs(value - median(cell)) > max(cell) - min(cell)
