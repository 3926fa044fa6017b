# SPDX-License-Identifier: Apache-2.0
"""The tool counted more than the disks can do, by their links or their rating (docs/method.md, believability)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchlab.analysis.evidence import Device, Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings import _stacks
from benchlab.analysis.formats import rate

LABEL = "More than the disks can do"
METHOD = "Findings"

# Ratio to the sum over the disks: less is the rounding of data sheets.
ABOVE = 1.05
# figures of the whole run, not of one of several tests
OF_ALL = ("iops", "bandwidth", "read.bandwidth", "write.bandwidth")


@dataclass(frozen=True, slots=True)
class Limit:
    about: str
    words: str
    unit: str
    value: Callable[[Device], float | None]


LIMITS = (
    Limit("links", "links carry", "B/s", lambda disk: disk.link),
    Limit("rated bandwidth", "disks are rated for", "B/s", lambda disk: disk.rated_bandwidth),
    Limit("rated IOPS", "disks are rated for", "op/s", lambda disk: disk.rated_iops),
)


def applies(run: Run) -> list[Finding]:
    """Compare with the ceiling of all disks together, whichever of them the stack reads.

    Links carry both directions at once, so each direction is compared alone. Small sequential requests may become one
    request of the disk, so rated IOPS count for random ones only.
    """
    return [finding for limit in LIMITS for finding in _above_limit(run, limit)]


def _above_limit(run: Run, limit: Limit) -> list[Finding]:
    disks = _stacks.active_disks(run)
    limits = [
        each for name in disks if name in run.devices and (each := limit.value(run.devices[name]))
    ]
    needed = _needed_rates(run, limit.unit)
    if not disks or len(limits) < len(disks) or not needed:
        return []
    figure, most = max(needed.items(), key=lambda pair: pair[1])
    ceiling, counted = sum(limits), run.figures[figure]
    if not most > ABOVE * ceiling:
        return []
    copies = round(most / counted)
    why, numbers = _explain_excess(run, figure, limit.unit, most)
    return [
        Finding(
            f"{rate(counted, limit.unit)}{f', written {copies} times,' if copies > 1 else ''} is more than the "
            f"{rate(ceiling, limit.unit)} that its {limit.words}: {why}",
            Severity.DOUBT,
            {
                "counted": Number(counted, limit.unit, f"{figure}, by the tool", figure=figure),
                "ceiling": Number(ceiling, limit.unit, f"{limit.about} of the disks, together"),
                **numbers,
            },
            about=limit.about,
        )
    ]


def _needed_rates(run: Run, unit: str) -> dict[str, float]:
    """Rates that the disks must have reached, by figure: what is written is on every mirror."""
    if unit == "op/s":
        random = run.access.random is not False
        return {
            name: run.figures[name]
            for name in ("iops",)
            if random and _is_positive(run.figures, name)
        }
    one_way = run.access.reads is False or run.access.writes is False
    rates = {}
    for name in run.figures:
        of_both = name == "bandwidth" and not one_way
        if name.split(".")[-1] == "bandwidth" and not of_both and _is_positive(run.figures, name):
            written = name == "write.bandwidth" or (
                name == "bandwidth" and run.access.reads is False
            )
            rates[name] = run.figures[name] * (_stacks.copies(run) if written else 1)
    return rates


def _is_positive(figures: Mapping[str, float], name: str) -> bool:
    return figures.get(name, 0.0) > 0


def _explain_excess(
    run: Run, figure: str, unit: str, needed: float
) -> tuple[str, dict[str, Number]]:
    """Explain such a figure as far as possible, with its numbers."""
    disk_rate = _kernel_rate(run, figure, unit)
    if disk_rate is None:
        direct = run.access.direct and not _stacks.cached(run) and not _stacks.packing(run)
        return (
            f"a cache {'inside or beneath' if direct else 'above them, or inside,'} may explain it",
            {},
        )
    numbers = {"disks": Number(disk_rate, unit, "the disks, by the kernel", metric=figure)}
    if disk_rate < needed / ABOVE:
        return (
            f"the disks did {rate(disk_rate, unit)}, and a cache or a layer above them the rest",
            numbers,
        )
    wrong = "that is the kernel's count, too, so what is told of them is wrong, or they cache it themselves"
    return wrong, numbers


def _kernel_rate(run: Run, figure: str, unit: str) -> float | None:
    """The same rate as the kernel counted it on the disks; None if it is unknown."""
    if figure not in OF_ALL:
        return None
    metric = "iops" if unit == "op/s" else "bandwidth"
    ways = [way for way in ("read", "write") if figure == f"{way}.{metric}"] or ["read", "write"]
    sums = [run.total_rate(f"{way}.{metric}", _stacks.active_disks(run)) for way in ways]
    rates = [each for each in sums if each is not None]
    return sum(rates) if len(rates) == len(ways) else None
