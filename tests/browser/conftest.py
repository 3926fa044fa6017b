"""A real browser for tests: skipped without Chromium, failed where BENCHLAB_RIG=required."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from tests.browser.answering import answering_of
from tests.browser.person import PATIENCE_MS
from tests.rig.fixtures import kept_hosts, make_rig_host, refuse, rig_host, uml_image

__all__ = ["kept_hosts", "make_rig_host", "rig_host", "uml_image"]

CHROMIUM = settings.CHROMIUM
# Keeps Chromium from looking for the outside world.
QUIET = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


# Begun last, they are what the other processes wait for
LONGEST = (
    "test_compare_layouts.py",
    "test_end_to_end.py",
    "test_every_page.py",
    "test_home.py",
    "test_live_page.py",
    "test_plan_pages.py",
)


# Rights are right every time, or wrong.
NO_SECOND_CHANCE = ("test_csp.py", "test_sharing.py", "test_teams.py")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, of those that are here; what is not ours stays where it was."""
    ours = [n for n, item in enumerate(items) if item.path.parent == Path(__file__).parent]
    for item in (items[n] for n in ours):
        if item.path.name in NO_SECOND_CHANCE:
            item.add_marker(pytest.mark.no_second_chance)
    first = sorted((items[n] for n in ours), key=lambda item: item.path.name not in LONGEST)
    for n, item in zip(ours, first, strict=True):
        items[n] = item


@pytest.fixture(scope="package")
def _browser() -> Iterator[Any]:
    """One for all tests of a process, for it takes a second or two to start."""
    if not CHROMIUM:
        refuse("no Chromium here; apt install chromium-headless-shell, or set BENCHLAB_CHROMIUM")
    api = pytest.importorskip("playwright.sync_api")
    api.expect.set_options(timeout=PATIENCE_MS)  # its own 5 s are less than the pages' polls apart
    # Playwright's own event loop runs in this thread, and Django would refuse the ORM beside it.
    with pytest.MonkeyPatch.context() as patch, api.sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture
def chromium(_browser: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The process's browser. Each test has contexts of its own, and leaves none: an open page goes on asking.

    What a page has asked for is answered before the database is emptied; a request that is still under way then
    would lock it out, or write into the next test's.
    """
    answering = None
    if "live_server" in request.fixturenames:
        request.getfixturevalue("transactional_db")  # which ends after this one, then
        answering = answering_of(request.getfixturevalue("live_server").thread.httpd)
    yield _browser
    for context in _browser.contexts:
        context.close()
    if answering:
        answering.end()
