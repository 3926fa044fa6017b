"""Set-ups in order, best first: those that cannot be told from the best of their place share it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchlab.analysis.designs import Design
from benchlab.analysis.verdicts import Comparison, Says, Sweep, compare_sweeps


@dataclass(frozen=True, slots=True)
class Ranked:
    """`place`: from 1. `against`: the comparison with the baseline, None for the baseline itself."""

    name: int
    place: int
    against: Comparison | None


def ranked(
    sweeps: Sequence[Sweep],
    baseline: int,
    designs: Mapping[tuple[int, int], Design],
    *,
    lower_is_better: bool = False,
) -> list[Ranked]:
    """By the ratio to the baseline over the curve; `designs` by (smaller, larger) index. Indexes are the names.

    A set-up that shares no depth with the baseline is left out.
    """

    def compared(first: int, second: int) -> Comparison:
        design = designs[min(first, second), max(first, second)]
        return compare_sweeps(
            sweeps[first], sweeps[second], design, lower_is_better=lower_is_better
        )

    against = {i: compared(baseline, i) for i in range(len(sweeps)) if i != baseline}
    ratios = {i: one.curve.ratio for i, one in against.items() if one.curve} | {baseline: 1.0}
    order = sorted(ratios, key=lambda i: ratios[i], reverse=not lower_is_better)
    found: list[Ranked] = []
    leader, place = order[0], 1
    for number, name in enumerate(order, 1):
        behind = compared(leader, name).curve if name != leader else None
        if behind is not None and behind.says == Says.SLOWER:
            leader, place = name, number
        found.append(Ranked(name, place, against.get(name)))
    return found
