"""Each finding on its cases: a run, or the lines of a workload, and the sentences that are to be said of it.

`--accept` is not for these: a sentence is written by hand, and then shown to be said.
"""

from __future__ import annotations

import json
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from benchlab.analysis import evidence, finding
from tests.each_case import check_each

CASES = Path(__file__).parents[1] / "cases" / "findings"


KINDS = [*finding.of_runs(), *finding.of_lines()]


def cases(kind: str) -> list[dict[str, Any]]:
    paths = sorted((CASES / kind).glob("*.json"))
    return [case for path in paths for case in json.loads(path.read_text())]


def test_every_case_is_of_a_finding():
    assert {path.parent.name for path in CASES.glob("*/*.json")} == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_finding_says_what_its_cases_show(kind):
    check_each(lambda case: check_case(kind, case), cases(kind), name=itemgetter("case"))


def check_case(kind, case):
    if "run" in case:
        found = finding.of_runs()[kind].applies(evidence.run_from_json(case["run"]))
    else:
        found = finding.of_lines()[kind].compares(evidence.lines_from_json(case["lines"]))
    assert [one.says for one in found] == case["finds"]
    for one in found:
        assert not one.says.endswith(".") and one.numbers
        assert len({(each.about) for each in found}) == len(found), "`about` tells them apart"


@pytest.mark.parametrize("kind", KINDS)
def test_a_finding_has_a_case_that_finds_and_one_that_does_not(kind):
    known = cases(kind)
    assert any(one["finds"] for one in known) and any(not one["finds"] for one in known)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_of_which_nothing_is_known_is_found_nothing_of(kind):
    nothing = evidence.Run(tool="fio")
    if kind in finding.of_runs():
        assert finding.of_runs()[kind].applies(nothing) == []
    else:
        alone = evidence.Line("a", "w", (nothing,), (1,))
        assert finding.of_lines()[kind].compares([alone]) == []
        assert finding.of_lines()[kind].compares([alone, alone]) == []


def test_a_misspelt_field_is_named():
    with pytest.raises(ValueError, match="Access has no blok"):
        evidence.run_from_json({"tool": "fio", "access": {"blok": 4096}})
