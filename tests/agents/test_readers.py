"""Every reader against its cases: texts as people paste and upload them, and what must be found in them.

`tests/cases/readers/<kind>/NAME.expected.json` stands beside the text NAME.<anything> (whose file name is given to the
reader as the file's, unless "name" is). It is `{"note", "found": [{"first", "last", "title", "metrics":
[[name, value, unit, line, labels?], …], …any other field of Found}]}`; "trouble" holds a part of the message. "unread"
lists the lines, as [first, last], that no reader at all knows.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agents.drivers import registry, text_reading
from agents.texts import pasting
from agents.texts.parsed_result import LineIndex, ParsedResult
from tests.each_case import check_each

CASES = Path(__file__).parents[1] / "cases" / "readers"
SUFFIX = ".expected.json"


def cases(kind: str) -> list[Path]:
    return sorted((CASES / kind).glob(f"*{SUFFIX}"))


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix(SUFFIX)}"


def text_of(path: Path) -> tuple[str, str]:
    stem = path.name.removesuffix(SUFFIX)
    (found,) = (p for p in path.parent.iterdir() if p != path and p.name.startswith(f"{stem}."))
    return pasting.strip_marks(found.read_text().replace("\r\n", "\n")).text, found.name


def plain(one: ParsedResult, wanted: dict[str, Any]) -> dict[str, Any]:
    """The fields of a Found that the case speaks of."""
    shown: dict[str, Any] = {}
    for key in wanted:
        value = getattr(one, key)
        if key == "metrics":
            value = [[m.name, m.value, m.unit.value, m.line, *([dict(m.labels)] if m.labels else [])]
                     for m in value]  # fmt: skip
        if key == "series":
            value = [
                [s.device, s.metric, s.unit.value, list(s.times), list(s.values)] for s in value
            ]
        shown[key] = list(value) if isinstance(value, tuple) else value
    return shown


def same(got: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and isinstance(got, float):
        return got == pytest.approx(wanted, rel=1e-9)
    if isinstance(wanted, list) and isinstance(got, list):
        return len(got) == len(wanted) and all(map(same, got, wanted))
    return bool(got == wanted)


@pytest.mark.parametrize("kind", registry.all_readers())
def test_a_result_is_found_again_in_its_own_lines(kind: str) -> None:
    """So it is kept: each result with the lines that it says are its own, and reparsed from them."""
    check_each(check_own_lines, cases(kind), name_of)


def check_own_lines(path: Path) -> None:
    text, name = text_of(path)
    name = json.loads(path.read_text()).get("name", name)
    places = LineIndex(text)
    for one in text_reading.read_text(text, name).results:
        if one.trouble or one.described:
            continue
        again = registry.all_readers()[one.kind].find_results(one.own_text(places), name)
        assert [len(again), *(other.trouble for other in again)] == [1, ""], (one.first, one.title)
        assert figures(again[0]) == figures(one)
        assert again[0].series == one.series


def figures(one: ParsedResult) -> list[Any]:
    return [(m.name, m.value, m.unit, m.labels, m.note) for m in one.metrics]


@pytest.mark.parametrize("kind", registry.all_readers())
def test_text(kind: str) -> None:
    check_each(check_text, cases(kind), name_of)


def check_text(path: Path) -> None:
    expected = json.loads(path.read_text())
    text, name = text_of(path)
    kind = path.parent.name
    told = text_reading.read_text(text, expected.get("name", name))
    found = [one for one in told.results if one.kind == kind]
    assert len(found) == len(expected["found"]), [one.title for one in found]
    for one, wanted in zip(found, expected["found"], strict=True):
        if trouble := wanted.pop("trouble", ""):
            assert trouble in one.trouble
            assert not one.metrics
        else:
            assert not one.trouble
        for key, value in plain(one, wanted).items():
            assert same(value, wanted[key]), f"{key}: {value} is not {wanted[key]}"
    if "unread" in expected:
        assert [[u.first, u.last] for u in told.unread] == expected["unread"]


@pytest.mark.parametrize("kind", registry.all_readers())
def test_every_figure_stands_in_its_line_or_follows_from_the_block(kind: str) -> None:
    check_each(check_places, cases(kind), name_of)


def check_places(path: Path) -> None:
    text, name = text_of(path)
    for one in text_reading.read_text(text, name).results:
        assert 1 <= one.first <= one.last <= text.count("\n") + 1
        assert all(one.first <= metric.line <= one.last for metric in one.metrics)


@pytest.mark.parametrize("kind", registry.all_readers())
def test_every_reader_has_its_cases(kind: str) -> None:
    assert list((CASES / kind).glob(f"*{SUFFIX}")), f"tests/cases/readers/{kind} has no case"


@pytest.mark.parametrize("kind", registry.all_readers())
def test_foreign_texts_hold_nothing(kind: str) -> None:
    here = Path(__file__).read_text()
    for text in ("", "\n", "{}", "[]", "null", here, "\x00\x7f" * 50, "1 2 3\n" * 40):
        assert registry.all_readers()[kind].find_results(text, "") == []


def test_documents_glued_together_are_read_each() -> None:
    """`fio … >> log.json`, several times: a document begins in the line in which the one before ends."""
    folder = CASES.parent / "tools" / "fio"
    one, other = (
        (folder / name).read_text().strip() for name in ("3.33-randrw.json", "3.16-single.json")
    )
    glued = f"{one}{other}"
    alone = [text_reading.read_text(text).results[0] for text in (one, other)]
    together = text_reading.read_text(glued).results
    assert [figures(result) for result in together] == [figures(result) for result in alone]
    assert together[0].last == together[1].first == one.count("\n") + 1
    cut = text_reading.read_text(f"{one}{other[:-400]}").results
    assert [bool(result.trouble) for result in cut] == [False, True]
