"""Every sentence that the analysis can print, in cases/sentences.txt, to be read as one text.

A sentence is listed if it has a clause that none before it in its section has. `--accept` writes the list (`pytest
tests/agents/test_uuids.py tests/verdicts/test_sentences.py --accept`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchlab.analysis import verdicts
from benchlab.analysis.changes import Change, Drift, Unusual
from benchlab.analysis.designs import Design, Order, RunNoise, design
from benchlab.analysis.devices import Full, FullStation
from benchlab.analysis.factors import Gap
from benchlab.analysis.headline import Condition, Missing, Statement
from benchlab.analysis.knees import Cap, Collapse, Knee
from benchlab.analysis.steady import Course, State
from benchlab.analysis.verdicts import Conclusion, Sweep, compare_sweeps
from benchlab.charts import device_work, line_analysis, run_page
from benchlab.charts.history import History, HistoryRun
from benchlab.charts.palette import device_style
from benchlab.charts.queries import NOT_JUDGED, Group, Sample
from benchlab.verdicts import headlines, matrix, set_ups, single_line_summary
from benchlab.verdicts.answers import LOWER_IS_BETTER, Answer, Row
from benchlab.verdicts.conclusion import conclude_campaign
from benchlab.verdicts.sentences import needed_words, sentences
from benchlab.verdicts.steadiness import compare_lines
from tests.agents.conftest import accepted
from tests.analysis.test_verdicts import ABBA, APART, TURNS, sweep

__all__ = ["accepted"]

CASES = Path(__file__).parents[1] / "cases"
UNTOLD = design(Order.UNTOLD)
LAB = replace(APART, noise=RunNoise(run=0.05, sweep=0.03, df=20.0))
ONE, QUIET, LOUD = (1.0,), (0.999, 1.0, 1.001), (0.5, 1.0, 2.0)
STEP = Course(State.STEP, "op/s", 60, 150, 20, 100, 200, last_third=200)
MOVING = replace(STEP, last_slope=0.3)
NUMBER = re.compile(r"(between )?\d[\d.,]*(?: [kMGTmµn](?= )| [kMGTmµn](?=[A-Z])| ms| µs)?")
DISKS = re.compile(r"\b(sd[a-z]|dfa|nvme\dn\d)(, | and |\b)")


def wordings(sentence: str) -> set[str]:
    """Its clauses without what differs from case to case: numbers, and the names of disks and of set-ups."""
    text = re.sub(r"(disk )+", "disk ", DISKS.sub("disk ", sentence)).replace("cached", "stripe")
    return set(re.split(r"; |: |\. |, ", NUMBER.sub("#", text).rstrip(".")))


def findings() -> Iterator[str]:
    for path in sorted((CASES / "findings").glob("*/*.json")):
        for case in json.loads(path.read_text()):
            for sentence in case["finds"]:
                yield f"{path.parent.name}: {sentence}"


def line(
    name: str,
    points: Sweep,
    metric: str = "iops",
    unit: str = "op/s",
    course: Course | Mapping[int, Course] = NOT_JUDGED,
    **fields: Any,
) -> Group:
    """A line of a chart, of one workload on one host; 0 is the depth of what has no sweep."""
    samples = tuple(
        Sample(
            100 * depth + repeat,
            1,
            repeat,
            depth or None,
            {metric: value},
            course=course.get(depth, NOT_JUDGED) if isinstance(course, Mapping) else course,
        )
        for depth, cell in points.items()
        for repeat, value in cell.items()
    )
    topology = sum(map(ord, name))
    return Group(1, "C", topology, name, 1, "H", 1, "W", "fio", "", samples=samples,
                 units={metric: unit}, varies_depth=len(points) > 1, **fields)  # fmt: skip


def answer(
    first: Sweep,
    second: Sweep,
    order: Design = TURNS,
    *,
    metric: str = "iops",
    unit: str = "op/s",
    courses: tuple[Any, Any] = (NOT_JUDGED, NOT_JUDGED),
    p99: tuple[Sweep, Sweep] | None = None,
    pending: tuple[int, int] | None = None,
) -> Answer:
    """Answer of "stripe", the baseline, and "cached"."""
    names = "stripe", "cached"
    lines = [
        line(name, points, metric, unit, course)
        for name, points, course in zip(names, (first, second), courses, strict=True)
    ]
    lower = LOWER_IS_BETTER[unit]
    against = compare_lines(lines, names, metric, order, lower_is_better=lower)
    tail = compare_sweeps(*p99, order, lower_is_better=True) if p99 else None
    assert against.curve is not None
    conclusion = against.curve.conclusion
    style = device_style(0)
    base = Row(lines[0], names[0], style, 1 + (conclusion == Conclusion.FASTER), None, key="1")
    other = Row(
        lines[1], names[1], style, 1 + (conclusion == Conclusion.SLOWER), against, tail, "2"
    )
    return Answer("a", "W", "", metric, unit, base, (base, other), (), pending=pending)


LOW, HIGH = sweep(100, 200, 300, 400), sweep(130, 260, 390, 520)
POINT, TWICE = {0: {1: 99.0, 2: 100.0, 3: 101.0}}, {0: {1: 199.0, 2: 200.0, 3: 201.0}}
DIPS = {d: {n: 100.0 * (0.5 if (n + d) % 3 == 0 else 1) for n in range(10)} for d in (1, 2, 4)}
EVEN = {d: {n: 100.0 + (n + d) % 3 for n in range(10)} for d in (1, 2, 4)}
NEAR = {d: {n: 104.5 + (n + d) % 3 for n in range(10)} for d in (1, 2, 4)}
LATE = {d: {n: 1 / value for n, value in cell.items()} for d, cell in DIPS.items()}
EARLY = {d: {n: 1 / value for n, value in cell.items()} for d, cell in EVEN.items()}
CROSSED = sweep(80, 200, 300, 520, spread=QUIET)


def dipping() -> tuple[Sweep, Sweep]:
    """Two sweeps of which typical runs decide, though runs of the second stall."""
    dice = np.random.default_rng(24)
    first, second = (
        {2**d: dict(enumerate(np.exp(dice.normal(7, 0.03, 3)))) for d in range(7)} for _ in range(2)
    )
    for cell in second.values():
        for block in cell:
            cell[block] *= 0.95 * (0.5 if dice.random() < 0.25 else 1)
    return first, second


def answers() -> list[Answer]:
    quiet = sweep(100, 200, 300, 400, spread=QUIET)
    single, higher = sweep(100, 200, 300, 400, spread=ONE), sweep(115, 260, 390, 520, spread=ONE)
    return [
        answer(LOW, HIGH),
        answer(HIGH, LOW, pending=(19, 32)),
        answer(LOW, HIGH, p99=(HIGH, LOW)),
        answer(LOW, HIGH, p99=(LOW, HIGH)),
        answer(POINT, TWICE),
        answer(POINT, TWICE, metric="one.fsync.ops"),
        answer(POINT, TWICE, metric="lat.mean", unit="s"),
        answer(quiet, sweep(90, 260, 390, 520, spread=QUIET)),
        answer(quiet, CROSSED),
        answer(CROSSED, quiet),
        answer(quiet, sweep(80, 260, 240, 520, spread=QUIET)),
        answer(quiet, CROSSED, metric="one.fsync.ops"),
        answer(EVEN, DIPS),
        answer(EARLY, LATE, metric="lat.mean", unit="s"),
        answer(*dipping()),
        answer(single, sweep(2000, 4000, 6000, 8000, spread=ONE), UNTOLD),
        answer(single, sweep(200, 400, 600, 800, spread=ONE), LAB),
        answer(quiet, quiet),
        answer(quiet, sweep(100.0001, 200, 300, 400, spread=QUIET), metric="lat.mean", unit="s"),
        answer(LOW, LOW, APART),
        answer(quiet, sweep(110, 200, 300, 370, spread=QUIET), APART),
        answer(single, higher),
        answer(single, higher, UNTOLD, metric="lat.mean", unit="s"),
        answer({0: {1: 100.0}}, {0: {1: 120.0}}, APART),
        answer(LOW, sweep(120, 220, 300, 400, spread=LOUD), APART),
        answer(sweep(100, 200, spread=LOUD), sweep(120, 220, spread=LOUD), metric="one.fsync.ops"),
        answer({0: {1: 9.0, 2: 10.0, 3: 30.0}}, POINT),
        answer(EVEN, NEAR, APART),
        answer(POINT, {0: {1: 99.0, 2: 100.01, 3: 101.0}}, APART),
        answer(LOW, HIGH, courses=(NOT_JUDGED, STEP)),
        answer(LOW, HIGH, courses=(MOVING, MOVING)),
        answer(LOW, HIGH, courses=(NOT_JUDGED, {1: STEP, 2: STEP})),
        answer(LOW, HIGH, courses=({1: STEP}, {1: STEP})),
        answer(POINT, TWICE, courses=(STEP, STEP)),
    ]


def verdict_sentences() -> Iterator[str]:
    yield from (sentence.full_text for one in answers() for sentence in sentences(one))


def reasons() -> Iterator[str]:
    """Every reason, whatever leads to it."""
    sizes = (0.01, 0.1, 0.3)
    estimates = [
        verdicts._Estimate(est, se, 4.0, 0, False, 0.1, 0.09) for est in sizes for se in (0.01, 0.2)
    ]
    noises, counts = (0.05, 0.2, inf), ((1, 1), (1, 3), (3, 3))
    for item in answers():
        verdict = item.others[0].against
        assert verdict is not None and verdict.curve is not None
        yield verdict.curve.reason
    cases = product(Conclusion, estimates, noises, counts, (TURNS, ABBA, APART, UNTOLD, LAB))
    flags = list(product(*[(False, True)] * 5))
    for (conclusion, one, half, repeats, order), case in product(cases, flags):
        decidable, disagree, assumed, lone_depth, by_means = case
        more = 7 if decidable else None
        if half == inf and more is None:
            continue
        limit = replace(one, se=2 * one.se) if by_means else one
        yield verdicts._reason(
            conclusion, one, limit, half, repeats, order, more, order.tau**2,
            disagree=disagree, assumed=assumed, lone_depth=lone_depth,
        )  # fmt: skip


def needed() -> Iterator[str]:
    spreads = ONE, (0.9, 1.0, 1.1), LOUD, (0.98, 1.0, 1.02), (1.0, 1.0001)
    for spread in spreads:
        points = sweep(100, 200, spread=spread)
        yield needed_words(answer(points, points))


def headline_sentences() -> Iterator[str]:
    one = answer(LOW, HIGH)
    statements = [
        Statement(condition, at, ratio, low and low * ratio, low and ratio / low, (100.0, 400.0))
        for condition, at in zip(Condition, (0.0, 16.0, 0.00158), strict=True)
        for ratio, low in ((4.0, 0.9), (0.25, 0.9), (1.5, None))
    ]
    statements += [
        Statement(condition, 0.00158, None, None, None, None, missing, culprits)
        for condition in (Condition.SATURATION, Condition.LATENCY)
        for missing in Missing
        for culprits in ((0,), (0, 1))
    ]
    for statement, lower, statistic in product(statements, (False, True), headlines.STATISTICS):
        noun = "latency" if lower else "IOPS"
        headline = headlines.Headline(
            one.others[0], one.baseline, noun, lower, statistic, (1, 16),
            tuple(statements[:1]), statement, (1, 4),
        )  # fmt: skip
        if lower and statement.condition != Condition.LOAD:
            continue
        yield ". ".join(filter(None, [headline.text, headline.efficiency_text]))


def conclusions() -> Iterator[str]:
    faster, slower, equal = answer(LOW, HIGH), answer(HIGH, LOW), answer(LOW, LOW, APART)
    crossed, open_ = answer(LOW, CROSSED), answer(LOW, sweep(100, 200, 300, 400, spread=LOUD))
    third = replace(faster.others[0], label="slow", place=3, key="3")
    shared = [replace(equal, rows=(*equal.rows, third))] * 2
    elsewhere, far = replace(faster, scope="H2"), answer(LOW, sweep(200, 400, 600, 800))
    for some in (
        [faster, replace(faster, title="X")],
        [faster, replace(slower, title="X")],
        [faster, replace(equal, title="X")],
        [faster, *(replace(one, title=f"{n}") for n, one in enumerate([equal] * 2 + [crossed] * 2 + [open_] * 2))],
        [crossed, replace(open_, title="X")],
        [equal] * 2,
        shared,
        [faster, elsewhere],
        [faster, far],
        [faster, slower],
    ):  # fmt: skip
        conclusion = conclude_campaign(some)
        assert conclusion is not None
        yield conclusion.sentence


def knees() -> Iterator[str]:
    shapes = [
        Knee(8, 8, 8), Knee(8, 4, 16), Knee(None, 16, 16), Knee(None, 4, 16), Knee(None, 4, 16, beyond=True),
        Knee(None, None, None, beyond=True), Knee(None, 1, 1, flat=True), Knee(8, 4, 8, misfit=0.31), None,
    ]  # fmt: skip
    shapes += [replace(one, repeats=count) for one in shapes[:2] if one for count in (1, 2)]
    for shape in shapes:
        for cap in (None, Cap(8, 64, 69_600, 0.002), Cap(16, 64, 69_600, 0.02)):
            yield "Knee of stripe: " + "; ".join(line_analysis._knee_texts(shape, cap))
    yield line_analysis._collapse_text(Collapse(16, 64, 0.3))
    unfinished = line("stripe", LOW, over=False)
    yield f"Knee of stripe: {line_analysis.curve_answer_text(unfinished)}"


def single_lines() -> Iterator[str]:
    groups = [line("stripe", LOW), line("cached", POINT), line("stripe", POINT, "lat.mean", "s")]
    for group in groups:
        [metric] = group.units
        yield f"{group.topology_name}: {single_line_summary.best_text(group, metric)}"
    for some in ([], [replace(groups[0], over=False)], groups[:1], groups[:2]):
        yield single_line_summary.why_not_compared(some)
    for full, device, cpu in product(Full, ("", "sdb"), (None, 0.97)):
        if full == Full.CPU and cpu is None:
            continue
        station = FullStation(full, 0.4, 0.92, cpu, 64, device, 0.8)
        for cap in (None, Cap(8, 64, 69_600, 0.002)):
            yield f"Full at 64 outstanding: {device_work.full_station_text(station, cap)}"


def factors() -> Iterator[str]:
    place = ("a", "", "h", "as built", "none", "4 KiB · 8 outstanding")
    gaps = [
        Gap(0, "b", {4: ("none",)}, place, 3, 3),
        Gap(4, "none", {0: ("a", "b", "c", "d")}, place, 3, 3),
        Gap(0, "b", {}, place, 2, 6),
        Gap(0, "b", {}, place, 1, 6),
    ]
    for gap in gaps:
        yield from matrix._describe_omissions([gap], [], None, "IOPS")
        for places in ([place], [place, ("c", *place[1:4], "kyber", place[5])]):
            from_effects: Any = object()
            yield from matrix._describe_omissions([gap], places, from_effects, "IOPS")


def history() -> Iterator[str]:
    runs = tuple(
        HistoryRun(n, datetime(2026, 1, 1, tzinfo=UTC), 1, "C", 1, n, 1000.0, "") for n in range(40)
    )
    changes = Change(20, 1000.0, 800.0, True), Change(39, 1000.0, 1200.0, True)
    past = History("iops", "op/s", runs=runs, changes=changes, drift=Drift(10, 1000.0, 700.0))
    yield from (set_ups._change_finding(past, one).sentence for one in past.history_changes)
    assert past.history_drift is not None
    yield set_ups._drift_finding(past, past.history_drift).sentence
    yield from (set_ups._outlier_finding(past, Unusual(39, z, 22)).sentence for z in (-5.1, 5.1))


def courses() -> Iterator[str]:
    yield from (run_page._course_sentence(replace(STEP, state=state)) for state in State)
    yield run_page._course_sentence(MOVING)


SECTIONS = {
    "Findings": findings,
    "Verdicts": verdict_sentences,
    "Reasons of verdicts": reasons,
    "Repeats that are needed": needed,
    "Headlines": headline_sentences,
    "Conclusions of a campaign": conclusions,
    "Knees, caps and falls": knees,
    "Single lines, and what is full": single_lines,
    "Factors": factors,
    "History": history,
    "How steady a run was": courses,
}


def distinct(texts: Sequence[str]) -> list[str]:
    """Sentences that have a clause which none before them has."""
    seen: set[str] = set()
    listed = []
    for text in texts:
        if not wordings(text) <= seen:
            listed.append(text)
            seen |= wordings(text)
    return listed


@pytest.fixture(scope="module")
def sections() -> dict[str, list[str]]:
    return {title: distinct(list(texts())) for title, texts in SECTIONS.items()}


def test_every_sentence_is_in_the_list(sections, accepted):
    parts = [f"{title}\n\n" + "\n".join(texts) for title, texts in sections.items()]
    accepted(CASES / "sentences.txt", "\n\n".join(parts) + "\n")
