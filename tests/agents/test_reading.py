"""Reading a text, whatever stands around it, and what nobody knows of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agents.drivers import text_reading
from agents.readers import fio
from agents.texts.parsed_result import LineIndex, ParsedResult, UnreadLines

CASE = Path(__file__).parents[1] / "cases" / "tools" / "fio" / "3.33-randrw.json"


def naive(text: str, found: list[ParsedResult]) -> list[UnreadLines]:
    """By a list of all lines, and of those that somebody has."""
    lines = text.split("\n")
    known = {number for one in found for number in range(one.first, one.last + 1)}
    runs: list[list[int]] = [[]]
    for number, line in enumerate(lines, 1):
        if number in known:
            runs.append([])
        elif line.strip():
            runs[-1].append(number)
    return [
        UnreadLines(
            run[0], run[-1], lines[run[0] - 1].strip()[: text_reading.MAX_UNREAD_LINE_CHARACTERS]
        )
        for run in runs
        if run
    ]


Text = st.text(st.sampled_from("a \t\n\x0b\xa0"), max_size=60)


Parts = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 5)), max_size=4)


@example("\n", [(1, 5)], 1)
@example("a\n\nb\n", [(1, 0), (2, 2)], 1)
@given(Text, Parts, st.integers(1, 9))
def test_unread_lines_are_those_of_a_list_of_all(
    text: str, parts: list[tuple[int, int]], step: int
) -> None:
    last = text.count("\n") + 1
    found = [
        ParsedResult("k", first, min(first + more, last), "t")
        for first, more in parts
        if first <= last
    ]
    kept, LineIndex.STEP = LineIndex.STEP, step
    try:
        assert list(text_reading._unread(text, found)) == naive(text, found)
        lines, places = text.split("\n"), LineIndex(text)
        for one in found:
            assert one.own_text(places) == "\n".join(lines[one.first - 1 : one.last])
    finally:
        LineIndex.STEP = kept


DATA = json.loads(CASE.read_text())


@pytest.mark.parametrize(
    "shown",
    [
        CASE.read_text(),
        json.dumps(DATA),
        json.dumps(DATA, indent=0),
        json.dumps(DATA, indent=4).replace("\n", "\n    "),
        '{"kept": [' + json.dumps(DATA, indent=2) + "]}",
    ],
    ids=["fio", "one-line", "flat", "indented", "within"],
)
def test_a_document_ends_with_its_own_brace(shown: str) -> None:
    """However it is laid out, and whatever braces follow it."""
    alone = text_reading.read_text(CASE.read_text()).results[0]
    later = shown.replace("fio-3.33", "fio-3.34").replace(str(DATA["timestamp"])[:4], "1801")
    text = f"$ fio a.fio\n{shown}\n$ cat b.json\n{{}}\n}} {{\n{later}\n}}\n"
    one, other = text_reading.read_text(text).results
    for read, version in ((one, "3.33"), (other, "3.34")):
        assert [(m.name, m.value) for m in read.metrics] == [
            (m.name, m.value) for m in alone.metrics
        ]
        assert (read.title, read.version) == (alone.title, version)
        lines = text.split("\n")[read.first - 1 : read.last]
        assert '"fio version"' in "\n".join(lines) and len(lines) == shown.strip().count("\n") + 1


def test_a_long_document_says_its_options_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end is not looked for brace by brace."""
    (alone,) = text_reading.read_text(CASE.read_text()).results
    assert alone.title and alone.version and alone.options and alone.outstanding
    monkeypatch.setattr(fio, "BIG", 1000)
    assert text_reading.read_text(CASE.read_text()).results == (alone,)
