# SPDX-License-Identifier: Apache-2.0
"""Values of two lines that may be compared, by how steady their runs were. Pure.

The mean of a run that steps, falls or rises is of no state that lasts. At a depth where most runs of one set-up do so,
it is compared only with another of that kind, by the last third of each run, if that came to rest. Stalls and levels
are what a user gets: their means are compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from benchlab.analysis.designs import Design
from benchlab.analysis.formats import join_names
from benchlab.analysis.rankings import Decision
from benchlab.analysis.steady import DRIFTING
from benchlab.analysis.verdicts import Comparison, Conclusion, Sweep, Verdict, compare_sweeps
from benchlab.charts.queries import Group, Sample

NOT_COMPARABLE = "not comparable"
UNDECIDED = Decision(0, 1.0)
SIGNS = {Conclusion.FASTER: 1, Conclusion.SLOWER: -1}
LATENCY = "s"


@dataclass(frozen=True, slots=True)
class Comparable:
    """Values of two lines that may be compared. `first`, `second`: by depth, then by repeat.

    `unsteady`: names of the lines that were not steady, by depth that is left out. `last_thirds`: depths at which the
    values are those of the last third.
    """

    first: Sweep = field(default_factory=dict)
    second: Sweep = field(default_factory=dict)
    unsteady: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    last_thirds: tuple[int, ...] = ()

    @property
    def reason(self) -> str:
        """Reason why nothing is compared: "not comparable: A is not steady"."""
        names = tuple(dict.fromkeys(name for some in self.unsteady.values() for name in some))
        return _reason(names)


def comparable_values(lines: Sequence[Group], names: Sequence[str], metric: str) -> Comparable:
    """Values of two lines at the depths where both were steady, or both came to rest after a change."""
    unit = next((line.units[metric] for line in lines if metric in line.units), "")
    cells = [_cells(line, metric) for line in lines]
    sweeps: tuple[dict[int, Mapping[int, float]], dict[int, Mapping[int, float]]] = ({}, {})
    unsteady, last_thirds = {}, []
    for depth in sorted(set().union(*cells)):
        samples = [cell.get(depth, []) for cell in cells]
        drifts = [_mostly_drifts(some, unit) for some in samples]
        values = [_means(some, metric) for some in samples]
        if any(drifts) and all(samples):
            rested = [_last_thirds(some, metric, unit) for some in samples]
            if not all(drifts) or not all(rested):
                unsteady[depth] = tuple(
                    name for name, does in zip(names, drifts, strict=True) if does
                )
                continue
            values = rested
            last_thirds.append(depth)
        for sweep, cell in zip(sweeps, values, strict=True):
            if cell:
                sweep[depth] = cell
    return Comparable(*sweeps, unsteady, tuple(last_thirds))


def _cells(line: Group, metric: str) -> dict[int, list[Sample]]:
    """Samples that have the metric, by depth, 0 without a sweep."""
    cells: dict[int, list[Sample]] = defaultdict(list)
    for sample in line.samples:
        if metric in sample.values:
            cells[sample.outstanding or 0].append(sample)
    return cells


def _mostly_drifts(samples: Sequence[Sample], unit: str) -> bool:
    """True when more than half of the runs stepped, fell or rose: one run in a hundred only seems to."""
    return 2 * sum(_drifts(sample, unit) for sample in samples) > len(samples)


def _drifts(sample: Sample, unit: str) -> bool:
    # A latency that changed under a steady rate leaves the rate's mean as it is.
    is_about = sample.course.unit != LATENCY or unit == LATENCY
    return sample.course.state in DRIFTING and is_about


def _means(samples: Sequence[Sample], metric: str) -> dict[int, float]:
    return {sample.repeat: sample.values[metric] for sample in samples}


def _last_thirds(samples: Sequence[Sample], metric: str, unit: str) -> dict[int, float]:
    """{repeat: rate over the last third}; empty for a latency, or if a run had not come to rest by then."""
    values = {}
    for sample in samples:
        share = sample.course.comparable_share if _drifts(sample, unit) else 1.0
        if share is None or unit == LATENCY:
            return {}
        values[sample.repeat] = sample.values[metric] * share
    return values


def compare_lines(
    lines: Sequence[Group],
    names: Sequence[str],
    metric: str,
    design: Design,
    *,
    lower_is_better: bool = False,
) -> Comparison:
    """Compare the second line with the first by what may be compared of them, and say what may not."""
    values = comparable_values(lines, names, metric)
    comparison = compare_sweeps(
        values.first, values.second, design, lower_is_better=lower_is_better
    )
    if comparison.curve is None and values.unsteady:
        first, second = (
            {depth: _means(samples, metric) for depth, samples in _cells(line, metric).items()}
            for line in lines
        )
        whole = compare_sweeps(first, second, design, lower_is_better=lower_is_better)
        return _withhold(whole, values.reason)
    if comparison.curve is None:
        return comparison
    remarks = [
        f"{_at_depths(depths)} {_reason(who)}".lstrip() for who, depths in _by_names(values).items()
    ]
    if values.last_thirds:
        remarks.append(
            f"the last third of each run is compared {_at_depths(values.last_thirds)}".rstrip()
        )
    if not remarks:
        return comparison
    reason = "; ".join([comparison.curve.reason, *remarks])
    curve = replace(comparison.curve, reason=reason)
    points = (
        comparison.points if len(comparison.points) > 1 else dict.fromkeys(comparison.points, curve)
    )
    return replace(comparison, points=points, curve=curve)


def decision_of(comparison: Comparison) -> Decision:
    """Decision over the curve, as benchlab.analysis.rankings counts it."""
    curve = comparison.curve
    sign = SIGNS.get(curve.conclusion, 0) if curve else 0
    return Decision(sign, curve.p) if curve and sign else UNDECIDED


def _by_names(values: Comparable) -> dict[tuple[str, ...], list[int]]:
    depths: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for depth, names in values.unsteady.items():
        depths[names].append(depth)
    return depths


def _at_depths(depths: Sequence[int]) -> str:
    """ "at 1 and 2 outstanding"; "" without a sweep."""
    names = join_names(tuple(map(str, depths)), most=len(depths))
    return f"at {names} outstanding" if any(depths) else ""


def _reason(names: Sequence[str]) -> str:
    verb = "is" if len(names) == 1 else "are"
    return f"{NOT_COMPARABLE}: {' and '.join(names)} {verb} not steady"


def _withhold(comparison: Comparison, reason: str) -> Comparison:
    """The comparison without its conclusions."""

    def undecided(verdict: Verdict) -> Verdict:
        return replace(
            verdict,
            conclusion=Conclusion.UNKNOWN,
            reason=reason,
            low=None,
            high=None,
            more_repeats=None,
            bound=None,
            p=1.0,
            stalled=None,
            typical=None,
        )

    points = {depth: undecided(point) for depth, point in comparison.points.items()}
    curve = undecided(comparison.curve) if comparison.curve else None
    return replace(comparison, points=points, curve=curve, crossings=())
