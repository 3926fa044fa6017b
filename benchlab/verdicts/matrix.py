"""What each factor of a campaign does over everything else, and where two of them do not simply multiply."""

from __future__ import annotations

from collections.abc import Sequence

from benchlab.analysis.designs import TAU, Order
from benchlab.analysis.factors import Effect, Effects, effects
from benchlab.charts.queries import Group
from benchlab.topologies.models import Topology
from benchlab.verdicts.settings_apart import AS_IT_IS, Apart, apart

FACTORS = ("Layout", "Settings", "Host", "Moment", "Scheduler", "Point")
BUILT = 4  # of them, the first: their levels are built, or follow each other, so drift and luck are in what they do
SHOWN = 8  # on a page


def effects_of(found: Sequence[Group], metric: str = "iops") -> Effects | None:
    """Of lines in order; None where not every cell of the matrix was measured.

    A point is a workload with what it sweeps. Where layouts differ in their tuning alone, that is a factor of its own
    (schedulers of one layout), which is built anew, too. Both carry what builds one after the other differ by, and
    so do hosts and moments: no block holds two of them, and drift would pose as what they do. A
    scheduler that runs of one build ask for is measured in the same blocks, and carries none of that.
    """
    names = _apart(found)
    cells: dict[tuple[str, ...], list[float]] = {}
    for line in found:
        if line.condition:
            continue
        for sample in line.samples:
            if metric in sample.values:
                point = " · ".join(
                    filter(None, [line.workload_name, line.load, _depth(sample.outstanding)])
                )
                place = (
                    *names.get(line.topology, (line.topology_name, "")),
                    line.host_name,
                    line.stage_name or "as built",
                    line.scheduler or AS_IT_IS,
                    point,
                )
                cells.setdefault(place, []).append(sample.values[metric])
    return effects(FACTORS, cells, TAU[Order.ONE_AFTER_OTHER], BUILT)


def _apart(found: Sequence[Group]) -> Apart:
    """One query, where there are several layouts."""
    names = {line.topology: line.topology_name for line in found}  # as who sees them may read them
    if len(names) < 2:
        return {}
    rows = Topology.objects.filter(pk__in=names).values_list("pk", "stack", "stages")
    return apart({pk: (names[pk], stack, stages) for pk, stack, stages in rows})


def _depth(outstanding: int | None) -> str:
    return f"{outstanding} outstanding" if outstanding else ""


def named(found: Effects | None, most: int | None = None) -> list[Effect]:
    """Those worth a word: main effects, then interactions, the largest first, at most so many of each.

    What a point alone does is the workload's doing and no finding.
    """
    if found is None:
        return []
    main = [one for one in found.main if one.named and set(one.levels) != {"Point"}]
    pairs = [one for one in found.interactions if one.named]
    return [one for some in (main, pairs) for one in sorted(some, key=_size, reverse=True)[:most]]


def _size(one: Effect) -> float:
    return max(one.ratio, 1 / one.ratio)
