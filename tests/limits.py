"""A time limit for each test: one that hangs fails by its name, with the stack of where it hung, and the rest goes on.

pytest-timeout raises the failure in the test itself. Its tear-down has the limit anew, for it may hang on the same
thing. What no exception ends (a call that never returns from C, code that catches everything) ends the process at
twice the limit, with the stacks of all threads; pytest-xdist then names the test, and starts another process.
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Generator
from typing import Any

import pytest

from benchlab.testing import profiles

NAME = "benchlab-limits"
PLAIN_S = 300.0
# The first test that needs a host's image builds it: minutes, where it is not cached.
HOST_S = 1800.0
# Its samples are larger, and it interrupts a layout after every command.
NIGHT_S = 7200.0
_settings = pytest.StashKey[Any]()


def register(config: pytest.Config) -> None:
    if not config.pluginmanager.hasplugin(NAME):
        config.pluginmanager.register(Limits(os.dup(2)), NAME)


def limit_s(item: pytest.Item) -> float:
    """Seconds for its set-up, its call and its tear-down together; a mark `timeout` of its own comes before this."""
    if profiles.profile() == profiles.FULL or item.get_closest_marker("night"):
        return NIGHT_S
    needs = getattr(item, "fixturenames", ())
    on_host = item.get_closest_marker("rig") or {"uml_image", "zfs_image"} & set(needs)
    return HOST_S if on_host else PLAIN_S


class Limits:
    def __init__(self, stderr: int) -> None:
        # What a test writes is captured, and would be gone with the process.
        self.stderr = stderr

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        if config.getoption("timeout") is not None:  # typed by a person
            return
        for item in items:
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(limit_s(item)))

    @pytest.hookimpl(wrapper=True)
    def pytest_timeout_set_timer(
        self, item: pytest.Item, settings: Any
    ) -> Generator[None, object, object]:
        item.stash[_settings] = settings
        faulthandler.dump_traceback_later(2 * settings.timeout, exit=True, file=self.stderr)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_timeout_cancel_timer(self) -> Generator[None, object, object]:
        faulthandler.cancel_dump_traceback_later()
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """A failure has stopped the clock."""
        if settings := item.stash.get(_settings, None):
            item.ihook.pytest_timeout_set_timer(item=item, settings=settings)
