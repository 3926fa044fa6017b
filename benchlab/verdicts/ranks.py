# SPDX-License-Identifier: Apache-2.0
"""An answer as a table: each set-up at its best point, beside the baseline, its interval on a scale. Pure.

All ratios with their intervals are on one logarithmic scale, as coordinates in an SVG: the texts go into attributes in
a template.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log
from types import MappingProxyType

from benchlab.analysis.formats import shown_unit
from benchlab.analysis.headline import Statement
from benchlab.analysis.verdicts import Conclusion, Verdict
from benchlab.charts import metric_naming, sparkline
from benchlab.charts.queries import Group
from benchlab.verdicts.answers import TAILS, Answer, Row, medians_of
from benchlab.verdicts.headlines import Headline, interval_text
from benchlab.verdicts.sentences import interval_words
from benchlab.web.lists import MOST_LINES
from benchlab.web.units import short_si, si

# Label of a verdict, and the CSS class of its badge.
WORDS = {
    Conclusion.FASTER: ("Faster", "is-good"),
    Conclusion.SLOWER: ("Slower", "is-bad"),
    Conclusion.NONE: ("No difference", ""),
    Conclusion.SMALL: ("No large difference", ""),
    Conclusion.UNKNOWN: ("Not conclusive", "is-warn"),
    Conclusion.OVERTAKES: ("Depends on depth", ""),
}


# A verdict that may still change has no colour.
PLAIN_BADGE = "is-open"


def _badge(verdict: Verdict | None, provisional: bool) -> str:
    """CSS class of a verdict's badge; "" for the baseline and for a verdict without a colour."""
    if verdict is None:
        return ""
    return PLAIN_BADGE if provisional else WORDS[verdict.conclusion][1]


@dataclass(frozen=True, slots=True)
class Rank:
    """A set-up in its place.

    The medians over the repeats are those at `depth`, its best. `verdict`: over the curve, None for the baseline.
    `exceptions`: depths that are decided otherwise, "slower at 1, 2". `provisional`: the campaign is not over.
    """

    place: int
    label: str
    line: sparkline.LegendKey
    best: str
    depth: int | None
    latency: str
    tail: str
    verdict: Verdict | None
    mark: Mark | None
    exceptions: str = ""
    provisional: bool = False

    @property
    def verdict_label(self) -> str:
        return WORDS[self.verdict.conclusion][0] if self.verdict else "Baseline"

    @property
    def badge(self) -> str:
        return _badge(self.verdict, self.provisional)


@dataclass(frozen=True, slots=True)
class Lead:
    """Verdict that a card shows large: the set-up that is ahead, compared with the other.

    `headline`: what its figure says of a sweep; without one the figure is the ratio over the curve.
    """

    label: str
    against: str
    verdict: Verdict
    scale: Scale
    exceptions: str = ""
    provisional: bool = False
    headline: Headline | None = None

    @property
    def large(self) -> bool:
        """True if the figure rests on enough data to be shown."""
        if self.headline and self.verdict.conclusion == Conclusion.OVERTAKES:
            return True
        return self.verdict.conclusion in (Conclusion.FASTER, Conclusion.SLOWER, Conclusion.NONE)

    @property
    def figure(self) -> Verdict | Statement:
        return self.headline.winner_first if self.headline else self.verdict

    @property
    def figure_names(self) -> tuple[str, str]:
        """The set-up that the figure is about, and the other one."""
        if self.headline:
            return self.headline.label, self.headline.against
        return self.label, self.against

    @property
    def interval(self) -> str:
        figure = self.figure
        if isinstance(figure, Statement):
            return interval_text(figure)
        return interval_words(figure)

    @property
    def badge(self) -> str:
        return _badge(self.verdict, self.provisional)

    @property
    def scale_mark(self) -> Mark:
        return self.scale.place_verdict(self.figure)


@dataclass(frozen=True, slots=True)
class RankTable:
    """Ranks with the heads of their table.

    `latency`, `tail`: heads, empty unless all lines have the same kind. `lead`: None without a comparison. `partly`:
    whether a line has depths that another lacks; its verdict and its best leave these out. `tied`: names of those that
    cannot be told from the best, empty where one set-up is the best.
    """

    metric_word: str
    latency: str
    tail: str
    swept: bool
    partly: bool
    scale: Scale
    ranks: tuple[Rank, ...]
    lead: Lead | None
    tied: tuple[str, ...] = ()

    @property
    def tied_text(self) -> str:
        """ "a, b, c"; of very many the first, and how many more there are."""
        more = len(self.tied) - MOST_LINES
        names = ", ".join(self.tied[:MOST_LINES])
        return f"{names} and {more} more" if more > 0 else names


def shorten(answer: Answer) -> Answer:
    """The answer with its best MOST_LINES set-ups, its baseline and the one that its card is about."""
    kept = {id(row) for row in (*answer.rows[:MOST_LINES], answer.baseline)}
    if lead := _lead_row(answer):
        kept.add(id(lead[0]))
    return replace(answer, rows=tuple(row for row in answer.rows if id(row) in kept))


def rank_table(
    answer: Answer, headlines: Sequence[Headline] = (), rows: Sequence[Row] | None = None
) -> RankTable:
    """Return the table of an answer, whose lead has one of these headlines if it has an interval.

    `rows`: only these set-ups have a rank in it; None for all.
    """
    shown, rows = answer.rows if rows is None else rows, answer.rows
    curves = [row.against.curve for row in rows if row.against and row.against.curve]
    scale = Scale.spanning(curves)
    of_latency = answer.metric not in metric_naming.METRICS
    kind = (
        ""
        if of_latency
        else _common_metric(rows, (f"{kind}.mean" for kind in metric_naming.LATENCY_KINDS))
    )
    tail = "" if of_latency else _common_metric(rows, TAILS)
    of_each = [medians_of(row.group, answer.metric).keys() for row in rows]
    shared = frozenset.intersection(*map(frozenset, of_each))
    best = tuple(row.label for row in rows if row.place == 1)
    ranks = tuple(_rank_row(answer, row, scale, kind, tail, shared) for row in shown)
    return RankTable(
        metric_word=answer.metric_word,
        latency=metric_naming.LATENCY_KINDS[kind.partition(".")[0]] if kind else "",
        tail=metric_naming.metric_word(tail) if tail else "",
        swept=any(rank.depth for rank in ranks),
        partly=bool(shared) and any(depths != shared for depths in of_each),
        scale=scale,
        ranks=ranks,
        lead=_lead(answer, headlines),
        tied=best if len(best) > 1 else (),
    )


LEADS = (
    Conclusion.FASTER,
    Conclusion.SLOWER,
    Conclusion.NONE,
    Conclusion.OVERTAKES,
    Conclusion.SMALL,
    Conclusion.UNKNOWN,
)


def _lead_row(answer: Answer) -> tuple[Row, Verdict] | None:
    """The set-up that a card shows large, and its verdict; None without a comparison."""
    verdicts = [
        (row, row.against.curve) for row in answer.rows if row.against and row.against.curve
    ]
    return min(verdicts, key=lambda pair: LEADS.index(pair[1].conclusion), default=None)


def _lead(answer: Answer, headlines: Sequence[Headline]) -> Lead | None:
    """The best set-up ahead of the baseline, else the baseline ahead of another (reversed), else neither ahead."""
    found = _lead_row(answer)
    if found is None:
        return None
    row, verdict = found
    label, against = row.label, answer.baseline.label
    but = _exceptions(row)
    if verdict.conclusion == Conclusion.SLOWER:
        label, against, verdict = against, label, _reverse(verdict)
        but = _exceptions(row, TURNED)
    headline = next((one for one in headlines if one.row is row and one.is_certain), None)
    scale = Scale.spanning([headline.winner_first if headline else verdict])
    return Lead(label, against, verdict, scale, but, not answer.is_over, headline)


TURNED = {Conclusion.FASTER: Conclusion.SLOWER, Conclusion.SLOWER: Conclusion.FASTER}


def _exceptions(row: Row, turned: Mapping[Conclusion, Conclusion] = MappingProxyType({})) -> str:
    """ "slower at 1, 2": the depths that the sentence names and the verdict over the curve leaves out."""
    unlike = row.against.unlike if row.against else {}
    depths: dict[Conclusion, list[str]] = {}
    for depth, point in unlike.items():
        depths.setdefault(turned.get(point.conclusion, point.conclusion), []).append(str(depth))
    return ", ".join(f"{conclusion} at {', '.join(some)}" for conclusion, some in depths.items())


def _reverse(verdict: Verdict) -> Verdict:
    """Verdict on the first set-up against the second."""
    return replace(
        verdict,
        conclusion=Conclusion.FASTER,
        ratio=1 / verdict.ratio,
        low=None if not verdict.high else 1 / verdict.high,
        high=None if not verdict.low else 1 / verdict.low,
        values=verdict.values and (verdict.values[1], verdict.values[0]),
        stalled=verdict.stalled and (verdict.stalled[1], verdict.stalled[0]),
        typical=verdict.typical and 1 / verdict.typical,
    )


def _common_metric(rows: Iterable[Row], names: Iterable[str]) -> str:
    """The first metric that every line has: a column holds figures of one kind only."""
    lines = [row.group for row in rows]
    return next((name for name in names if all(name in line.units for line in lines)), "")


def _best_depth(
    medians: Mapping[int, float], shared: Collection[int], lower_is_better: bool
) -> int | None:
    """Depth of the best median among those that all set-ups share, if there are any; the lowest of equals."""
    eligible = [depth for depth in medians if depth in shared] or list(medians)
    sign = -1 if lower_is_better else 1
    return max(eligible, key=lambda depth: (sign * medians[depth], -depth), default=None)


def _rank_row(
    answer: Answer, row: Row, scale: Scale, latency: str, tail: str, shared: Collection[int]
) -> Rank:
    medians = medians_of(row.group, answer.metric)
    depth = _best_depth(medians, shared, answer.lower_is_better)
    verdict = row.against.curve if row.against else None
    return Rank(
        row.place,
        row.label,
        sparkline.legend_key(row.style),
        si(medians[depth], shown_unit(answer.metric, answer.unit)) if depth is not None else "",
        depth or None,
        _latency_text(row.group, latency, depth),
        _latency_text(row.group, tail, depth),
        verdict,
        scale.place_verdict(verdict) if verdict else None,
        _exceptions(row),
        not answer.is_over,
    )


def _latency_text(line: Group, name: str, depth: int | None) -> str:
    if not name or depth is None:
        return ""
    value = medians_of(line, name).get(depth)
    return "" if value is None else short_si(value, "s")


# width of the drawing, in its own units
WIDTH = 240
MIN_X, MAX_X = 12, 228
# least distance between the middles of two labels
APART = 34
# An interval beyond this is useless, and would leave no room for the others.
MOST = 1000.0
# margin at each end, as a share of the range shown
ROOM = 0.06
# A scale is never shorter, so that a difference of 1 % looks small.
NARROW = log(1.25)
# Values that labels may have, times a power of ten; the first is for the widest scale.
STEPS = (
    (0.01, 1.0, 100.0),
    (1.0,),
    (1.0, 3.0),
    (1.0, 2.0, 5.0),
    (1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0, 8.0, 9.0),
    tuple(n / 10 for n in range(10, 20)) + tuple(n / 2 for n in range(4, 20)),
)


@dataclass(frozen=True, slots=True)
class Tick:
    at: str
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """Paths of one ratio. `bar`: from 1 to the ratio; `span`: over the interval, empty if none is known."""

    at: str
    bar: str
    span: str


@dataclass(frozen=True, slots=True)
class Scale:
    """Scale from `least` to `most`, in natural logarithms of ratios."""

    least: float
    most: float

    @classmethod
    def spanning(cls, verdicts: Iterable[Verdict | Statement]) -> Scale:
        """Return a scale that holds 1, all ratios and their intervals."""
        ends = [0.0]
        for verdict in verdicts:
            ends += [
                _bounded_log(value)
                for value in (verdict.ratio, verdict.low, verdict.high)
                if value is not None
            ]
        least, most = min(ends), max(ends)
        if most - least < NARROW:
            middle = (least + most) / 2
            least, most = middle - NARROW / 2, middle + NARROW / 2
        room = ROOM * (most - least)
        return cls(least - room, most + room)

    @property
    def unity(self) -> str:
        """Coordinate of ratio 1, where both are equal."""
        return self._coordinate(0.0)

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """Ticks at 1 and at as many other ratios as have room."""
        return max((self._ticks(steps) for steps in STEPS), key=len)

    def place_verdict(self, verdict: Verdict | Statement) -> Mark:
        at = self._coordinate(_bounded_log(verdict.ratio or 1))
        span = ""
        if verdict.low is not None and verdict.high is not None:
            span = f"M{self._coordinate(_bounded_log(verdict.low))} 0H{self._coordinate(_bounded_log(verdict.high))}"
        return Mark(at, f"M{self.unity} 0H{at}", span)

    def _ticks(self, steps: Iterable[float]) -> tuple[Tick, ...]:
        """Ticks at these steps; none if two labels would touch."""
        powers = (10.0**power for power in range(-3, 4)) if min(steps) == 1 else (1.0,)
        values = sorted({round(step * power, 6) for power in powers for step in steps})
        visible = [value for value in values if self.least <= log(value) <= self.most]
        places = [self._x(log(value)) for value in visible]
        if any(b - a < APART for a, b in pairwise(places)):
            return ()
        return tuple(Tick(self._coordinate(log(value)), f"{value:g}×") for value in visible)

    def _x(self, ln: float) -> float:
        return MIN_X + (ln - self.least) / (self.most - self.least) * (MAX_X - MIN_X)

    def _coordinate(self, ln: float) -> str:
        return f"{self._x(ln):.1f}"


def _bounded_log(ratio: float) -> float:
    """Natural logarithm of a ratio that may be 0 or infinite."""
    return log(min(max(ratio, 1 / MOST), MOST))
