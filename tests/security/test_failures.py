"""The server's words and logs about its own failures: a full house is no bug of the program, a start is no failure."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

import pytest
from django.db import OperationalError
from django.test import Client, RequestFactory
from django.urls import path
from psycopg_pool import PoolTimeout

from benchlab import readiness
from benchlab.web import errors
from benchlab.workers import beats

FAULTS = {
    "full": PoolTimeout("couldn't get a connection after 1.00 sec"),
    "bug": RuntimeError("a bug"),
}


def full(request, name):
    raise OperationalError("no connection") from FAULTS["full"]


def broken(request, name):
    raise FAULTS["bug"]


urlpatterns = [
    path("full/<str:name>", full),
    path("api/full/<str:name>", full),
    path("broken/<str:name>", broken),
]
handler500 = "benchlab.web.errors.server_error"


@pytest.fixture
def said(caplog) -> Callable[[], list[tuple[str, str, bool]]]:
    """Of what Django logs of requests: the level, the text, and whether a traceback hangs on."""
    caplog.set_level(logging.INFO, "django.request")
    return lambda: [
        (row.levelname, row.getMessage(), bool(row.exc_info))
        for row in caplog.records
        if row.name == "django.request"
    ]


@pytest.fixture
def visitor(settings) -> Client:
    settings.ROOT_URLCONF = __name__
    settings.MIDDLEWARE = []  # whoever comes: what fails here may fail before anybody is known
    return Client(raise_request_exception=False)


@pytest.fixture
def parts(monkeypatch) -> dict[str, str]:
    """Answers of each part; the test may change them."""
    told = {"database": "ok", "broker": "ok", "worker": "ok"}
    for name in told:
        monkeypatch.setattr(readiness, name, lambda name=name: told[name])
    return told


def test_a_start_is_no_error(parts, said):
    """Nobody has seen a worker yet: every start looks so for some seconds."""
    parts["worker"] = readiness.NEVER
    answer = readiness.ready(RequestFactory().get("/readyz"))
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert said() == [("INFO", "not ready: worker never seen", False)]


@pytest.mark.parametrize(
    ("part", "trouble"),
    [
        ("worker", "silent for 100 s"),
        ("broker", "no answer: ConnectionError"),
        ("database", "no connection: PoolTimeout"),
    ],
)
def test_a_part_that_is_missed_is_a_warning_that_names_it(parts, said, part, trouble):
    parts["worker"] = readiness.NEVER
    parts[part] = trouble
    assert readiness.ready(RequestFactory().get("/readyz")).status_code == 503
    ((level, text, traceback),) = said()
    assert (level, traceback) == ("WARNING", False)
    assert f"{part} {trouble}" in text


def test_who_is_ready_is_not_logged(parts, said):
    answer = readiness.ready(RequestFactory().get("/readyz"))
    assert (answer.status_code, "Retry-After" in answer, said()) == (200, False, [])


def test_the_words_of_a_worker_never_seen(monkeypatch):
    monkeypatch.setattr(beats, "age_s", lambda: None)
    assert readiness.worker() == readiness.NEVER == "never seen"


def test_a_full_house_is_a_warning_of_one_line(visitor, said):
    answer = visitor.get("/full/a")
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    ((level, text, traceback),) = said()
    assert (level, traceback) == ("WARNING", False)
    assert text == "no database connection for /full/a: couldn't get a connection after 1.00 sec"


def test_a_bug_stays_an_error_with_its_traceback(visitor, said):
    answer = visitor.get("/broken/a")
    assert answer.status_code == 500 and "Retry-After" not in answer
    ((level, _, traceback),) = said()
    assert (level, traceback) == ("ERROR", True)


def test_the_page_leads_back_to_where_one_was(visitor):
    text = visitor.get('/full/a"><b>', {"q": "1&2"}).text
    assert 'href="/full/a%22%3E%3Cb%3E?q=1%262"' in text
    assert "BenchLab is not available" in text and "in 5 seconds" in text


def test_what_was_sent_is_not_sent_again_by_a_link(visitor):
    text = visitor.post("/full/a").text
    assert "/full/a" not in text and "before you send it again" in text


@pytest.mark.parametrize(("theme", "marked"), [("dark", True), ("light", True), ('x"y', False)])
def test_the_pages_have_the_colours_that_were_chosen(visitor, theme, marked):
    visitor.cookies["theme"] = theme
    for page in (visitor.get("/full/a").text, visitor.get("/broken/a").text):
        assert (f'data-theme="{theme}"' in page) is marked
        assert ("data-theme" in page) is marked


@pytest.mark.django_db
@pytest.mark.urls("benchlab.urls")
def test_without_a_broker_no_password_is_tried_and_nobody_sees_a_bug(user, settings, said):
    """Its limits are counted there. Against a port where nobody listens."""
    settings.CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": "redis://127.0.0.1:1/0",
        }
    }
    visitor = Client(raise_request_exception=False)
    answer = visitor.post("/login/", {"login": user.username, "password": "anything"})
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert "The broker (Valkey or Redis) does not answer" in answer.text
    assert [level for level, _, traceback in said() if not traceback] == ["WARNING"]
    assert "_auth_user_id" not in visitor.session


def test_an_api_that_is_full_says_so_in_its_shape(visitor):
    answer = visitor.get("/api/full/a")
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert json.loads(answer.content)["detail"].endswith(
        f"Try again in {errors.RETRY_SECONDS} seconds."
    )
