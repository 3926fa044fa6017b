"""A real Valkey that is stopped, and one that hangs: limits stay limits, and nobody waits for ever or is locked out."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.conf import settings
from django.core.cache import caches
from django.test import Client

from benchlab.team import tokens
from benchlab.team.roles import Role
from benchlab.up import store_programs, valkey
from benchlab.up.ports import free_port
from benchlab.web import throttling
from tests.charts import made
from tests.security.test_guessing import PASSWORD, REFUSED, log_in

pytestmark = [pytest.mark.slow, pytest.mark.django_db]
AWAY = [signal.SIGKILL, signal.SIGSTOP]


@dataclass
class Store:
    place: Path
    port: int
    process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        argv = [str(store_programs.redis_program()), "-"]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)  # fmt: skip
        assert self.process.stdin
        self.process.stdin.write(valkey.config(self.place, self.port, "secret"))
        self.process.stdin.close()
        until = time.monotonic() + 30
        while not valkey.ready(self.port):
            assert time.monotonic() < until
            time.sleep(0.02)

    def away(self, how: signal.Signals) -> None:
        assert self.process
        self.process.send_signal(how)
        if how == signal.SIGKILL:
            self.process.wait()

    def back(self) -> None:
        assert self.process
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
        else:
            self.start()


@pytest.fixture
def store(settings, monkeypatch, tmp_path) -> Iterator[Store]:
    """The cache of all that is counted, with our own settings of it."""
    made = Store(tmp_path, free_port())
    made.start()
    place = valkey.url(made.port, "secret")
    settings.CACHES = {"default": {**AS_DEPLOYED, "LOCATION": place}}
    monkeypatch.setattr(throttling, "local_counts", throttling.LocalCounts())
    yield made
    caches["default"].close()
    assert made.process
    made.process.kill()
    made.process.wait()


# Tests have another one; these are the words of settings.py.
AS_DEPLOYED = {
    "BACKEND": "django.core.cache.backends.redis.RedisCache",
    "OPTIONS": settings.CACHE_OPTIONS,
}


@pytest.mark.parametrize("how", AWAY)
def test_nobody_guesses_a_password_and_nobody_is_locked_out(user, store, how):
    visitor = Client(raise_request_exception=False)
    assert REFUSED not in log_in("203.0.113.1", "wrong")
    store.away(how)
    answer = visitor.post("/login/", {"login": "alice", "password": PASSWORD})
    assert answer.status_code == 503 and b"nobody can log in" in answer.content
    store.back()
    assert log_in("203.0.113.1", PASSWORD) == b""


def test_who_is_logged_in_goes_on_reading(web, team, store):
    campaign = made.campaign(team)
    host = made.host(team)
    for name in ("stripe", "mirror"):  # two of them are compared
        made.swept(campaign, host, made.topology(team, name), made.workload(team))
    one = f"/campaigns/{campaign.pk}/"
    pages = ["/", "/campaigns/", one, "/runs/", f"/runs/{campaign.runs.all()[0].pk}/",
             "/hosts/", f"/hosts/{host.pk}/", f"/explore/?campaign={campaign.pk}",
             f"/compare/?campaign={campaign.pk}", "/import/"]  # fmt: skip
    web.raise_request_exception = False
    store.away(signal.SIGKILL)
    assert {page: web.get(page).status_code for page in pages} == dict.fromkeys(pages, 200)


@pytest.mark.parametrize("how", AWAY)
def test_the_api_is_limited_all_the_same(user, store, how, monkeypatch):
    monkeypatch.setitem(settings.BENCHLAB_API_RATES, "token", 3)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    _, key = tokens.create_token(user, "test", Role.VIEWER)
    script = Client(headers={"Authorization": f"Token {key}"})
    assert script.get("/api/hosts/").status_code == 200
    store.away(how)
    codes = [script.get("/api/hosts/").status_code for _ in range(5)]
    assert codes == [200] * 3 + [429] * 2
    store.back()
