"""A test's pages are answered before its database is emptied: what waits for that, on the tests' own server."""

from __future__ import annotations

import threading
import time
from urllib.request import urlopen

import pytest

from tests.browser import answering

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
SLOW_S = 0.5


@pytest.fixture
def begun(live_server, monkeypatch) -> threading.Event:
    """Whether the server is at work on a page. It takes its time from now on."""
    server, at_work = live_server.thread.httpd, threading.Event()
    real = server.get_app()

    def slow(environ, start):
        at_work.set()
        time.sleep(SLOW_S)
        return real(environ, start)

    monkeypatch.setattr(server, "application", slow)
    return at_work


@pytest.fixture
def counted(begun, live_server) -> answering.Answering:
    return answering.answering_of(live_server.thread.httpd)


@pytest.fixture
def somebody(counted, begun, live_server) -> threading.Thread:
    """Who has asked for a page that is not there yet."""
    one = threading.Thread(target=lambda: urlopen(f"{live_server.url}/login/").read())
    one.start()
    assert begun.wait(10)
    return one


def test_a_page_under_way_is_waited_for(counted, somebody):
    since = time.monotonic()
    counted.end()
    assert time.monotonic() - since > SLOW_S / 2
    somebody.join()


def test_one_that_does_not_end_is_named(counted, somebody, monkeypatch):
    monkeypatch.setattr(answering, "PATIENCE_S", 0.05)
    with pytest.raises(AssertionError, match=r"not answered after 0 s: \['/login/'\]"):
        counted.end()
    somebody.join()


def test_nothing_under_way_is_over(live_server, counted):
    urlopen(f"{live_server.url}/login/").read()
    counted.end()
    assert answering.answering_of(live_server.thread.httpd) is counted
