"""For a night's run (benchlab/testing/journal.py): notes each test that passed, and leaves out those that had."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

import pytest

from benchlab.testing import journal


def register(config: pytest.Config) -> None:
    if place := os.environ.get(journal.JOURNAL):
        before = frozenset(Path(os.environ[journal.BEFORE]).read_text().splitlines())
        # The controller of pytest-xdist hears of every test
        writes = not hasattr(config, "workerinput")
        config.pluginmanager.register(Passing(Path(place), before, writes), "benchlab-passing")


class Passing:
    def __init__(self, place: Path, before: frozenset[str], writes: bool) -> None:
        self.place, self.before, self.writes = place, before, writes
        self.bad: set[str] = set()
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        again = [item for item in items if item.nodeid not in self.before]
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in self.before])
        items[:] = again

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test has passed when it was taken down, too."""
        self.seconds[report.nodeid] += report.duration
        if not report.passed:
            self.bad.add(report.nodeid)
        if report.when == "teardown" and report.nodeid not in self.bad and self.writes:
            journal.note(self.place, report.nodeid, self.seconds[report.nodeid])
