"""Tests of which quick and ci run a share: those marked `one_in(n)`, the slow ones, and most of the rig's in ci.

The run's seed draws them: the stored one always the same, exploration others. A test named on the command line always
runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pytest

from benchlab.testing import profiles

MARK = "one_in"
# Of what is marked `slow`, which quick leaves out, unless its own mark says another
SLOW_ONE_IN = 2
# What quick leaves out and ci runs whole
LEFT_TO_CI = (pytest.mark.slow, pytest.mark.one_in(1))


def draw(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of each such test's cases, one in so many."""
    tests: dict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if (n := one_in(item)) > 1:
            tests[item.nodeid.partition("[")[0], n].append(item)
    drawn = {item for (name, n), cases in tests.items() for item in profiles.share(name, cases, n)}
    left_out = {item for cases in tests.values() for item in cases} - drawn
    leave_out(config, items, left_out)


def quick_has_first(cases: Iterable[object]) -> list[object]:
    """Cases for a test that takes seconds with each: quick runs the first, ci all of them."""
    first, *others = cases
    return [first, *(pytest.param(one, marks=LEFT_TO_CI) for one in others)]


def one_in(item: pytest.Item) -> int:
    """By its nearest mark; of the slow ones that need neither a host nor a browser, SLOW_ONE_IN."""
    if mark := item.get_closest_marker(MARK):
        return int(mark.args[0])
    plain = not any(item.get_closest_marker(name) for name in ("rig", "browser", "alone"))
    return SLOW_ONE_IN if plain and item.get_closest_marker("slow") else 1


def leave_out(config: pytest.Config, items: list[pytest.Item], some: set[pytest.Item]) -> None:
    """Remove them from the run, and tell pytest."""
    config.hook.pytest_deselected(items=[item for item in items if item in some])
    items[:] = [item for item in items if item not in some]
