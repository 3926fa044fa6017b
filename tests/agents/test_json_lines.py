"""Lines of a JSON text: along what was read of it as by looking at the text alone, or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agents.contracts import AgentError
from agents.drivers import text_reading
from agents.outputs import fio_json, fio_load
from benchlab.testing.profiles import examples
from tests.each_case import check_each

CASES = Path(__file__).parents[1] / "cases"
RANDRW = CASES / "tools" / "fio" / "3.33-randrw.json"


def whole(raw: bytes) -> dict[str, Any] | None:
    try:
        return fio_load.load_document(raw).whole
    except AgentError:
        return None


def outputs() -> dict[str, bytes]:
    """Those of fio's among all cases that can be read."""
    texts = {
        str(path.relative_to(CASES)): path.read_bytes()
        for path in sorted(CASES.rglob("*"))
        if path.is_file()
    }
    return {
        name: raw for name, raw in texts.items() if b'"jobname"' in raw and whole(raw) is not None
    }


def asked(line_of: dict[str, int]) -> dict[str, int]:
    """Without percentiles of which nobody asks for the line."""
    ours = fio_json.SOME["percentile"]
    return {
        path: line
        for path, line in line_of.items()
        if ".percentile." not in path or ours((path.partition(".percentile.")[2],))
    }


def test_of_every_output_of_fios_they_are_the_same():
    every = outputs()
    assert len(every) > 40
    check_each(check_lines, every.values(), name={raw: name for name, raw in every.items()}.get)


def check_lines(raw):
    text, said = raw.decode(), whole(raw)
    assert said is not None
    known = fio_load.along(text, said)
    assert known in (None, fio_load.lines_by_path(text))
    assert (known is None) == (b'" : ' not in raw)  # written anew by another program
    few = fio_load.along(text, said, fio_json.UNASKED, fio_json.SOME)
    assert few is None or few == asked(fio_load.lines_by_path(text, fio_json.UNASKED))


FUZZ = settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))
keys = st.sampled_from(["a", "b", "jobs", "bins", "percentile", "x.y", "{", ' : "', "é"])
plain = st.none() | st.booleans() | st.integers() | st.text('ab":{}[], \n\\é', max_size=6)
values = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4)
)


@FUZZ
@given(st.dictionaries(keys, values, max_size=4), st.booleans())
@example({"a": {"bins": {"a": None}}}, False)
def test_of_any_object_laid_out_as_fio_does_they_are_the_same_or_none(said, narrow):
    text = json.dumps(
        said, indent=None if narrow else 2, separators=(",", " : "), ensure_ascii=False
    )
    known = fio_load.along(text, said, frozenset())
    assert known is None or known == fio_load.lines_by_path(text, frozenset())


@FUZZ
@given(st.text('{}[]":, \nab\\1', max_size=40), st.dictionaries(keys, values, max_size=3))
def test_it_never_raises(text, said):
    fio_load.along(text, said)


def test_an_object_too_deep_is_left_to_the_other():
    said: dict[str, Any] = {}
    for _ in range(300):
        said = {"a": said}
    assert fio_load.along(json.dumps(said, separators=(",", " : ")), said) is None


@pytest.mark.parametrize("around", ["{}", "\n\n{}\n\n", " {}"])
def test_a_result_that_is_all_of_a_text_is_found_as_beside_others(around):
    """A reader that knows a text by its beginning is asked alone; what is found is the same."""
    text = RANDRW.read_text()
    alone = text_reading.read_text(around.replace("{}", text), "a.json")
    beside = text_reading.read_text("x\n" + text, "a.json")
    assert len(alone.results) == len(beside.results) == 1 and alone.unread == ()
    assert alone.results[0].metrics == beside.results[0].metrics
