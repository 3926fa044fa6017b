"""Counts and times of a run's tests, from pytest's JUnit reports; and the table of what each file proves."""

from __future__ import annotations

import ast
import xml.etree.ElementTree as ET  # nosec B405  # pytest's own report
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchlab.up.bootstrap import ROOT

SLOWEST = 10
LONGEST_REASON = 300  # characters


@dataclass(frozen=True)
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(
            self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped
        )

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


@dataclass(frozen=True)
class Case:
    """One test: its file ("tests/agents/test_guard.py"), its name with parameters, how long it took with its set-up
    and tear-down, and why it failed ("" where it did not)."""

    file: str
    name: str
    seconds: float
    reason: str = ""


@dataclass(frozen=True)
class Result:
    """One group: its wall time, and its tests."""

    title: str
    seconds: float
    count: Count
    cases: tuple[Case, ...]


def read(path: Path) -> tuple[Count, tuple[Case, ...]]:
    """Counts and times of a JUnit report; an error (a fixture that broke) is a failure, no report is one too."""
    try:
        suites = list(ET.parse(path).getroot().iter("testsuite"))  # nosec B314  # pytest's own report
    except (OSError, ET.ParseError):
        return Count(failed=1), ()
    total = Count()
    for suite in suites:
        number = {key: int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")}
        failed = number["failures"] + number["errors"]
        passed = number["tests"] - failed - number["skipped"]
        total += Count(passed, failed, number["skipped"])
    return total, tuple(_case(one) for suite in suites for one in suite.iter("testcase"))


def _case(element: ET.Element) -> Case:
    file = element.get("classname", "").replace(".", "/") + ".py"
    broken = [one for one in element if one.tag in ("failure", "error")]
    reason = "; ".join(_reason(one) for one in broken)
    return Case(file, element.get("name", ""), float(element.get("time", 0)), reason)


def _reason(element: ET.Element) -> str:
    """One line of it, never empty."""
    words = " ".join((element.get("message") or element.tag).split())
    return words[:LONGEST_REASON]


def earlier(passed: Mapping[str, float]) -> Result:
    """Result of all that had passed before a night's run went on: seconds by node id. The run's own time is none of
    those.
    """
    cases = tuple(_named(test, seconds) for test, seconds in passed.items())
    return Result("before it was interrupted", 0.0, Count(passed=len(passed)), cases)


def _named(test: str, seconds: float) -> Case:
    file, _, name = test.partition("::")
    return Case(file, name, seconds)


def tell(results: Sequence[Result]) -> None:
    """Each group's share of the time, and its slowest tests."""
    whole = sum(result.seconds for result in results) or 1.0
    for result in results:
        share = result.seconds / whole
        print(f"\n{result.title}: {result.seconds:.0f} s ({share:.0%}), {result.count}")
        for case in sorted(result.cases, key=lambda case: -case.seconds)[:SLOWEST]:
            print(f"  {case.seconds:6.1f} s  {case.file}::{case.name}")


def tell_failed(results: Sequence[Result]) -> None:
    """Each test that failed, and why: told last, for of a long output the end is what is kept and read."""
    for case in (case for result in results for case in result.cases if case.reason):
        print(f"FAILED {case.file}::{case.name}: {case.reason}")


def table(results: Iterable[Result]) -> str:
    """Markdown: file, tests, seconds, what it proves; the longest first."""
    seconds: dict[str, float] = defaultdict(float)
    tests: dict[str, int] = defaultdict(int)
    for case in (case for result in results for case in result.cases):
        seconds[case.file] += case.seconds
        tests[case.file] += 1
    lines = ["| file | tests | seconds | what it proves |", "|---|---|---|---|"]
    for file in sorted(seconds, key=lambda file: -seconds[file]):
        lines.append(f"| {file} | {tests[file]} | {seconds[file]:.1f} | {proves(ROOT / file)} |")
    return "\n".join(lines) + "\n"


def proves(path: Path) -> str:
    """The first sentence of a test file's docstring; "" where there is none."""
    try:
        words = ast.get_docstring(ast.parse(path.read_text())) or ""
    except (OSError, SyntaxError):
        return ""
    first = " ".join(words.split("\n\n")[0].split())
    return first.replace("|", "\\|")
