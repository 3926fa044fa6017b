# SPDX-License-Identifier: Apache-2.0
"""An answer per workload: each of its set-ups against a baseline, best first.

Lines are compared if they differ in one thing only: in the layout, else in the moment, else in the campaign or the
host. Lines whose layout was not in order are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from django.core.exceptions import BadRequest

from benchlab.analysis.curves import curve
from benchlab.analysis.designs import Design
from benchlab.analysis.rankings import (
    Decision,
    Decisions,
    Ranked,
    compare_with,
    compared_pairs,
    decide_all,
    largest_p,
    rank_set_ups,
)
from benchlab.analysis.verdicts import Comparison, Sweep, compare_sweeps
from benchlab.campaigns.models import Campaign
from benchlab.charts import cards, metric_naming, request_params
from benchlab.charts.line_analysis import group_by_work
from benchlab.charts.palette import Style
from benchlab.charts.queries import Group, Identity, Person, line_labels, line_styles, read_groups
from benchlab.runs import progress
from benchlab.verdicts import baselines, builds
from benchlab.verdicts.steadiness import UNDECIDED, comparable_values, compare_lines, decision_of

# unit -> whether lower is better
LOWER_IS_BETTER = {"op/s": False, "B/s": False, "s": True}
TAILS = ("lat.p99", "clat.p99")
# With more lines those that are not steady are compared with the baseline only: a pair takes some ms.
MOST_UNSTEADY = 20
# Attributes that the lines of one answer share; the first choice with two lines in one answer counts.
ALIKE = (
    ("campaign", "host", "stage", "rest"),
    # schedulers of one build
    ("campaign", "host", "topology", "stage", "load"),
    ("campaign", "host", "rest"),
    ("host", "stage", "rest"),
    ("campaign", "stage", "rest"),
    ("stage", "rest"),
    (),
)


@dataclass(frozen=True, slots=True)
class Row:
    """A set-up in its place, drawn as its chart draws it. `place` to `worst_place`: where it may stand, from 1.

    `against`: comparison with the baseline, None for the baseline itself. `tail`: the same for p99, None if it is
    unknown. `key`: names the set-up as a baseline.
    """

    group: Group
    label: str
    style: Style
    place: int
    against: Comparison | None
    tail: Comparison | None = None
    key: str = ""
    worst_place: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer for one workload under equal conditions.

    `rows`: best first. `choices`: (key, name) of baselines, as built. `pending`: (runs that ended, all runs) of its
    campaigns that are not over; None once all are, so that what it says is final.
    """

    # key of its chart on the page
    key: str
    title: str
    # what distinguishes it from other answers of the same workload
    scope: str
    metric: str
    unit: str
    baseline: Row
    rows: tuple[Row, ...]
    choices: tuple[tuple[str, str], ...]
    # attributes that its lines share, one of ALIKE
    alike: tuple[str, ...] = ()
    pending: tuple[int, int] | None = None
    # `scope` without the host
    conditions: str = ""

    @property
    def lower_is_better(self) -> bool:
        return LOWER_IS_BETTER[self.unit]

    @property
    def metric_word(self) -> str:
        return metric_naming.metric_word(self.metric)

    @property
    def is_over(self) -> bool:
        return self.pending is None

    @property
    def pending_text(self) -> str:
        """ "19 of 32 runs; provisional"; "" for a final answer."""
        if self.pending is None:
            return ""
        ended, runs = self.pending
        return f"{ended} of {runs} runs; provisional"

    @property
    def needed_repeats(self) -> int | None:
        """Total number of repeats that would decide what is open; None if nothing is, or no reasonable number would."""
        open_ = [row.against.curve for row in self.others if row.against and row.against.curve]
        return max(
            (verdict.more_repeats for verdict in open_ if verdict.more_repeats), default=None
        )

    @property
    def open_runs(self) -> list[int]:
        """Every run of the baseline and of the set-ups that more repeats would decide; none without such set-ups."""
        open_ = [
            row
            for row in self.others
            if row.against and row.against.curve and row.against.curve.more_repeats
        ]
        rows = [self.baseline, *open_] if open_ else []
        return [sample.run for row in rows for sample in row.group.samples]

    @property
    def decided(self) -> bool:
        """True when there is a verdict on any of the others."""
        curves = [row.against.curve for row in self.others if row.against]
        return any(curve.decided for curve in curves if curve)

    @property
    def others(self) -> list[Row]:
        return [row for row in self.rows if row.against is not None]


def lines_of(user: Person, line_filter: request_params.Filter) -> list[Group]:
    """Lines of these campaigns that `user` may see. Two queries."""
    return line_filter.select(read_groups(user, line_filter.campaigns))


def answers_of(groups: Sequence[Group], metric: str = "", baseline: str = "") -> list[Answer]:
    """Answer each workload of these lines. One query, two whose results are cached for a while, and three where a
    campaign is not over.

    `baseline`: a key of benchlab.verdicts.baselines. Raises BadRequest for a metric of which it is unknown whether more
    is better.
    """
    styles = _styles(groups)
    parts = [
        (lines, some, name, alike)
        for lines in group_by_work([item for item in groups if not item.condition])
        for alike, several in [_comparable_sets(lines)]
        for part in several
        for some, name in [_lines_with_metric(part, metric)]
        if len(some) > 1
    ]
    compared = [line for _, some, _, _ in parts for line in some]
    if not compared:
        return []
    known_builds = builds.read_builds(compared)
    lab = builds.lab_of(compared)
    matched = [_match_lines(some, name, baseline, known_builds, lab) for _, some, name, _ in parts]
    # All comparisons of a page are one family.
    most_p = largest_p(item.decisions for item in matched)
    pending = _pending_runs(compared)
    answers = [
        replace(
            _build_answer(lines, item, most_p, styles),
            alike=alike,
            pending=_sum_pending(some, pending),
        )
        for (lines, some, _, alike), item in zip(parts, matched, strict=True)
    ]
    return [item for item in answers if item.others]


def _pending_runs(lines: Iterable[Group]) -> dict[int, tuple[int, int]]:
    """{campaign: (runs that ended, all of its runs)} of the campaigns that are not over."""
    unfinished = {line.campaign for line in lines if not line.over}
    if not unfinished:
        return {}
    rows = progress.progress_by_campaign(Campaign.objects.filter(pk__in=unfinished))
    return {pk: (row.ended, row.runs) for pk, row in rows.items()}


def _sum_pending(
    lines: Iterable[Group], pending: Mapping[int, tuple[int, int]]
) -> tuple[int, int] | None:
    """(runs that ended, all runs) of the campaigns of these lines that are not over; None if all are."""
    rows = [pending[pk] for pk in {line.campaign for line in lines} if pk in pending]
    return (sum(ended for ended, _ in rows), sum(runs for _, runs in rows)) if rows else None


Styles = Mapping[tuple[int, Identity], Style]


def _styles(groups: Sequence[Group]) -> Styles:
    """Chart styles by campaign and identity, the same as in the charts of these lines."""
    return {
        (line.campaign, line.identity): style
        for lines in group_by_work(groups)
        for line, style in zip(lines, line_styles(lines), strict=True)
    }


def _comparable_sets(lines: Sequence[Group]) -> tuple[tuple[str, ...], list[list[Group]]]:
    """(attributes that the lines of a set share, sets of at least two lines that differ in one thing)."""
    for names in ALIKE:
        parts: dict[tuple[object, ...], list[Group]] = {}
        for line in lines:
            parts.setdefault(tuple(getattr(line, name) for name in names), []).append(line)
        several = [part for part in parts.values() if len(part) > 1]
        if several:
            return names, several
    return (), []


def _lines_with_metric(lines: list[Group], metric: str) -> tuple[list[Group], str]:
    """(lines that have the metric, the metric): the requested one, else the first of the tool that all lines have."""
    if metric:
        some = [line for line in lines if metric in line.units]
        if some and some[0].units[metric] not in LOWER_IS_BETTER:
            raise BadRequest(f"metric: nobody can say whether more of {metric!r} is better")
        return some, metric
    units = lines[0].units
    common = [name for name in units if all(name in line.units for line in lines)]
    choices = metric_naming.order_choices(common, lines[0].tool, any(line.swept for line in lines))
    comparable = [name for name in choices if "*" not in name and units[name] in LOWER_IS_BETTER]
    return (lines, comparable[0]) if comparable else ([], "")


def sweep_of(line: Group, name: str) -> Sweep:
    """{outstanding I/Os, 0 without a sweep: {repeat: value}}."""
    sweep: dict[int, dict[int, float]] = {}
    for sample in line.samples:
        if name in sample.values:
            sweep.setdefault(sample.outstanding or 0, {})[sample.repeat] = sample.values[name]
    return sweep


def medians_of(line: Group, name: str) -> dict[int, float]:
    """{outstanding I/Os, 0 without a sweep: median over the repeats}, depths rising."""
    spreads = curve((s.outstanding or 0, s.values[name]) for s in line.samples if name in s.values)
    return {depth: spread.median for depth, spread in spreads.items() if isfinite(spread.median)}


@dataclass(frozen=True, slots=True)
class _Matched:
    """Lines that are compared with each other, in the order in which they were built. `at`: index of the baseline."""

    lines: list[Group]
    metric: str
    at: int
    keys: list[str]
    designs: Mapping[tuple[int, int], Design]
    decisions: Decisions
    against: Mapping[int, Comparison]

    @property
    def unit(self) -> str:
        return self.lines[0].units[self.metric]


def _match_lines(
    lines: list[Group],
    metric: str,
    baseline: str,
    known_builds: builds.Builds,
    lab: builds.Lab,
) -> _Matched:
    lines = sorted(
        lines, key=lambda line: (line.campaign, builds.builds_of_line(line, known_builds))
    )
    at, keys = baselines.baseline_index(lines, baseline), baselines.line_keys(lines)
    pairs = compared_pairs(len(lines), at)
    designs = builds.designs_of(lines, known_builds, lab, pairs)
    lower = LOWER_IS_BETTER[lines[0].units[metric]]
    sweeps = [sweep_of(line, metric) for line in lines]
    decisions = decide_all(sweeps, at, designs, lower_is_better=lower)
    against = compare_with(at, sweeps, designs, lower_is_better=lower)
    matched = _Matched(lines, metric, at, keys, designs, decisions, against)
    return _without_unlike(matched, lower_is_better=lower)


def _without_unlike(matched: _Matched, *, lower_is_better: bool) -> _Matched:
    """Compare lines that were not steady anew, by what may be compared of them."""
    lines, designs = matched.lines, matched.designs
    drifting = {index for index, line in enumerate(lines) if line.has_drifting}
    names = line_labels(lines)

    def compare(a: int, b: int) -> Comparison:
        design = designs[a, b] if a < b else designs[b, a].reversed()
        return compare_lines(
            (lines[a], lines[b]),
            (names[a], names[b]),
            matched.metric,
            design,
            lower_is_better=lower_is_better,
        )

    def decide(pair: tuple[int, int]) -> Decision:
        if len(lines) > MOST_UNSTEADY and matched.at not in pair:
            return UNDECIDED
        return decision_of(compare(*pair))

    unlike = [pair for pair in matched.decisions if drifting & {*pair}]
    others = [name for name in matched.against if drifting & {matched.at, name}]
    return replace(
        matched,
        decisions={**matched.decisions, **{pair: decide(pair) for pair in unlike}},
        against={**matched.against, **{name: compare(matched.at, name) for name in others}},
    )


def _build_answer(
    card: Sequence[Group], matched: _Matched, most_p: float, styles: Styles
) -> Answer:
    lines, at, keys = matched.lines, matched.at, matched.keys
    names, unit = line_labels(lines), matched.unit
    order = rank_set_ups(
        matched.decisions, matched.against, at, most_p, lower_is_better=LOWER_IS_BETTER[unit]
    )
    rows = tuple(
        Row(
            line := lines[rank.name],
            names[rank.name],
            styles[line.campaign, line.identity],
            rank.place,
            rank.against,
            _tail_comparison(lines, at, rank, matched.designs),
            keys[rank.name],
            rank.worst_place,
        )
        for rank in order
    )
    # The first of two lines with one key counts.
    choices = dict(zip(reversed(keys), reversed(names), strict=True))
    return Answer(
        cards.card_dom_id(card[0].workload, any(line.swept for line in card)),
        " · ".join(dict.fromkeys(line.workload_name for line in lines)),
        _scope_text(lines, card),
        matched.metric,
        unit,
        next(row for row in rows if row.against is None),
        rows,
        tuple((key, choices[key]) for key in dict.fromkeys(keys)) if len(choices) > 1 else (),
        conditions=_scope_text(lines, card, with_host=False),
    )


@dataclass(frozen=True, slots=True)
class ToolTest:
    """One rate of a tool that measures many in a run, compared for each of an answer's others, in their order."""

    metric: str
    comparisons: tuple[Comparison | None, ...]

    @property
    def metric_word(self) -> str:
        return metric_naming.metric_word(self.metric)


def compare_tests(answer: Answer) -> list[ToolTest]:
    """Compare every rate of a tool that has families of them, that of the answer first; none for other tools."""
    base = answer.baseline.group
    if base.tool not in metric_naming.FAMILIES or base.swept:
        return []
    rates = [name for name, unit in base.units.items() if LOWER_IS_BETTER.get(unit) is False]
    rates.sort(key=lambda name: name != answer.metric)
    tests = [
        ToolTest(name, tuple(_compare_metric(answer, row, name) for row in answer.others))
        for name in rates
    ]
    return [test for test in tests if any(test.comparisons)]


def _compare_metric(answer: Answer, row: Row, metric: str) -> Comparison | None:
    """Compare a set-up with the baseline by a rate, as the answer does by its own; None if either lacks it."""
    if row.against is None or metric not in row.group.units:
        return None
    if metric == answer.metric:
        return row.against
    base = answer.baseline
    lines, names = (base.group, row.group), (base.label, row.label)
    comparison = compare_lines(lines, names, metric, row.against.design)
    return comparison if comparison.curve else None


def _scope_text(lines: Sequence[Group], card: Sequence[Group], *, with_host: bool = True) -> str:
    """Describe what the lines of this answer have in common and others of the card do not."""
    alike = [part for part in ("rest", "load") if len({getattr(line, part) for line in lines}) == 1]
    parts = ("stage_name", *["host_name"] * with_host, *alike[:1])
    differing = [part for part in parts if len({getattr(line, part) for line in card}) > 1]
    return " · ".join(filter(None, (str(getattr(lines[0], part)) for part in differing)))


def _tail_comparison(
    lines: Sequence[Group], at: int, rank: Ranked, designs: Mapping[tuple[int, int], Design]
) -> Comparison | None:
    """Compare the p99 of the latency, if both lines have it of the same kind; None for the baseline itself."""
    first, second = lines[at], lines[rank.name]
    name = next((n for n in TAILS if n in first.units and n in second.units), "")
    if not name or rank.name == at:
        return None
    design = designs[min(at, rank.name), max(at, rank.name)]
    design = design if at < rank.name else design.reversed()
    values = comparable_values((first, second), ("", ""), name)
    return compare_sweeps(values.first, values.second, design, lower_is_better=True)
