"""Damaged output of fio: an error, or the right number. What a line says is not changed by damage to another."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.contracts import Metric, ParseError
from agents.drivers import text_reading
from agents.outputs import fio_json, fio_log, fio_terse, fio_text
from agents.outputs.fio_model import DIRECTIONS, FioJob
from agents.readers import fio as reader
from agents.tools import fio
from benchlab.testing.profiles import examples
from tests.agents.test_tools import CASES

# One job each, so that a figure stands in one line; rates are checked against counts, and sums follow from parts.
TEXTS = (
    "3.25-text-randread.txt",
    "3.39-text-fdatasync.txt",
    "2.1-text-handwritten.txt",
    "3.41-text-unified-both.txt",
)
TERSE = ("3.41-terse-v5.txt", "3.33-terse-v2.txt", "3.33-terse-v3.txt", "3.25-terse-v4-two-jobs.txt")  # fmt: skip
DOCUMENTS = ("3.41-randread.json", "3.33-fdatasync.json", "2.16-handwritten.json")
DERIVED = {
    "iops",
    "bandwidth",
    "lat.mean",
    "clat.mean",
    "clat.p50",
    "clat.p99",
    "clat.p99.9",
    "runtime",
    "errors",
}
FOREIGN = [
    "$ ls",
    "Jobs: 1 (f=1): [r(1)][50.0%][r=30MiB/s][r=7757 IOPS][eta 00m:01s]",
    "",
    "note to self",
    "1 2 3",
]
many = functools.partial(settings, deadline=None, suppress_health_check=list(HealthCheck))


@functools.cache
def seed(name: str) -> str:
    return (CASES / "fio" / name).read_text()


def parsed(text: str) -> list[Metric]:
    return fio.parse({"stdout": text.encode(errors="replace")}, fio.Options())


def figures(text: str) -> dict[str, tuple[float | None, int]]:
    return {metric.name: (metric.value, metric.line) for metric in parsed(text)}


def damage(draw: Any, lines: list[str]) -> tuple[list[str], int, str]:
    """The lines, the damaged one (from 1), and how."""
    at = draw(st.integers(0, len(lines) - 1))
    how = draw(st.sampled_from(["drop", "digit", "cut", "swap"]))
    line = lines[at]
    if how == "drop":
        return lines[:at] + lines[at + 1 :], at + 1, how
    if how == "cut":
        line = line[: draw(st.integers(0, len(line)))]
    elif how == "digit" and line:
        place = draw(st.integers(0, len(line) - 1))
        line = line[:place] + draw(st.sampled_from("0123456789.,kM%-")) + line[place + 1 :]
    elif how == "swap" and line:
        place = draw(st.integers(0, len(line) - 1))
        line = line[:place] + line[place + 1 :] + line[place]
    return [*lines[:at], line, *lines[at + 1 :]], at + 1, how


@st.composite
def damaged(draw: st.DrawFn, names: tuple[str, ...]) -> tuple[str, str, int, str]:
    name = draw(st.sampled_from(names))
    lines, at, how = damage(draw, seed(name).split("\n"))
    return name, "\n".join(lines), at, how


def jobs_of(text: str) -> list[FioJob]:
    raw = text.encode(errors="replace")
    for reader_of, head in ((fio_text, fio_text.HEAD), (fio_terse, fio_terse.HEAD)):
        if not fio.JSON.match(raw) and head.search(text):
            return reader_of.parse_jobs(text)[0]
    return list(fio_json.parse_jobs(raw)[0])


def sums_are_right(text: str, of_ios: float, of_bytes: float) -> None:
    """Check that what was done in all is the rate times the longest time, whatever each job did: of reads, writes,
    both.

    `of_ios`, `of_bytes`: by how much (a share) rate and count may disagree, for a reader lets them be rounded.
    """
    groups: dict[int, list[FioJob]] = {}
    for job in jobs_of(text):
        groups.setdefault(job.group, []).append(job)
    metrics = parsed(text)
    for number, jobs in groups.items():
        label = {"group": str(number)} if len(groups) > 1 else {}
        found = {m.name: m.value or 0.0 for m in metrics if m.labels == label}
        for prefix, names in {
            "": DIRECTIONS,
            **{f"{name}.": (name,) for name in DIRECTIONS},
        }.items():
            parts = [job.traffic[name] for job in jobs for name in names if name in job.traffic]
            time = max((part.runtime for part in parts), default=0.0)
            if time and not any("mixed" in job.traffic for job in jobs):
                seconds = sum(max(part.runtime, 1.0) for part in parts)
                ios = sum(p.ios if p.ios is not None else p.iops * p.runtime for p in parts)
                assert abs(found[f"{prefix}iops"] * time - ios) <= of_ios * ios + seconds
                moved = sum(part.bytes for part in parts)
                off = abs(found[f"{prefix}bandwidth"] * time - moved)
                assert off <= of_bytes * (moved or 1) + 2048 * seconds


@pytest.mark.parametrize(
    "name",
    [
        *(*TEXTS, *TERSE, *DOCUMENTS, "3.33-two-clients.json", "3.33-text-two-clients.txt"),
        *("3.33-randrw.json", "3.33-plain-json-group.json", "3.33-stonewall.json"),
    ],
)
def test_rates_times_the_longest_runtime_are_the_counts(name: str) -> None:
    sums_are_right(seed(name), 1e-3, 5e-3)


def untouched(case: tuple[str, str, int, str], linked: Callable[[str], bool]) -> None:
    """Every figure of a line that was left alone is what it was; `linked`: it follows from several lines.

    Those have their sums to fulfil.
    """
    name, text, at, _ = case
    before = figures(seed(name))
    try:
        after = figures(text)
    except ParseError:
        return
    for figure, (value, _) in after.items():
        was, line = before.get(figure, (None, at))
        if line != at and not linked(figure):
            assert value == pytest.approx(was, rel=1e-12), figure
    # a text's bandwidth is not checked against its bytes: both are rounded to a few digits
    sums_are_right(text, 0.025, math.inf if name in TEXTS else 2e-3)


@many(max_examples=examples(2500))
@given(damaged(TEXTS))
def test_text(case: tuple[str, str, int, str]) -> None:
    untouched(case, lambda figure: figure in DERIVED or figure.endswith((".iops", "depth.reached")))


@many(max_examples=examples(1000))
@given(damaged(DOCUMENTS))
def test_document(case: tuple[str, str, int, str]) -> None:
    # a percentile follows from all bins
    untouched(case, lambda figure: figure in DERIVED or ".p" in figure or figure == "depth.reached")


@many(max_examples=examples(2500))
@given(st.data())
def test_terse(data: st.DataObject) -> None:
    """A field too many or too few is an error; without one of two jobs the other's figures are its own."""
    text = seed(data.draw(st.sampled_from(TERSE)))
    fields = text.rstrip("\n").split(";")
    at = data.draw(st.integers(0, 60))
    how = data.draw(st.sampled_from(["drop", "twice", "word", "comma"]))
    if how == "drop":
        del fields[at]
    elif how == "twice":
        fields.insert(at, fields[at])
    elif how == "word":
        fields[at] = data.draw(st.sampled_from(["x", "-1", "", "1e9", "0x10", "NaN", "1 2"]))
    else:
        fields[at] = f"1,{fields[at]}"
    if at in (1, 2) and how in ("word", "comma"):
        return  # names may be anything
    try:
        found = parsed(";".join(fields))
    except ParseError:
        return
    assert how not in ("drop", "twice")  # what stands in no figure's place may be anything
    assert [metric.value for metric in found] == [metric.value for metric in parsed(text)]


NOISE = st.lists(st.sampled_from(FOREIGN), max_size=4)


@many(max_examples=examples(100))
@given(st.sampled_from(TEXTS + TERSE + DOCUMENTS), NOISE, NOISE)
def test_a_reader_finds_the_same_among_other_lines(
    name: str, before: list[str], after: list[str]
) -> None:
    alone = [one for one in reader.find_results(seed(name), "") if not one.trouble]
    text = "\n".join([*before, seed(name).rstrip("\n"), "", *after])
    found = reader.find_results(text, "")
    assert [one.metrics for one in found] == [one.metrics for one in alone]
    for one, other in zip(found, alone, strict=True):
        shifted = [metric.line - len(before) for metric in one.metrics]
        assert shifted == [metric.line for metric in other.metrics]


@many(max_examples=examples(100))
@given(damaged(TEXTS + TERSE + DOCUMENTS))
def test_a_reader_never_raises(case: tuple[str, str, int, str]) -> None:
    for one in text_reading.read_text(case[1], "x_bw.log").results:
        assert 1 <= one.first <= one.last <= case[1].count("\n") + 1


LOG = "500, 1948, 0, 0, 0\n500, 1930, 1, 0, 0\n1000, 2048, 0, 0, 0\n1001, 2040, 1, 0, 0\n1500, 7, 0, 0, 0\n"


@many(max_examples=examples(2500))
@given(st.data())
def test_log(data: st.DataObject) -> None:
    lines, at, _ = damage(data.draw, LOG.rstrip("\n").split("\n"))
    rows = {
        tuple(map(int, line.split(",")))[:3]
        for n, line in enumerate(LOG.split("\n")[:-1], 1)
        if n != at
    }
    try:
        runs = fio_log.parse_runs("\n".join(lines), "iops", (3, 33))
    except ParseError:
        return
    got = {
        (round(time * 1000), round(value), ("read", "write").index(run.direction))
        for run in runs
        for time, value in zip(run.times, run.values, strict=True)
        if run.direction in ("read", "write")
    }
    # The damaged line may say something else; no other does
    assert len(got - rows) <= 1, got - rows


HIST = "\n".join(
    f"{500 * n}, {n % 2}, 4096, " + ", ".join(["0"] * 20 + [str(n)] + ["0"] * 8)
    for n in range(1, 6)
)


@many(max_examples=examples(1500))
@given(st.data())
def test_histogram(data: st.DataObject) -> None:
    lines, at, _ = damage(data.draw, HIST.split("\n"))
    try:
        runs = fio_log.parse_histogram_runs("\n".join(lines))
    except ParseError:
        return
    found = {
        round(time * 1000): bins
        for run in runs
        for time, bins in zip(run.times, run.sample_bins, strict=True)
    }
    whole = fio_log.bin_latencies(29)[20]
    changed = [n for n in range(1, 6) if found.get(n * 500) != {whole: n}]
    assert len(set(changed) - {at}) <= 1  # whose time the damaged line may have taken


def test_long_lines_and_many_beginnings_take_linear_time() -> None:
    begun = (
        '{"fio version":',
        "a: (groupid=0, jobs=1): err= 0: ",
        "3;fio-3;a;0;0;1;1;1;1;",
        "a: (g=0): rw=",
        "a: (groupid=0, jobs=1): err= 0: clat percentiles (usec):" + "| 1.0th=[ 1]," * 10,
        "9" * 50,
    )
    for text in (part * 1000 for part in begun):
        assert all(one.trouble for one in reader.find_results(text, ""))
