# SPDX-License-Identifier: Apache-2.0
"""Counts, times and failures of a run's tests, from pytest's JUnit reports; and the table of what each file proves."""

from __future__ import annotations

import ast
import shlex

# pytest's own report
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from benchlab.up.bootstrap import ROOT

SLOWEST = 10
# characters
LONGEST_REASON = 300
# A long output is cut to its end: failures, reasons and commands fit into the last 40 lines.
MOST_LINES = 36
# A run with more flaky tests than that fails: something is wrong with the tests or the code.
MOST_FLAKY = 3
# Property of a failed test in the JUnit report (tests/failures.py): timing is part of it, so it may run once more.
SECOND_CHANCE = "second chance"


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
    and tear-down, and why it failed at first ("" where it did not).

    `flaky`: it passed when it ran once more. A group that crashed is a case without a file.
    """

    file: str
    name: str
    seconds: float
    reason: str = ""
    skipped: bool = False
    second_chance: bool = False
    flaky: bool = False

    @property
    def nodeid(self) -> str:
        return f"{self.file}::{self.name}" if self.file else self.name

    @property
    def failed(self) -> bool:
        return bool(self.reason) and not self.flaky


@dataclass(frozen=True)
class Result:
    """One group: its wall time, and its tests."""

    title: str
    seconds: float
    count: Count
    cases: tuple[Case, ...]


def read(path: Path) -> tuple[Count, tuple[Case, ...]]:
    """Counts and times of a JUnit report. An error in a fixture or a missing report is a failure."""
    try:
        suites = list(ET.parse(path).getroot().iter("testsuite"))  # noqa: S314  # pytest's own report
    except (OSError, ET.ParseError):
        return Count(failed=1), ()
    total = Count()
    for suite in suites:
        number = {key: int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")}
        failed = number["failures"] + number["errors"]
        passed_tests = number["tests"] - failed - number["skipped"]
        total += Count(passed_tests, failed, number["skipped"])
    return total, tuple(_case(element) for suite in suites for element in suite.iter("testcase"))


def _case(element: ET.Element) -> Case:
    file = element.get("classname", "").replace(".", "/") + ".py"
    broken = [child for child in element if child.tag in ("failure", "error")]
    reason = "; ".join(_reason(child) for child in broken)
    properties = {prop.get("name") for prop in element.iter("property")}
    return Case(
        file,
        element.get("name", ""),
        float(element.get("time", 0)),
        reason,
        skipped=element.find("skipped") is not None,
        second_chance=SECOND_CHANCE in properties,
    )


def _reason(element: ET.Element) -> str:
    """One line of the reason, never empty."""
    words = " ".join((element.get("message") or element.tag).split())
    return words[:LONGEST_REASON]


def earlier(seconds_by_test: Mapping[str, float]) -> Result:
    """Result of the tests that had passed before a nightly run was resumed; `seconds` by node id.

    Their time is not part of the run's own.
    """
    cases = tuple(_case_named(test, seconds) for test, seconds in seconds_by_test.items())
    return Result("before it was interrupted", 0.0, Count(passed=len(seconds_by_test)), cases)


def _case_named(test: str, seconds: float) -> Case:
    file, _, name = test.partition("::")
    return Case(file, name, seconds)


def print_shares(results: Sequence[Result]) -> None:
    """Each group's share of the time, and its slowest tests."""
    whole = sum(result.seconds for result in results) or 1.0
    for result in results:
        share = result.seconds / whole
        print(f"\n{result.title}: {result.seconds:.0f} s ({share:.0%}), {result.count}")
        for case in sorted(result.cases, key=lambda case: -case.seconds)[:SLOWEST]:
            print(f"  {case.seconds:6.1f} s  {case.file}::{case.name}")


def excused(results: Sequence[Result], passed_again: Set[str]) -> list[Result]:
    """The same results with the tests of these node ids marked as flaky and passed."""
    return [_excused(result, passed_again) for result in results]


def _excused(result: Result, passed_again: Set[str]) -> Result:
    cases = tuple(
        replace(case, flaky=True) if case.failed and case.nodeid in passed_again else case
        for case in result.cases
    )
    flaky = sum(case.flaky for case in cases)
    return replace(result, cases=cases, count=result.count + Count(passed=flaky, failed=-flaky))


def closing_lines(results: Sequence[Result], command: str) -> list[str]:
    """The last lines of a run: each flaky and each failed test, why it failed, and the command that repeats it.

    `command` is the beginning of that command, with profile and seed.
    """
    cases = [case for result in results for case in result.cases]
    lines = [f"FLAKY {case.nodeid}: {case.reason}" for case in cases if case.flaky]
    if len(lines) > MOST_FLAKY:
        lines.append(f"More than {MOST_FLAKY} tests are flaky, so this run is red.")
    return [*lines, *_failures([case for case in cases if case.failed], command, len(lines))]


def _failures(failed: Sequence[Case], command: str, used: int) -> list[str]:
    """Three lines for each failed test; if those are too many, three and then one for each file."""
    lines = [line for case in failed for line in _failure(case, command)]
    if len(lines) + used <= MOST_LINES:
        return lines
    by_file: dict[str, list[Case]] = defaultdict(list)
    for case in failed:
        by_file[case.file].append(case)
    lines = [line for file in by_file.items() for line in _failures_of(*file, command)]
    if len(lines) + used <= MOST_LINES:
        return lines
    lines = [f"FAILED {file}: {_names(cases)}" for file, cases in by_file.items()]
    return [*lines[: MOST_LINES - used], f"  {command} {' '.join(by_file)}"]


def _failure(case: Case, command: str) -> tuple[str, ...]:
    again = f"{command} {shlex.quote(case.nodeid)}" if case.file else command
    return f"FAILED {case.nodeid}", f"  {case.reason}", f"  {again}"


def _failures_of(file: str, cases: Sequence[Case], command: str) -> tuple[str, ...]:
    if len(cases) == 1:
        return _failure(cases[0], command)
    return (
        f"FAILED {file}: {_names(cases)}",
        f"  {cases[0].name}: {cases[0].reason}",
        f"  {command} {file}",
    )


def _names(cases: Sequence[Case]) -> str:
    """Functions with how many of their cases failed: "test_a, test_b (12)"."""
    counts = Counter(case.name.partition("[")[0] for case in cases)
    return ", ".join(name if n == 1 else f"{name} ({n})" for name, n in counts.items())


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
