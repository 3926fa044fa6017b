# SPDX-License-Identifier: Apache-2.0
"""The conclusion of a campaign: one sentence over all of its answers, and a grid of set-ups by workloads. Pure.

A set-up wins an answer if it alone has the first place. All ratios are those of the answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from benchlab.analysis.formats import ratio_number, ratio_range
from benchlab.analysis.verdicts import Conclusion
from benchlab.charts import sparkline
from benchlab.verdicts.answers import Answer, Row

TIED, EQUAL, BY_DEPTH = "cannot be told apart", "no large difference", "depends on depth"
# singular and plural in the sentence
UNDECIDED_TEXTS = {
    TIED: ("is undecided", "are undecided"),
    EQUAL: ("shows no large difference", "show no large difference"),
    BY_DEPTH: (BY_DEPTH, "depend on depth"),
}
# Hosts whose ratios are farther apart do not agree: what a single run may be off.
AGREEMENT = 1.25


@dataclass(frozen=True, slots=True)
class Cell:
    """A set-up under one workload, over all hosts. `ratio`: against the baseline, "2.1 to 2.2×"; `word`: its result."""

    ratio: str
    word: str
    wins: bool


@dataclass(frozen=True, slots=True)
class GridRow:
    label: str
    line: sparkline.LegendKey
    # None: not measured under that workload
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, slots=True)
class CampaignConclusion:
    """`decided`: a set-up wins somewhere. `pending_text`: on how many runs it rests, "" for a final one.

    `columns`: (key of the chart on the page, name) of each workload; `rows`: set-ups, most wins first.
    """

    sentence: str
    decided: bool
    pending_text: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[GridRow, ...]


def conclude_campaign(answers: Sequence[Answer]) -> CampaignConclusion | None:
    """Conclude from several answers; None for fewer than two, where the answer itself is the conclusion."""
    if len(answers) < 2:
        return None
    columns = _columns(answers)
    return CampaignConclusion(
        _sentence(answers, columns),
        any(_winner(answer) for answer in answers),
        next((answer.pending_text for answer in answers if answer.pending), ""),
        tuple((column[0].key, _column_name(column[0])) for column in columns),
        _grid(answers, columns),
    )


def _columns(answers: Iterable[Answer]) -> list[list[Answer]]:
    """Answers by workload: those of a column differ in the host at most."""
    columns: dict[tuple[str, ...], list[Answer]] = {}
    for answer in answers:
        key = answer.key, answer.title, answer.metric, answer.conditions
        columns.setdefault(key, []).append(answer)
    return list(columns.values())


def _column_name(answer: Answer) -> str:
    return " · ".join(filter(None, [answer.title, answer.conditions]))


def _best(answer: Answer) -> list[Row]:
    """Set-ups that cannot be told from the best."""
    return [row for row in answer.rows if row.place == 1]


def _winner(answer: Answer) -> Row | None:
    best = _best(answer)
    return best[0] if len(best) == 1 else None


def _undecided_word(answer: Answer) -> str:
    """Why an answer has no winner."""
    curves = [row.against.curve for row in _best(answer) if row.against and row.against.curve]
    conclusions = {curve.conclusion for curve in curves}
    if Conclusion.OVERTAKES in conclusions:
        return BY_DEPTH
    return EQUAL if conclusions and conclusions <= {Conclusion.NONE, Conclusion.SMALL} else TIED


def _sentence(answers: Sequence[Answer], columns: Sequence[Sequence[Answer]]) -> str:
    winners = [(answer, row) for answer in answers if (row := _winner(answer))]
    wins = Counter(row.key for _, row in winners)
    labels = {row.key: row.label for _, row in winners}
    undecided = Counter(_undecided_word(answer) for answer in answers if not _winner(answer))
    number = len(answers)
    rest = [f"{n} {UNDECIDED_TEXTS[word][n > 1]}" for word, n in undecided.most_common()]
    if not wins:
        return f"{_leaders_text(answers)}: {', '.join(rest)}"
    (first, most), *others = wins.most_common()
    margins = [_margin(answer, row) for answer, row in winners if row.key == first]
    parts = [
        f"{labels[first]} wins {most} of {number}, {_margins_text(margins)}",
        *(f"{labels[key]} wins {n}" for key, n in others),
        *rest,
        _hosts_text(columns),
    ]
    return "; ".join(filter(None, parts))


def _leaders_text(answers: Sequence[Answer]) -> str:
    """Describe who is best where nobody wins: the same few everywhere, else no one."""
    number, sets = len(answers), {tuple(sorted(row.label for row in _best(a))) for a in answers}
    if len(sets) == 1 and all(len(_best(answer)) < len(answer.rows) for answer in answers):
        return f"{' and '.join(sets.pop())} share the first place in {number} of {number}"
    return f"No layout wins any of {number} comparisons"


def _margin(answer: Answer, winner: Row) -> tuple[str, float]:
    """(name of the other, ratio in favour of the winner): against the baseline, or of the baseline against the next."""
    row = winner if winner.against else next(row for row in answer.rows if row.against)
    other = answer.baseline if winner.against else row
    assert row.against is not None and row.against.curve is not None
    ratio = row.against.curve.ratio
    return other.label, ratio if bool(winner.against) != answer.lower_is_better else 1 / ratio


def _margins_text(margins: Sequence[tuple[str, float]]) -> str:
    """ "2.1 to 2.2 times md RAID 5"; without the name where the margins are against several."""
    others, ratios = {other for other, _ in margins}, [ratio for _, ratio in margins]
    against = f" {others.pop()}" if len(others) == 1 else ""
    return f"{_range_text(ratios)} times{against}"


def _range_text(ratios: Sequence[float]) -> str:
    low, high = ratio_number(min(ratios)), ratio_number(max(ratios))
    return low if low == high else ratio_range(min(ratios), max(ratios))


def _hosts_text(columns: Iterable[Sequence[Answer]]) -> str:
    """Whether hosts agree, by the winners and their margins; "" for a single host, or where none agree on a winner."""
    spreads, disagreeing, several = [], 0, 0
    for column in columns:
        winners = [(answer, row) for answer in column if (row := _winner(answer))]
        several += len(column) > 1
        if len({row.key for _, row in winners}) > 1:
            disagreeing += 1
        elif len(winners) > 1:
            ratios = [_margin(answer, row)[1] for answer, row in winners]
            spreads.append(max(ratios) / min(ratios))
    if disagreeing:
        return f"hosts disagree on the winner in {disagreeing} of {several} workload{'s' * (several > 1)}"
    if not spreads:
        return ""
    percent = max(1, ceil(100 * (max(spreads) - 1)))
    return (
        f"the ratios of the hosts agree within {percent} %"
        if max(spreads) <= AGREEMENT
        else f"the ratios of the hosts differ by up to {percent} %"
    )


def _grid(answers: Iterable[Answer], columns: Sequence[Sequence[Answer]]) -> tuple[GridRow, ...]:
    answers = list(answers)
    first: dict[str, Row] = {}
    for row in (row for answer in answers for row in answer.rows):
        first.setdefault(row.key, row)
    wins = Counter(winner.key for answer in answers if (winner := _winner(answer)))
    return tuple(
        GridRow(
            first[key].label,
            sparkline.legend_key(first[key].style),
            tuple(_cell(column, key) for column in columns),
        )
        for key in sorted(first, key=lambda key: -wins[key])
    )


def _cell(column: Sequence[Answer], key: str) -> Cell | None:
    pairs = [(answer, row) for answer in column for row in answer.rows if row.key == key]
    if not pairs:
        return None
    curves = [row.against.curve for _, row in pairs if row.against and row.against.curve]
    ratio = f"{_range_text([curve.ratio for curve in curves])}×" if curves else "baseline"
    won = sum(_winner(answer) is row for answer, row in pairs)
    if won:
        return Cell(ratio, "wins" if len(column) == 1 else f"wins {won} of {len(column)}", True)
    tied = [answer for answer, row in pairs if row.place == 1]
    return Cell(ratio, _undecided_word(tied[0]) if tied else "", False)
