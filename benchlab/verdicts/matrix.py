# SPDX-License-Identifier: Apache-2.0
"""Effects of each factor of a campaign over everything else, and pairs that do not simply multiply.

Topologies that differ in their tuning alone (schedulers of one layout) are one layout and its settings.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from benchlab.analysis.designs import Order, design
from benchlab.analysis.factors import (
    Effect,
    Effects,
    Gap,
    Place,
    complete_submatrix,
    factor_effects,
)
from benchlab.charts import metric_naming
from benchlab.charts.queries import Group
from benchlab.topologies.models import Topology
from benchlab.verdicts.answers import LOWER_IS_BETTER, TAILS
from benchlab.verdicts.builds import lab_of

FACTORS = ("Layout", "Settings", "Host", "Moment", "Scheduler", "Point")
POINT = FACTORS.index("Point")
# The levels of the first four are built, or follow each other, so their effects include drift and luck.
BUILT = 4
# effects shown on a page
MAX_EFFECTS = 8
# runs that a link may list
MOST_LINKED = 500
# levels that a sentence names; it counts the others
MAX_NAMED_LEVELS = 3


@dataclass(frozen=True, slots=True)
class NotableEffect:
    """An effect worth mentioning, and the runs that it is computed from: all that have its levels."""

    effect: Effect
    runs: tuple[int, ...]

    @property
    def query(self) -> str:
        """Query of the table of these runs; "" if they are too many for an address."""
        return f"run__in={','.join(map(str, self.runs))}" if len(self.runs) <= MOST_LINKED else ""


@dataclass(frozen=True, slots=True)
class Factors:
    """Effects of the factors on one metric.

    `omissions`: what was left out, in plain sentences without their full stops.
    """

    metric: str
    effects: tuple[NotableEffect, ...]
    omissions: tuple[str, ...] = ()

    @property
    def metric_title(self) -> str:
        return metric_naming.metric_title(self.metric)


# campaign, topology, repeat
Block = tuple[int, int, int]


@dataclass(slots=True)
class _Cells:
    values: dict[Place, dict[Block, float]] = field(default_factory=dict)
    runs: dict[Place, list[int]] = field(default_factory=dict)


def factors_of(groups: Sequence[Group], metric: str = "", most: int | None = None) -> list[Factors]:
    """Effects in the lines whose layouts were in order, on the requested metric, or else on their rate and p99.

    A point is a workload with what it sweeps. Layouts that differ in their tuning alone count as one layout, and the
    tuning (its schedulers, for example) as a factor of its own, which also needs a new build. Layout and tuning carry
    the difference between builds one after the other (of this lab, if it is known to be larger). So do hosts and
    moments: no block holds two of them, and drift would look like their effect. A scheduler that is set for the runs of
    one build is measured in the same blocks, and carries none of it. `most`: main effects, and as many interactions, of
    each metric.
    """
    lines = [line for line in groups if not line.condition]
    names = _tuning_split(lines)
    cells = {name: _collect_cells(lines, names, name) for name in _chosen_metrics(lines, metric)}
    if not any(_varied(cell.values) > 1 for cell in cells.values()):
        return []
    tau = design(Order.ONE_AFTER_OTHER, lab_of(lines).luck).tau
    over = all(line.over for line in lines)
    factors = (_factors(name, item, tau, most, over) for name, item in cells.items())
    return [item for item in factors if item.effects or item.omissions]


def _chosen_metrics(lines: Sequence[Group], requested: str) -> list[str]:
    if requested or not lines:
        return [requested] if any(requested in line.units for line in lines) else []
    common = [name for name in lines[0].units if _all_have(lines, name)]
    ordered = metric_naming.order_choices(common, lines[0].tool, any(line.swept for line in lines))
    rates = [n for n in ordered if "*" not in n and lines[0].units[n] in LOWER_IS_BETTER]
    rate = "iops" if any("iops" in line.units for line in lines) else next(iter(rates), "")
    having = [line for line in lines if rate in line.units]
    tail = next((name for name in TAILS if having and _all_have(having, name)), "")
    return [name for name in dict.fromkeys((rate, tail)) if name]


def _all_have(lines: Iterable[Group], name: str) -> bool:
    return all(name in line.units for line in lines)


def _collect_cells(lines: Sequence[Group], names: TuningSplit, metric: str) -> _Cells:
    """Values and runs of each cell. A cell with a value of 0 has no logarithm and is left out."""
    cells, none = _Cells(), set()
    for line in lines:
        for sample in line.samples:
            if metric not in sample.values:
                continue
            load = filter(None, [line.workload_name, line.load, _depth_text(sample.outstanding)])
            place = (
                *names.get(line.topology, (line.topology_name, "")),
                line.host_name,
                line.stage_name or "as built",
                line.scheduler or AS_IT_IS,
                " · ".join(load),
            )
            if not sample.values[metric] > 0:
                none.add(place)
            block = (line.campaign, line.topology, sample.repeat)
            cells.values.setdefault(place, {})[block] = sample.values[metric]
            cells.runs.setdefault(place, []).append(sample.run)
    for place in none:
        del cells.values[place]
    return cells


def _tuning_split(groups: Sequence[Group]) -> TuningSplit:
    """Split the tuning from the layouts of these lines. One query if there are several layouts."""
    # the names as the viewer may read them
    names = {line.topology: line.topology_name for line in groups}
    if len(names) < 2:
        return {}
    rows = Topology.objects.filter(pk__in=names).values_list("pk", "stack", "stages")
    return split_tuning({pk: (names[pk], stack, stages) for pk, stack, stages in rows})


def _depth_text(outstanding: int | None) -> str:
    return f"{outstanding} outstanding" if outstanding else ""


def _varied(places: Iterable[Place]) -> int:
    """Number of factors that have two levels or more."""
    return sum(len(set(levels)) > 1 for levels in zip(*places, strict=True))


def _factors(metric: str, cells: _Cells, tau: float, most: int | None, over: bool) -> Factors:
    """Effects within the part of the matrix that has no gaps.

    While the campaign goes on, gaps may still be filled, and there are no effects yet.
    """
    places, gaps = complete_submatrix(cells.values.keys())
    if gaps and not over:
        return Factors(metric, ())
    all_effects = factor_effects(
        FACTORS, {place: cells.values[place] for place in places}, tau, BUILT
    )
    notable = _with_runs(notable_effects(all_effects, most), places, cells.runs)
    return Factors(
        metric,
        notable,
        _describe_omissions(gaps, places, all_effects, metric_naming.metric_title(metric)),
    )


def _with_runs(
    effects: Sequence[Effect], places: Collection[Place], runs: Mapping[Place, Sequence[int]]
) -> tuple[NotableEffect, ...]:
    """Add the runs that have the levels of each effect."""
    by_axes: dict[tuple[int, ...], dict[Place, list[int]]] = {}
    notable = []
    for effect in effects:
        axes = tuple(map(FACTORS.index, effect.levels))
        if axes not in by_axes:
            by_axes[axes] = _runs_by_levels(axes, places, runs)
        notable.append(NotableEffect(effect, tuple(by_axes[axes][tuple(effect.levels.values())])))
    return tuple(notable)


def _runs_by_levels(
    axes: Sequence[int], places: Iterable[Place], runs: Mapping[Place, Sequence[int]]
) -> dict[Place, list[int]]:
    """{levels of these factors: all runs that have them, rising}."""
    found: dict[Place, list[int]] = defaultdict(list)
    for place in places:
        found[tuple(place[axis] for axis in axes)] += runs[place]
    return {levels: sorted(some) for levels, some in found.items()}


def notable_effects(effects: Effects | None, most: int | None = None) -> list[Effect]:
    """Return the effects worth mentioning: main effects, then interactions, the largest first, at most `most` of each.

    The effect of the point alone comes from the workload and is no finding.
    """
    if effects is None:
        return []
    main = [
        effect for effect in effects.main if effect.significant and set(effect.levels) != {"Point"}
    ]
    pairs = [effect for effect in effects.interactions if effect.significant]
    return [
        item
        for some in (main, pairs)
        for item in sorted(some, key=_effect_size, reverse=True)[:most]
    ]


def _effect_size(effect: Effect) -> float:
    return max(effect.ratio, 1 / effect.ratio)


def _describe_omissions(
    gaps: Sequence[Gap], places: Iterable[Place], effects: Effects | None, word: str
) -> tuple[str, ...]:
    """Say of each factor that lost its levels why its effect is unknown; of all other gaps, what was left out."""
    if gaps and effects is None:
        return (f"The effects of all factors on {word} are unknown: {_explain_gap(gaps[0], word)}",)
    levels = [set(some) for some in zip(*places, strict=True)]
    lost = [gap.factor for gap in gaps if len(levels[gap.factor]) == 1]
    sentences = [
        f"The effect of the {FACTORS[gap.factor].lower()} on {word} is unknown: {_explain_gap(gap, word)}"
        if gap.factor in lost
        else f"Effects on {word} leave {_level_text(gap.factor, [gap.level])} out: {_explain_gap(gap, word)}"
        for gap in gaps
    ]
    return tuple(sentences)


def _explain_gap(gap: Gap, word: str) -> str:
    """ "layout B has no IOPS with scheduler none", with the earlier factor first."""
    whole = next(iter(gap.lacks.items()), None)
    if whole is None:
        rest = [
            _level_text(axis, [level]) for axis, level in enumerate(gap.cell) if axis != gap.factor
        ]
        such = f"{_level_text(gap.factor, [gap.level])} has no {word} in {gap.missing} of {gap.total} cells"
        return f"{such}, such as with {', '.join(filter(None, rest))}"
    sides = sorted([(gap.factor, [gap.level]), (whole[0], list(whole[1]))])
    first, second = (_level_text(axis, some) for axis, some in sides)
    return f"{first} {'have' if len(sides[0][1]) > 1 else 'has'} no {word} with {second}"


def _level_text(axis: int, levels: Sequence[str]) -> str:
    """ "layouts A and B"; "" for a level without a name."""
    some = [
        *levels[:MAX_NAMED_LEVELS],
        *([f"{len(levels) - MAX_NAMED_LEVELS} more"] if len(levels) > MAX_NAMED_LEVELS else []),
    ]
    text = " and ".join(filter(None, [", ".join(some[:-1]), some[-1]]))
    return f"{FACTORS[axis].lower()}{'s' * (len(some) > 1)} {text}" if text else ""


# the kind of layer that sets options and builds nothing
TUNING = "tuning"
# option values that leave a setting unchanged
UNSET: tuple[Any, ...] = (None, "", -1, [], ())
AS_IT_IS = "as the host has them"

Layers = Sequence[Mapping[str, Any]]
# topology -> (layout, settings)
TuningSplit = Mapping[int, tuple[str, str]]


def split_tuning(stacks: Mapping[int, tuple[str, Layers, Layers]]) -> TuningSplit:
    """Split {topology: (name, stack, stages)} into layouts and their tuning.

    Empty if no two layouts differ in their tuning alone, or if two do not differ at all.
    """
    layouts: dict[str, dict[str, int]] = defaultdict(dict)
    for pk, (_, stack, stages) in stacks.items():
        below = [layer for layer in stack if layer["kind"] != TUNING]
        settings = _settings_text(stack)
        same = layouts[json.dumps([below, stages], sort_keys=True)]
        if settings in same:
            return {}
        same[settings] = pk
    if not any(len(layout) > 1 for layout in layouts.values()):
        return {}
    names = [
        _layout_name({stacks[pk][0]: s for s, pk in layout.items()}) for layout in layouts.values()
    ]
    if len(set(names)) < len(names):
        return {}
    return {
        pk: (name, settings)
        for name, pks_by_setting in zip(names, layouts.values(), strict=True)
        for settings, pk in pks_by_setting.items()
    }


def _settings_text(stack: Layers) -> str:
    """ "scheduler none, nr requests 64"."""
    set_ = [
        f"{name.replace('_', ' ')} {_value_text(value)}"
        for layer in stack
        if layer["kind"] == TUNING
        for name, value in sorted(layer.get("options", {}).items())
        if value not in UNSET
    ]
    return ", ".join(set_) or AS_IT_IS


def _value_text(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _layout_name(settings: Mapping[str, str]) -> str:
    """Name of the topology without tuning; else the common beginning of all names, or all of them.

    `settings`: by the topology's name.
    """
    plain = [name for name, setting in settings.items() if setting == AS_IT_IS]
    words = takewhile(
        lambda same: len(set(same)) == 1, zip(*map(str.split, settings), strict=False)
    )
    begin = " ".join(first for first, *_ in words).rstrip(",;:·-–(/ ")
    return next(iter(plain), begin or " / ".join(settings))
