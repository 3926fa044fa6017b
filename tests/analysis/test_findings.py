"""Each finding on its cases: a run, or the lines of a workload, and the sentences that are to be said of it.

`--accept` is not for these: a sentence is written by hand, and then shown to be said.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchlab.analysis import evidence, finding

CASES = Path(__file__).parents[1] / "cases" / "findings"


def cases() -> list:
    paths = sorted(CASES.glob("*/*.json"))
    told = [(path.parent.name, one) for path in paths for one in json.loads(path.read_text())]
    return [pytest.param(kind, one, id=f"{kind}: {one['case']}") for kind, one in told]


@pytest.mark.parametrize(("kind", "case"), cases())
def test_a_finding_says_what_its_case_shows(kind, case):
    if "run" in case:
        found = finding.of_runs()[kind].applies(evidence.run_from_json(case["run"]))
    else:
        found = finding.of_lines()[kind].compares(evidence.lines_from_json(case["lines"]))
    assert [one.says for one in found] == case["finds"]
    for one in found:
        assert not one.says.endswith(".") and one.numbers
        assert len({(each.about) for each in found}) == len(found), "`about` tells them apart"


@pytest.mark.parametrize("kind", [*finding.of_runs(), *finding.of_lines()])
def test_a_finding_has_a_case_that_finds_and_one_that_does_not(kind):
    known = [one for path in (CASES / kind).glob("*.json") for one in json.loads(path.read_text())]
    assert any(one["finds"] for one in known) and any(not one["finds"] for one in known)


@pytest.mark.parametrize("kind", [*finding.of_runs(), *finding.of_lines()])
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
