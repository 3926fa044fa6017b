"""Tests of which a run by day takes a share: those marked `one_in(n)`, and most of the rig's in CI.

Drawn by the run's seed, which is the commit's in CI: over some days all are tried, and a run can be had again. Whom a
person names by a path or a word runs always.
"""

from __future__ import annotations

from collections import defaultdict

import pytest

from benchlab.testing import profiles

MARK = "one_in"


def draw(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of each marked test's cases, one in so many as its mark says."""
    tests: dict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if mark := item.get_closest_marker(MARK):
            tests[item.nodeid.partition("[")[0], mark.args[0]].append(item)
    drawn = {
        item for (name, n), cases in tests.items() for item in profiles.share(name, cases, n)
    }
    left_out = {item for cases in tests.values() for item in cases} - drawn
    leave_out(config, items, left_out)


def leave_out(config: pytest.Config, items: list[pytest.Item], some: set[pytest.Item]) -> None:
    """Remove them from the run, and tell pytest."""
    config.hook.pytest_deselected(items=[item for item in items if item in some])
    items[:] = [item for item in items if item not in some]
