"""Shared by all tests: the stores, the run's profile and seed, and the report of a test that failed."""

from __future__ import annotations

import gc
import itertools
import os
from collections.abc import Generator

import pytest

from benchlab import garbage
from benchlab.testing import profiles
from tests import bare, failures, limits, passing, seeding, shares

bare.begin()  # before anything of Django is loaded: people.py is, as a plugin
pytest_plugins = ["tests.people", "tests.programs"]

# What proves disks blank asserts in helpers: say what was there instead. Before anything imports them.
pytest.register_assert_rewrite("tests.rig.blank", "tests.rig.bench", "tests.rig.lanes")


def pytest_configure(config: pytest.Config) -> None:
    profiles.seed()  # drawn before any process of pytest-xdist is started: all draw the same
    seeding.register(config)
    failures.register(config)
    limits.register(config)
    passing.register(config)


# Folders whose tests wait for processes, each for seconds: begun last, they are what the others wait for.
LONG = ("tests/chaos/", "tests/dynamo/", "tests/runs/", "tests/testing/", "tests/up/")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get(profiles.WHOLE_GROUP):
        shares.draw(config, items)
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if processes > 1:
        items[:] = long_first(items, processes)


def long_first(items: list[pytest.Item], processes: int) -> list[pytest.Item]:
    """In as many parts as there are processes, each beginning with its share of the long files; a file stays whole."""
    files = [list(group) for _, group in itertools.groupby(items, key=lambda item: item.path)]
    long = [file for file in files if file[0].nodeid.startswith(LONG)]
    parts: list[list[pytest.Item]] = [[] for _ in range(processes)]
    for number, file in enumerate(long):
        parts[number % processes].extend(file)
    for file in (file for file in files if not file[0].nodeid.startswith(LONG)):
        min(parts, key=len).extend(file)
    return [item for part in parts for item in part]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Without Python's garbage collector: nearly all that is made here stays, and it took a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """As a web server does: else a sixth of all tests' time goes into looking through what stays."""
    garbage.freeze_loaded_objects(garbage.WEB_THRESHOLDS)


def pytest_report_header() -> str:
    return f"profile {profiles.profile()}, seed {profiles.seed()}"


def pytest_unconfigure() -> None:
    bare.end()
