"""A pytest plugin for bench_mutants: records which tests execute watched lines, or runs tests in a given order.

What to do stands in the JSON file that the environment names. Lines are traced in watched functions alone, for a
trace of all lines would make the tests ten times as slow.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

TASK = "BENCHLAB_MUTANTS"


def pytest_configure(config: pytest.Config) -> None:
    task = json.loads(Path(os.environ[TASK]).read_text())
    plugin = Order(task["tests"]) if "tests" in task else Recorder(**task)
    config.pluginmanager.register(plugin, "benchlab-mutants")


class Order:
    """Runs these tests alone, in this order."""

    def __init__(self, tests: list[str]) -> None:
        self.position = {test: number for number, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        chosen = [item for item in items if item.nodeid in self.position]
        items[:] = sorted(chosen, key=lambda item: self.position[item.nodeid])


class Recorder:
    """Writes what each passing test executed: watched lines, and functions of watched modules or names."""

    def __init__(
        self, root: str, lines: dict[str, list[int]], names: list[str], record: str
    ) -> None:
        self.root = f"{root}/"
        self.lines = {path: frozenset(numbers) for path, numbers in lines.items()}
        self.names = frozenset(names)
        self.record = Path(record)
        self.watched: dict[CodeType, frozenset[int]] = {}
        self.used: dict[CodeType, tuple[str, ...]] = {}
        self.reports: dict[str, dict[str, Any]] = {}
        self.begin()

    def begin(self) -> None:
        self.open_lines: dict[CodeType, set[int]] = {}
        self.hits: defaultdict[str, set[int]] = defaultdict(set)
        self.hit_names: set[str] = set()
        self.shared_s = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object]
    ) -> Generator[None, object, object]:
        """What several tests share, a database above all, is no cost of the first of them."""
        begun = time.monotonic()
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                self.shared_s += time.monotonic() - begun

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self.begin()
        begun = time.monotonic()
        threading.settrace(self.trace)
        sys.settrace(self.trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            self.reports.setdefault(item.nodeid, {"passed": True}).update(
                seconds=max(0.001, time.monotonic() - begun - self.shared_s),
                lines={path: sorted(numbers) for path, numbers in self.hits.items()},
                names=sorted(self.hit_names),
            )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.reports.setdefault(report.nodeid, {})["passed"] = False

    def pytest_sessionfinish(self) -> None:
        passed = {test: report for test, report in self.reports.items() if report.pop("passed")}
        self.record.write_text(json.dumps(passed))

    def trace(self, frame: FrameType, event: str, argument: object) -> Any:
        """Python calls this at each function's start; lines are traced where a line is still open."""
        code = frame.f_code
        if code not in self.watched:
            self.classify(code)
        self.hit_names.update(self.used[code])
        if not self.watched[code]:
            return None
        path = self.relative(code)
        open_lines = self.open_lines.setdefault(code, set(self.watched[code]))
        return self.tracer(path, open_lines) if open_lines else None

    def classify(self, code: CodeType) -> None:
        ours = code.co_filename.startswith(self.root) and "/tests/" not in code.co_filename
        watched = self.lines.get(self.relative(code), frozenset()) if ours else frozenset()
        own = {line for _, _, line in code.co_lines()}
        self.watched[code] = watched & own
        self.used[code] = tuple(self.names.intersection(code.co_names)) if ours else ()
        if ours and self.relative(code) in self.lines:
            self.used[code] += (self.relative(code),)

    def relative(self, code: CodeType) -> str:
        return code.co_filename.removeprefix(self.root)

    def tracer(self, path: str, open_lines: set[int]) -> Any:
        def trace_lines(frame: FrameType, event: str, argument: object) -> Any:
            if frame.f_lineno in open_lines:
                open_lines.discard(frame.f_lineno)
                self.hits[path].add(frame.f_lineno)
            return trace_lines

        return trace_lines
