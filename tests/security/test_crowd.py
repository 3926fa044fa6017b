"""Many at once, on the real web server: its connections are bounded, no open page holds one, and who finds none is told
when to come again."""

from __future__ import annotations

import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from email.message import Message
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.db import connection, transaction

from benchlab.team import tokens
from benchlab.team.roles import Role
from benchlab.workers import beats
from tests import stack
from tests.charts import made

pytestmark = pytest.mark.django_db(transaction=True)
MINE = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
)

# However busy the machine that tests is; and nobody is turned away for asking often.
PATIENT = {"BENCHLAB_POOL_WAIT": "60", "BENCHLAB_API_PER_TOKEN": "100000"}


@pytest.fixture
def key(user) -> str:
    return tokens.create_token(user, "crowd", Role.OWNER)[1]


@pytest.fixture
def redis() -> str:
    return stack.redis_url(8)


def get(url: str, key: str = "", cookie: str = "") -> tuple[int, Message, bytes]:
    headers = {"Authorization": f"Token {key}"} if key else {}
    headers |= {"Cookie": cookie} if cookie else {}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=60
        ) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def connections() -> int:
    with connection.cursor() as cursor:
        cursor.execute(MINE)
        return int(cursor.fetchone()[0])


@contextmanager
def open_streams(url: str, path: str, cookie: str, count: int) -> Iterator[None]:
    """So many live pages, each seen to be open by its first ping."""
    parts = urlsplit(url)
    links = [socket.create_connection((parts.hostname, parts.port)) for _ in range(count)]
    try:
        for link in links:
            link.sendall(
                f"GET {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n".encode()
            )
        for link in links:
            link.settimeout(30)
            said = b""
            while b": ping" not in said:
                said += (more := link.recv(4096))
                assert more, said
            assert said.startswith(b"HTTP/1.1 200"), said
        yield
    finally:
        for link in links:
            link.close()


def test_a_crowd_is_served_by_few_connections(tmp_path, team, key, redis):
    made.host(team, "one")
    with stack.web(tmp_path, redis, BENCHLAB_POOL="6", **PATIENT) as url:
        with ThreadPoolExecutor(45) as pool:
            answers = list(pool.map(lambda _: get(f"{url}/api/hosts/", key)[0], range(135)))
            most = connections()
        assert set(answers) == {200}
        assert most <= 6


def test_a_live_page_holds_no_connection(tmp_path, team, user, web, redis):
    """Twelve of them and a pool of two: else nobody else would be served."""
    campaign = made.campaign(team)
    path = f"/campaigns/{campaign.pk}/events/"
    cookie = f"{settings.SESSION_COOKIE_NAME}={web.cookies[settings.SESSION_COOKIE_NAME].value}"
    few = {"BENCHLAB_POOL": "2", "BENCHLAB_POOL_WAIT": "3", "BENCHLAB_PROXIES": "0"}
    with stack.web(tmp_path, redis, BENCHLAB_CONNECTIONS_PER_ADDRESS="24", **few) as url:
        with open_streams(url, path, cookie, 12):
            assert get(f"{url}/login/")[0] == 200
            assert connections() <= 2
            # Half of the address's connections are streams now. One more would be the next one's 503 in the end.
            assert [get(f"{url}{path}", cookie=cookie)[0] for _ in range(30)] == [204] * 30
        with open_streams(url, path, cookie, 1):  # closed ones gave their places back
            assert get(f"{url}/login/")[0] == 200


@pytest.mark.one_in(2)
def test_who_finds_no_connection_is_told_when_to_come_again(tmp_path, team, key, redis):
    """The only one is held by a request that waits for a lock."""
    made.host(team, "one")
    with stack.web(tmp_path, redis, BENCHLAB_POOL="1", BENCHLAB_POOL_WAIT="1") as url:
        assert get(f"{url}/api/hosts/", key)[0] == 200
        with ThreadPoolExecutor(1) as pool, transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("LOCK TABLE hosts_host IN ACCESS EXCLUSIVE MODE")
            waits = pool.submit(get, f"{url}/api/hosts/", key)
            time.sleep(1)
            status, headers, body = get(f"{url}/api/hosts/", key)
            assert (status, headers["Retry-After"]) == (503, "5"), body
            assert headers["Content-Type"] == "application/problem+json"
            assert json.loads(body)["status"] == 503
            status, headers, body = get(f"{url}/join/a-link/")
            assert (status, headers["Retry-After"]) == (503, "5")
            assert b"BenchLab is not available" in body
            assert get(f"{url}/healthz")[0] == 200
            assert json.loads(get(f"{url}/readyz")[2])["database"].startswith("no connection")
            transaction.set_rollback(True)
        assert waits.result(30)[0] == 200
        assert get(f"{url}/api/hosts/", key)[0] == 200


def test_ready_is_told_part_by_part(tmp_path, redis, monkeypatch, settings):
    settings.REDIS_URL = redis
    beats.client.cache_clear()
    beats.client().delete(beats.installation_key(beats.SWEPT))
    with stack.web(tmp_path, redis) as url:
        status, _, body = get(f"{url}/readyz")
        assert (status, json.loads(body)) == (
            503,
            {"database": "ok", "broker": "ok", "worker": "never seen"},
        )
        beats.beat()
        status, _, body = get(f"{url}/readyz")
        assert (status, set(json.loads(body).values())) == (200, {"ok"})
        beats.client().set(beats.installation_key(beats.SWEPT), str(time.time() - 100))
        status, _, body = get(f"{url}/readyz")
        assert status == 503 and "silent for 10" in json.loads(body)["worker"]
    with stack.web(tmp_path, "redis://127.0.0.1:1/0") as url:
        status, _, body = get(f"{url}/readyz")
        assert status == 503 and json.loads(body)["broker"].startswith("no answer")
        assert get(f"{url}/healthz")[0] == 200
    beats.client.cache_clear()


def test_an_api_that_breaks_answers_in_its_one_shape(web, monkeypatch):
    from benchlab.rest import hosts as api

    def broken(*given, **more):
        raise RuntimeError("a bug")

    monkeypatch.setattr(api.Hosts, "list", broken)
    web.raise_request_exception = False
    answer = web.get("/api/hosts/")
    assert answer.status_code == 500
    assert answer["Content-Type"] == "application/problem+json"
    assert set(answer.json()) == {"title", "status", "detail"}
    assert "a bug" not in answer.content.decode()
