# SPDX-License-Identifier: Apache-2.0
"""An answer in plain sentences, with the run that each of its numbers comes from. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import zip_longest
from math import exp, log

from benchlab.analysis.designs import MAX_REPEATS
from benchlab.analysis.differences import LEAST
from benchlab.analysis.formats import ratio_number, ratio_range, shown_unit, times_text
from benchlab.analysis.repeats import repeats_for_mean
from benchlab.analysis.verdicts import Comparison, Conclusion, Verdict
from benchlab.charts import metric_naming
from benchlab.charts.queries import Group
from benchlab.verdicts.answers import Answer, Row, sweep_of
from benchlab.verdicts.steadiness import NOT_COMPARABLE
from benchlab.web.units import si

# Below this ratio a difference would be printed as 0.0 %.
HARDLY = 1.0005


@dataclass(frozen=True, slots=True)
class Number:
    """A mean over repeats, and the run whose own value is nearest to it."""

    text: str
    run: int


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence in parts.

    `head`: the statement. `numbers`: both means if it is about one point. `rest`: interval, repeats. `exceptions`:
    depths that are decided otherwise. `reason`: the reason, or additional facts. `pending`: how many runs it rests on
    while the campaign is not over.
    """

    conclusion: Conclusion
    head: str
    numbers: tuple[Number, ...]
    rest: str
    exceptions: str = ""
    reason: str = ""
    pending: str = ""

    @property
    def remark(self) -> str:
        return "; ".join(filter(None, [self.exceptions, self.reason]))

    @property
    def full_text(self) -> str:
        """The sentence without the links that the page puts on its numbers."""
        parts = [" against ".join(number.text for number in self.numbers), self.rest]
        end = f"; {self.remark}" if self.remark else ""
        pending = f" ({self.pending})" if self.pending else ""
        return f"{self.head} ({'; '.join(filter(None, parts))}){end}{pending}."


_LAST = Sentence(Conclusion.NONE, "", (), "")


def sentences(answer: Answer) -> list[Sentence]:
    """One sentence for each set-up against the baseline; a reason that several in a row share appears once."""
    texts = [
        replace(_sentence(answer, row, row.against), pending=answer.pending_text)
        for row in answer.others
        if row.against
    ]
    return [
        replace(sentence, reason="")
        if sentence.conclusion == Conclusion.UNKNOWN and sentence.reason == after.reason
        else sentence
        for sentence, after in zip_longest(texts, texts[1:], fillvalue=_LAST)
    ]


def _sentence(answer: Answer, row: Row, against: Comparison) -> Sentence:
    base, curve = answer.baseline, against.curve
    assert curve is not None
    if curve.conclusion == Conclusion.OVERTAKES:
        by = f" by {_metric_label(answer)}" if _metric_label(answer) else ""
        head = f"{row.label} against {base.label}{by}: {curve.reason}"
        return Sentence(
            curve.conclusion, head, (), f"{metric_noun(answer)}, {repeats_words(curve)}"
        )
    depth, verdict = _representative(against, curve)
    where = _where(against, depth)
    numbers = _numbers_winner_first(answer, row, depth, verdict) if verdict.values else ()
    if not verdict.decided:
        spread = (
            _ratios_by_depth(answer, row, against) if not depth and len(against.points) > 1 else ""
        )
        on = f" on {_metric_label(answer)}" if _metric_label(answer) else ""
        clause = spread or _undecided_clause(answer, row, verdict)
        numbers = _row_first(numbers, answer, verdict)
        why, reason = f"Not enough data{on}:", verdict.reason
        if reason.startswith(NOT_COMPARABLE):
            why, reason = f"{_capital(reason)};", ""
        head = f"{why} {_depth_phrase(depth)}{clause}"
        rest = (
            _over_all(verdict)
            if spread
            else _uncertainty(verdict, lower_is_better=answer.lower_is_better, winner=False)
        )
        return Sentence(verdict.conclusion, head, numbers, rest, _exceptions(against), reason)
    if verdict.conclusion in (Conclusion.NONE, Conclusion.SMALL):
        small = verdict.conclusion == Conclusion.SMALL
        but = _exceptions(against)
        most = f"at most {verdict.within}" if small else "less than 5 %"
        head = f"{_metric_prefix(answer)}{where}{row.label} and {base.label} differ by {most}"
        ratio = f"{times_text(verdict.ratio)} the {metric_noun(answer)}"
        # Both are relative to the baseline, so that the ratio lies in its interval.
        return Sentence(
            verdict.conclusion,
            _capital(head),
            _row_first(numbers, answer, verdict),
            f"{ratio}; {_uncertainty(verdict, lower_is_better=answer.lower_is_better, winner=False)}",
            but,
            _what_is_open(verdict) if small else "",
        )
    head = _capital(f"{_metric_prefix(answer)}{where}{_comparison_clause(answer, row, verdict)}")
    others = "; ".join(
        filter(
            None,
            [
                _others(against, curve, depth, row, lower_is_better=answer.lower_is_better),
                _stalls(verdict, answer, row),
                verdict.reason if verdict.assumed else "",
            ],
        )
    )
    return Sentence(
        verdict.conclusion,
        head,
        numbers,
        _uncertainty(verdict, lower_is_better=answer.lower_is_better),
        _exceptions(against),
        others,
    )


def _what_is_open(verdict: Verdict) -> str:
    """What would tell a smaller difference: the end of the reason, after its first clause."""
    return verdict.reason.partition("; ")[2]


def _stalls(verdict: Verdict, answer: Answer, row: Row) -> str:
    """How many runs stalled where one set-up stalls more, and the ratio of typical runs beside that of plain means."""
    if verdict.stalled is None:
        return ""
    value = "latency" if answer.lower_is_better else "rate"
    runs = " and ".join(
        f"{one.runs} of {one.all_runs} runs of {name} were at {times_text(one.level)} its typical {value}"
        for one, name in zip(verdict.stalled, (answer.baseline.label, row.label), strict=True)
        if one.level is not None
    )
    if verdict.typical is None:
        return f"typical runs are compared, though {runs}"
    return (
        f"plain means are compared, as {runs};"
        f" in typical runs {row.label} is at {times_text(verdict.typical)} {answer.baseline.label}"
    )


def _depth_phrase(depth: int | None) -> str:
    return f"at {depth} outstanding " if depth else ""


def _where(against: Comparison, depth: int | None) -> str:
    """ "at 16 outstanding ", "over all depths ", "" without a sweep: pages show other ratios of the same set-ups."""
    return "over all depths " if depth is None and len(against.points) > 1 else _depth_phrase(depth)


def _exceptions(against: Comparison) -> str:
    """ "but 0.75 times at 1, 0.82 times at 2 outstanding"."""
    depths = ", ".join(
        f"{times_text(point.ratio)} at {depth}" for depth, point in against.unlike.items()
    )
    return f"but {depths} outstanding" if depths else ""


def _capital(text: str) -> str:
    """Capitalize a sentence that begins with "At" or "Over"; a name stays as it is."""
    begins = text.startswith(("at ", "over all depths ", NOT_COMPARABLE))
    return text[0].upper() + text[1:] if begins else text


def _uncertainty(verdict: Verdict, *, lower_is_better: bool, winner: bool = True) -> str:
    """`winner`: of the one that leads against the other, as the clause before it has the ratio."""
    words = (
        _in_favour(verdict, lower_is_better=lower_is_better)[1]
        if winner
        else interval_words(verdict)
    )
    return f"95 % interval {words}, {repeats_words(verdict)}" if words else repeats_words(verdict)


def _in_favour(verdict: Verdict, *, lower_is_better: bool) -> tuple[float, str]:
    """(ratio, its interval in words) of the one that leads against the other."""
    turns = (verdict.ratio < 1) != lower_is_better
    if verdict.low is None or verdict.high is None:
        return 1 / verdict.ratio if turns else verdict.ratio, ""
    if turns:
        return 1 / verdict.ratio, ratio_range(1 / verdict.high, 1 / verdict.low)
    return verdict.ratio, ratio_range(verdict.low, verdict.high)


def _over_all(curve: Verdict) -> str:
    words = interval_words(curve)
    ratio = f"{times_text(curve.ratio)} over all depths"
    return ", ".join(
        filter(None, [ratio, words and f"95 % interval {words}", repeats_words(curve)])
    )


def _ratios_by_depth(answer: Answer, row: Row, against: Comparison) -> str:
    """Describe an undecided curve by the smallest and the largest ratio of its depths."""
    ratios = sorted(point.ratio for point in against.points.values())
    low, high = ratios[0], ratios[-1]
    word, base = metric_noun(answer), answer.baseline.label
    numbers = dict.fromkeys((ratio_number(low), ratio_number(high)))
    times = f"{' to '.join(numbers)} times"
    where = "depending on depth" if len(numbers) > 1 else "at each depth"
    if answer.lower_is_better:
        return f"the {word} of {row.label} was {times} that of {base}, {where}"
    return f"{row.label} did {times} the {word} of {base}, {where}"


def _representative(against: Comparison, curve: Verdict) -> tuple[int | None, Verdict]:
    """Return the point that is most like the curve among those with its conclusion; else the curve.

    The point with the largest ratio would be luck.
    """
    if len(against.points) == 1:
        [(depth, only)] = against.points.items()
        return depth or None, only
    alike = {
        d: point
        for d, point in against.points.items()
        if point.conclusion == curve.conclusion and d
    }
    if curve.conclusion not in (Conclusion.FASTER, Conclusion.SLOWER) or not alike:
        return None, curve
    depth = min(alike, key=lambda d: abs(log(alike[d].ratio / curve.ratio)))
    return depth, alike[depth]


def metric_noun(answer: Answer) -> str:
    """Noun for the metric: IOPS or throughput; a general one if its longer name begins the sentence."""
    name = metric_naming.metric_word(answer.metric)
    if answer.metric in metric_naming.METRICS:
        return name if name.isupper() else name.lower()
    return "latency" if answer.lower_is_better else "work"


def _metric_label(answer: Answer) -> str:
    """Label of a metric that a sentence has no word for; "" for the others."""
    return (
        "" if answer.metric in metric_naming.METRICS else metric_naming.metric_word(answer.metric)
    )


def _metric_prefix(answer: Answer) -> str:
    """Beginning of a sentence about such a metric: its label and a colon; "" for the others."""
    return f"{_metric_label(answer)}: " if _metric_label(answer) else ""


def _comparison_clause(answer: Answer, row: Row, verdict: Verdict) -> str:
    """Say how the faster one compares; it is the subject."""
    word, ratio = metric_noun(answer), max(verdict.ratio, 1 / verdict.ratio)
    ahead = _is_ahead(answer, verdict)
    winner, loser = (row, answer.baseline) if ahead else (answer.baseline, row)
    if answer.lower_is_better:
        return f"the {word} of {winner.label} is {times_text(1 / ratio)} that of {loser.label}"
    return f"{winner.label} does {times_text(ratio)} the {word} of {loser.label}"


def _is_ahead(answer: Answer, verdict: Verdict) -> bool:
    return (verdict.ratio < 1) == answer.lower_is_better


def _undecided_clause(answer: Answer, row: Row, verdict: Verdict) -> str:
    """Say what was seen of a set-up against the baseline, as its interval and its reason do."""
    word, ratio = metric_noun(answer), max(verdict.ratio, 1 / verdict.ratio)
    label, base = row.label, answer.baseline.label
    if answer.lower_is_better:
        if ratio_number(ratio) == ratio_number(1.0):
            return f"the {word} of {label} was within 1 % of that of {base}"
        return f"the {word} of {label} was {times_text(verdict.ratio)} that of {base}"
    if ratio < HARDLY:
        more = "more" if verdict.ratio >= 1 else "less"
        return f"{label} did less than 0.1 % {more} {word} than {base}"
    return f"{label} did {times_text(verdict.ratio)} the {word} of {base}"


def _row_first(numbers: tuple[Number, ...], answer: Answer, verdict: Verdict) -> tuple[Number, ...]:
    """Both means, the set-up's before the baseline's; `numbers` has the winner's first."""
    return numbers if _is_ahead(answer, verdict) else numbers[::-1]


def _others(
    against: Comparison, curve: Verdict, depth: int | None, row: Row, *, lower_is_better: bool
) -> str:
    parts = []
    if row.tail and (tail := row.tail.points.get(depth or 0)) and tail.conclusion in _DECIDED:
        ratio = max(tail.ratio, 1 / tail.ratio)
        lower = tail.conclusion == curve.conclusion
        parts.append(f"its p99 is {times_text(1 / ratio if lower else ratio)} as high")
    if depth and len(against.points) > 1:
        ratio, words = _in_favour(curve, lower_is_better=lower_is_better)
        parts.append(f"over all depths {times_text(ratio)} ({words})")
    return "; ".join(parts)


_DECIDED = (Conclusion.FASTER, Conclusion.SLOWER)


def _numbers_winner_first(
    answer: Answer, row: Row, depth: int | None, verdict: Verdict
) -> tuple[Number, ...]:
    """Both means, the winner's first."""
    assert verdict.values is not None
    of_base, of_row = (
        Number(si(value, shown_unit(answer.metric, answer.unit)), run)
        for value, run in (
            (
                verdict.values[0],
                _nearest(answer.baseline.group, answer.metric, depth, verdict.values[0]),
            ),
            (verdict.values[1], _nearest(row.group, answer.metric, depth, verdict.values[1])),
        )
    )
    return (of_row, of_base) if _is_ahead(answer, verdict) else (of_base, of_row)


def _nearest(line: Group, metric: str, depth: int | None, value: float) -> int:
    runs = [
        (abs(sample.values[metric] - value), sample.run)
        for sample in line.samples
        if metric in sample.values
        and (sample.outstanding or 0) == (depth or sample.outstanding or 0)
    ]
    return min(runs)[1]


def ratio_text(value: float) -> str:
    """2.63 -> "2.6×", 1.184 -> "1.18×"."""
    return f"{ratio_number(value)}×"


def needed_words(answer: Answer) -> str:
    """Sentence on the repeats that give each mean within 5 %: "takes 9 repeats", or why none is named."""
    cells = [
        [value for value in cell.values() if value > 0]
        for row in answer.rows
        for cell in sweep_of(row.group, answer.metric).values()
    ]
    if all(len(cell) < 2 for cell in cells):
        return "Single runs do not show how much runs vary. Measure 3 repeats to see how many are needed."
    needed = repeats_for_mean([cell for cell in cells if cell], exp(LEAST) - 1)
    if needed is None:
        return f"Not even {MAX_REPEATS} repeats would give a mean within 5 %: reduce the noise."
    return f"A mean within 5 % takes {needed} repeats of each point, judging by how much these repeats vary."


def interval_words(verdict: Verdict) -> str:
    """ "1.9 to 3.4", relative to the baseline; "" if none is known."""
    if verdict.low is None or verdict.high is None:
        return ""
    return ratio_range(verdict.low, verdict.high)


def repeats_words(verdict: Verdict) -> str:
    return f"{repeats_number(verdict)} repeat{'' if verdict.repeats[1] == 1 else 's'}"


def repeats_number(verdict: Verdict) -> str:
    """ "3", or "2 to 5" where points differ."""
    least, most = verdict.repeats
    return f"{most}" if least == most else f"{least} to {most}"
