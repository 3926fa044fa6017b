"""Each finding on its cases: a run, or the lines of a workload, and the sentences that are to be said of it.

`--accept` is not for these: a sentence is written by hand, and then shown to be said. It is for the rest of a finding,
its severity and where its numbers come from, in numbers.txt beside the cases (`pytest tests/agents/test_uuids.py
tests/analysis/test_findings.py --accept`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from operator import itemgetter
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from benchlab.analysis import evidence, finding
from benchlab.analysis.finding import Finding, Number
from tests.agents.conftest import accepted
from tests.each_case import check_each

__all__ = ["accepted"]

CASES = Path(__file__).parents[1] / "cases" / "findings"
KINDS = [*finding.run_findings(), *finding.line_findings()]


def cases(kind: str) -> list[dict[str, Any]]:
    paths = sorted((CASES / kind).glob("*.json"))
    return [case for path in paths for case in json.loads(path.read_text())]


def findings_of(kind: str, case: dict[str, Any]) -> list[Finding]:
    if "run" in case:
        return finding.run_findings()[kind].applies(from_json(evidence.Run, case["run"]))
    lines = [from_json(evidence.Line, row) for row in case["lines"]]
    return finding.line_findings()[kind].applies(lines)


def from_json(kind: Any, data: Any) -> Any:
    """Evidence of that kind; a ValueError names an unknown field."""
    if is_dataclass(kind):
        assert isinstance(kind, type)
        hints = get_type_hints(kind)
        unknown = set(data) - {field.name for field in fields(kind)}
        if unknown:
            raise ValueError(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
        return kind(**{name: from_json(hints[name], value) for name, value in data.items()})
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple and isinstance(data, list):
        return tuple(from_json(inner[0], item) for item in data)
    if origin is not None and origin is not UnionType and isinstance(data, Mapping):
        return {key: from_json(inner[1], value) for key, value in data.items()}
    return float("nan") if kind is float and data is None else data


def described(case: dict[str, Any], findings: list[Finding]) -> str:
    """All of its findings but their sentences."""
    lines = [case["case"]]
    for one in findings:
        lines.append(f"  {one.severity}, about {one.about!r}, runs {one.runs}")
        lines += [f"    {name}: {source(number)}" for name, number in one.numbers.items()]
    return "\n".join(lines) + "\n"


def source(number: Number) -> str:
    places = (
        ("run", number.run),
        ("figure", number.figure),
        ("device", number.device),
        ("metric", number.metric),
    )
    known = "".join(f", {name} {value}" for name, value in places if value)
    return f"{number.value:.4g} {number.unit}, {number.of}{known}"


def test_every_case_is_of_a_finding():
    assert {path.parent.name for path in CASES.glob("*/*.json")} == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_finding_names_where_its_numbers_come_from(kind, accepted):
    parts = [described(case, findings_of(kind, case)) for case in cases(kind) if case["finds"]]
    accepted(CASES / kind / "numbers.txt", "\n".join(parts))


@pytest.mark.parametrize("kind", KINDS)
def test_a_finding_says_what_its_cases_show(kind):
    check_each(lambda case: check_case(kind, case), cases(kind), name=itemgetter("case"))


def check_case(kind: str, case: dict[str, Any]) -> None:
    found = findings_of(kind, case)
    assert [one.sentence for one in found] == case["finds"]
    for one in found:
        assert not one.sentence.endswith(".") and one.numbers
        assert len({(each.about) for each in found}) == len(found), "`about` tells them apart"


@pytest.mark.parametrize("kind", KINDS)
def test_a_finding_has_a_case_that_finds_and_one_that_does_not(kind):
    known = cases(kind)
    assert any(one["finds"] for one in known) and any(not one["finds"] for one in known)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_of_which_nothing_is_known_is_found_nothing_of(kind):
    nothing = evidence.Run(tool="fio")
    if kind in finding.run_findings():
        assert finding.run_findings()[kind].applies(nothing) == []
    else:
        alone = evidence.Line("a", "w", (nothing,), (1,))
        assert finding.line_findings()[kind].applies([alone]) == []
        assert finding.line_findings()[kind].applies([alone, alone]) == []


def test_a_misspelt_field_is_named():
    with pytest.raises(ValueError, match="Access has no blok"):
        from_json(evidence.Run, {"tool": "fio", "access": {"blok": 4096}})
