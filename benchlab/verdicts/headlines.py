# SPDX-License-Identifier: Apache-2.0
"""The headline of each comparison of sweeps: one ratio under one condition, and the two others beside it.

A geometric mean over all depths answers no question, so a sweep is compared at saturation, at equal load and at equal
latency (benchlab.analysis.headline). The reader's own condition is the headline; without one it is saturation, if both
set-ups reach it, else the deepest load that both were measured at.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from django.core.exceptions import BadRequest
from django.http import QueryDict

from benchlab.analysis.formats import join_names, ratio_number, ratio_range, times_text
from benchlab.analysis.headline import (
    Condition,
    Missing,
    Statement,
    Terms,
    compare_at_loads,
    compare_under,
)
from benchlab.analysis.verdicts import freeze_sweep
from benchlab.charts import line_analysis, request_params
from benchlab.topologies.models import Topology, required_disks
from benchlab.verdicts.answers import TAILS, Answer, Row
from benchlab.verdicts.sentences import metric_noun
from benchlab.verdicts.steadiness import comparable_values
from benchlab.web.units import si

STATISTICS = ("mean", "p99")
PARAMS = ("depth", "max_latency", "latency_of")
DURATION = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(s|ms|us|µs|)\s*")
SECONDS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}


@dataclass(frozen=True, slots=True)
class RequestedTerms:
    """Terms that a reader asked for; None for those that nobody did. `statistic`: one of STATISTICS."""

    depth: int | None = None
    seconds: float | None = None
    statistic: str = STATISTICS[0]

    @property
    def condition(self) -> Condition | None:
        """The condition of the headline; None if the answer chooses it."""
        if self.seconds is not None:
            return Condition.LATENCY
        return None if self.depth is None else Condition.LOAD

    @property
    def latency_text(self) -> str:
        return "" if self.seconds is None else si(self.seconds, "s")


DEFAULT = RequestedTerms()


def requested_terms(query: QueryDict) -> RequestedTerms:
    """?depth=16, ?max_latency=5ms and ?latency_of=p99. Raises BadRequest."""
    statistic = query.get("latency_of") or STATISTICS[0]
    if statistic not in STATISTICS:
        raise BadRequest(f"latency_of: {statistic[:100]!r} is none of {', '.join(STATISTICS)}")
    depth = request_params.id_parameter(query, "depth")
    if depth == 0:
        raise BadRequest("depth: 0 outstanding I/Os do nothing")
    return RequestedTerms(depth, _seconds(query.get("max_latency", "")), statistic)


def _seconds(text: str) -> float | None:
    if not text.strip():
        return None
    match = DURATION.fullmatch(text)
    seconds = float(match[1]) * SECONDS[match[2]] if match else 0.0
    if not 0 < seconds < math.inf:
        raise BadRequest(f"max_latency: {text[:100]!r} is no time such as 5 ms")
    return seconds


CONDITION_NAMES = {
    Condition.SATURATION: "At saturation",
    Condition.LOAD: "At equal load",
    Condition.LATENCY: "At equal latency",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """Cell of a table: "4.0×", "3.9 to 4.1", and the terms or the reason why there is no ratio."""

    ratio: str
    interval: str
    note: str


@dataclass(frozen=True, slots=True)
class Headline:
    """Statements on one set-up against the baseline; `chosen` is the headline among them.

    `disks`: how many the baseline and the set-up have, None unless they have unlike numbers of the same roles.
    """

    row: Row
    baseline: Row
    noun: str
    lower_is_better: bool
    statistic: str
    depths: tuple[int, ...]
    statements: tuple[Statement, ...]
    chosen: Statement
    disks: tuple[int, int] | None = None

    @property
    def winner_first(self) -> Statement:
        """The chosen statement with the larger rate as its subject."""
        return _reverse(self.chosen) if self._is_reversed(self.chosen) else self.chosen

    @property
    def is_certain(self) -> bool:
        """True if the headline has an interval."""
        return self.chosen.low is not None

    @property
    def label(self) -> str:
        return self._names(self.chosen)[0]

    @property
    def against(self) -> str:
        return self._names(self.chosen)[1]

    @property
    def condition_text(self) -> str:
        return condition_text(self.chosen, self.statistic)

    @property
    def text(self) -> str:
        """ "At saturation 4 disks does 4.0 times the IOPS of 1 disk (3.9 to 4.1)", without a full stop."""
        return self.sentence(self.chosen)

    def sentence(self, statement: Statement) -> str:
        """Return one statement as a sentence without its full stop."""
        condition = condition_text(statement, self.statistic)
        condition = condition[0].upper() + condition[1:]
        if statement.ratio is None:
            return f"{condition}: {self._missing_text(statement)}"
        label, against = self._names(statement)
        turned = _reverse(statement) if self._is_reversed(statement) else statement
        assert turned.ratio is not None
        if self.lower_is_better:
            clause = f"the {self.noun} of {label} is {times_text(turned.ratio)} that of {against}"
        else:
            clause = f"{label} does {times_text(turned.ratio)} the {self.noun} of {against}"
        return f"{condition} {clause} ({interval_text(turned) or 'no interval: one repeat'})"

    @property
    def condition_names(self) -> list[str]:
        return [CONDITION_NAMES[statement.condition] for statement in self.statements]

    @property
    def cells(self) -> list[Cell]:
        """One cell for each statement, against the baseline."""
        return [self._cell(statement) for statement in self.statements]

    def _cell(self, statement: Statement) -> Cell:
        note = condition_text(statement, self.statistic)
        if statement.ratio is None:
            note = f"{note}: {self._missing_text(statement)}"
            return Cell("", "", note)
        saturated = statement.condition == Condition.SATURATION
        ratio = f"{ratio_number(statement.ratio)}×"
        return Cell(ratio, interval_text(statement), "" if saturated else note)

    @property
    def efficiency(self) -> float | None:
        """The ratio at saturation per disk; None if it is unknown or the numbers of disks are alike."""
        saturated = next((s for s in self.statements if s.condition == Condition.SATURATION), None)
        if self.disks is None or saturated is None or saturated.ratio is None:
            return None
        return saturated.ratio * self.disks[0] / self.disks[1]

    @property
    def efficiency_text(self) -> str:
        """ "4 disks: 4.0 times one disk, 101 % efficiency"; "" if that is unknown."""
        if self.disks is None or self.efficiency is None:
            return ""
        ratio = self.efficiency * self.disks[1] / self.disks[0]
        ours, base = (_disks_text(count) for count in reversed(self.disks))
        where = "" if self.chosen.condition == Condition.SATURATION else "At saturation "
        return f"{where}{ours}: {times_text(ratio)} {base}, {self.efficiency_percent} efficiency"

    @property
    def disks_text(self) -> str:
        """ "4 disks against one disk"; "" if the numbers are alike or unknown."""
        return " against ".join(_disks_text(count) for count in reversed(self.disks or ()))

    @property
    def efficiency_percent(self) -> str:
        return "" if self.efficiency is None else f"{100 * self.efficiency:.0f} %"

    def _is_reversed(self, statement: Statement) -> bool:
        """True if the baseline is ahead, and so the subject; near 1 the ratio is of the set-up."""
        bound = statement.ratio if statement.high is None else statement.high
        return not self.lower_is_better and bound is not None and bound < 1

    def _names(self, statement: Statement) -> tuple[str, str]:
        names = self.row.label, self.baseline.label
        return (names[1], names[0]) if self._is_reversed(statement) else names

    def _missing_text(self, statement: Statement) -> str:
        names = join_names(
            tuple((self.baseline, self.row)[side].label for side in statement.culprits)
        )
        first, last = self.depths[0], self.depths[-1]
        were = "were" if len(statement.culprits) > 1 else "was"
        reasons = {
            Missing.NOT_MEASURED: "not measured for both",
            Missing.STILL_RISING: f"not reached, {names} still gained at {last} outstanding",
            Missing.STAYS_BELOW: f"not reached, {names} stayed below it up to {last} outstanding",
            Missing.STARTS_ABOVE: f"not reached, {names} {were} above it from {first} outstanding on",
            Missing.UNCERTAIN: f"not certain, repeats of {names} differ too much there",
        }
        assert statement.missing is not None
        return reasons[statement.missing]


def headlines_of(
    answers: Sequence[Answer], request: RequestedTerms = DEFAULT
) -> list[tuple[Headline, ...]]:
    """Return the headlines of each answer, best set-up first; none without a sweep. One query where layouts differ."""
    disks = _disk_counts(answers)
    return [
        tuple(
            headline
            for row in answer.others
            for headline in [_headline(answer, row, request, disks)]
            if headline
        )
        for answer in answers
    ]


def row_headline(answer: Answer, row: Row) -> Headline | None:
    """Return the headline of one set-up in the answer's own terms, without its disks; None without a sweep."""
    return _headline(answer, row, DEFAULT, {})


def common_depths(headlines: Sequence[Sequence[Headline]]) -> list[int]:
    """Return every depth that some comparison has, rising."""
    return sorted({depth for some in headlines for one in some for depth in one.depths})


def condition_text(statement: Statement, statistic: str) -> str:
    """ "at saturation", "at 16 outstanding", "at 1.58 ms mean latency"."""
    if statement.condition == Condition.SATURATION:
        return "at saturation"
    if statement.condition == Condition.LOAD:
        return f"at {statement.at:.0f} outstanding"
    return f"at {si(statement.at, 's')} {statistic} latency"


def interval_text(statement: Statement) -> str:
    """ "3.9 to 4.1"; "" if the noise is unknown."""
    if statement.low is None or statement.high is None:
        return ""
    return ratio_range(statement.low, statement.high)


def has_efficiency(headlines: Sequence[Headline]) -> bool:
    return any(headline.efficiency is not None for headline in headlines)


def _headline(
    answer: Answer, row: Row, request: RequestedTerms, disks: Mapping[int, dict[str, int]]
) -> Headline | None:
    statements, depths = _statements(answer, row, request)
    if not statements:
        return None
    return Headline(
        row,
        answer.baseline,
        metric_noun(answer),
        answer.lower_is_better,
        request.statistic,
        depths,
        statements,
        _choose(statements, request),
        _unlike_disks(answer.baseline, row, disks),
    )


def _statements(
    answer: Answer, row: Row, request: RequestedTerms
) -> tuple[tuple[Statement, ...], tuple[int, ...]]:
    """Return the statements on a set-up, and the depths that it shares with the baseline."""
    lines = answer.baseline.group, row.group
    values = comparable_values(lines, ("", ""), answer.metric)
    depths = tuple(d for d in row.against.points if d in values.first and d) if row.against else ()
    if row.against is None or len(depths) < 2:
        return (), ()
    knees = [line_analysis.curve_answer(line).knee for line in lines]
    rising = tuple(side for side, knee in enumerate(knees) if knee and knee.not_reached)
    knee = knees[0].at if knees[0] else None
    terms = Terms(request.depth, request.seconds, knee, rising)
    first, second = freeze_sweep(values.first), freeze_sweep(values.second)
    if answer.lower_is_better:
        return compare_at_loads(first, second, row.against.design, terms), depths
    tail = next((name for name in TAILS if all(name in line.units for line in lines)), "")
    latencies = None
    if request.statistic != STATISTICS[0] and tail:
        tails = comparable_values(lines, ("", ""), tail)
        latencies = freeze_sweep(tails.first), freeze_sweep(tails.second)
    statements = compare_under((first, second), latencies, row.against.design, terms)
    # Little's law holds for operations only, and a p99 must have been measured.
    has_latency = answer.metric == "iops" and (request.statistic == STATISTICS[0] or latencies)
    if not has_latency:
        statements = tuple(s for s in statements if s.condition != Condition.LATENCY)
    return statements, depths


def _choose(statements: Sequence[Statement], request: RequestedTerms) -> Statement:
    """Return the statement that the reader asked for, else saturation if it is reached, else the load."""
    by_condition = {statement.condition: statement for statement in statements}
    if request.condition in by_condition:
        return by_condition[request.condition]
    saturated = by_condition.get(Condition.SATURATION)
    return saturated if saturated and saturated.ratio else by_condition[Condition.LOAD]


def _reverse(statement: Statement) -> Statement:
    """Return the statement on the first set-up against the second."""
    low, high = statement.low, statement.high
    return replace(
        statement,
        ratio=statement.ratio and 1 / statement.ratio,
        low=high and 1 / high,
        high=low and 1 / low,
        values=statement.values and (statement.values[1], statement.values[0]),
    )


def _disk_counts(answers: Sequence[Answer]) -> dict[int, dict[str, int]]:
    """{topology: {role: disks}} of the answers whose set-ups are unlike topologies, as built."""
    topologies = {
        frozenset(row.group.topology for row in answer.rows if not row.group.stage)
        for answer in answers
    }
    keys = {pk for some in topologies if len(some) > 1 for pk in some}
    if not keys:
        return {}
    rows = Topology.even_deleted.filter(pk__in=keys).order_by().values_list("pk", "stack")
    return {pk: required_disks(stack) for pk, stack in rows}


def _unlike_disks(
    baseline: Row, row: Row, counts: Mapping[int, Mapping[str, int]]
) -> tuple[int, int] | None:
    """Return how many disks both have, if all are of one role and their numbers differ."""
    if baseline.group.stage or row.group.stage:
        return None
    first, second = (counts.get(line.group.topology, {}) for line in (baseline, row))
    if len(first) != 1 or first.keys() != second.keys() or first == second:
        return None
    return sum(first.values()), sum(second.values())


def _disks_text(count: int) -> str:
    return "one disk" if count == 1 else f"{count} disks"
