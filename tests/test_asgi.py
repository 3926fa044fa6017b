"""The web server's own handler: what a request costs beside its page, and that static files go their way."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from asgiref.sync import ThreadSensitiveContext
from django.conf import settings
from django.db import connections
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.utils import timezone

from benchlab import asgi
from benchlab.asgi import application
from benchlab.hosts import host_tasks, registration
from benchlab.hosts.models import HostTask
from tests import stack

pytestmark = pytest.mark.django_db(transaction=True)
END = {"type": "http.request", "body": b"", "more_body": False}


def answered(
    path: str, cookie: str = "", host: bytes = b"localhost"
) -> tuple[int, dict[bytes, bytes], bytes]:
    """Through the application as uvicorn calls it."""
    scope = {
        "type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "path": path,
        "raw_path": path.encode(), "query_string": b"", "root_path": "", "server": ("localhost", 80),
        "client": ("127.0.0.1", 9), "headers": [(b"host", host), (b"cookie", cookie.encode())],
    }  # fmt: skip
    said: list[dict] = []

    async def ask() -> None:
        asked = iter([END])

        async def receive():
            return next(asked, None) or await asyncio.Event().wait()

        async def send(one):
            said.append(one)

        await application(scope, receive, send)

    asyncio.run(ask())
    body = b"".join(one.get("body", b"") for one in said[1:])
    return said[0]["status"], dict(said[0]["headers"]), body


@pytest.fixture(autouse=True)
def pooled(monkeypatch):
    """As the web server's: a connection is given back with the answer, not kept by the thread."""
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)


@pytest.fixture
def handed_over(monkeypatch) -> list[object]:
    """Functions that are given to another thread."""
    found: list[object] = []
    submit = ThreadPoolExecutor.submit

    def counted(self, fn, /, *args, **more):
        found.append(fn)
        return submit(self, fn, *args, **more)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", counted)
    return found


def test_a_page_is_made_in_one_thread(web: Client, handed_over):
    """Django's own would change threads for every middleware, there and back."""
    status, _, body = answered(
        "/campaigns/",
        f"{settings.SESSION_COOKIE_NAME}={web.cookies[settings.SESSION_COOKIE_NAME].value}",
    )
    assert status == 200 and b"Campaigns" in body
    assert len(handed_over) <= 3  # that it began, the page, that it is over


def test_a_static_file_is_served_with_every_header(handed_over):
    status, headers, body = answered("/static/charts.js")
    assert status == 200 and b"Plotly" in body
    assert headers[b"X-Content-Type-Options"] == b"nosniff"
    assert headers[b"Content-Type"].startswith(b"text/javascript")
    assert answered("/static/none.js")[0] == 404


def test_the_first_press_loads_nothing(tmp_path):
    """Messages to a worker go through Celery, whose import takes long where a hundred people wait meanwhile."""
    code = (
        "import sys, benchlab.asgi; loaded = set(sys.modules)\n"
        "from benchlab.hosts import host_tasks; from benchlab.workers import messages\n"
        "messages.send(host_tasks.PERFORM, 0)\n"
        "print(sorted(set(sys.modules) - loaded))"
    )
    env = stack.environment(stack.redis_url(9))
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "[]\n"), ran


@pytest.fixture
def crowded(monkeypatch) -> tuple[asgi.Application, list[int]]:
    """A handler whose answers take a while, and how many were at work at each one's beginning."""
    handler, lock, at_work, seen = asgi.Application(), threading.Lock(), [0], []

    def respond(request):
        with lock:
            at_work[0] += 1
            seen.append(at_work[0])
        time.sleep(0.1)
        with lock:
            at_work[0] -= 1
        return HttpResponse()

    monkeypatch.setattr(handler, "get_response", respond)
    return handler, seen


def crowd(handler: asgi.Application, paths: list[str]) -> None:
    async def one(path: str) -> None:
        async with ThreadSensitiveContext():
            await handler.get_response_async(RequestFactory().get(path))

    async def all_of_them() -> None:
        await asyncio.gather(*map(one, paths))

    asyncio.run(all_of_them())


def test_a_crowd_is_worked_on_a_few_at_a_time(crowded, monkeypatch):
    handler, seen = crowded
    monkeypatch.setattr(asgi, "PATIENCE_S", 60.0)
    crowd(handler, ["/"] * 3 * asgi.AT_ONCE)
    assert max(seen) == asgi.AT_ONCE and len(seen) == 3 * asgi.AT_ONCE


def test_who_waits_for_a_host_leaves_its_place_to_others(team, monkeypatch):
    """As many requests as there are places wait for one team's silent host; another team's page is shown at once."""
    monkeypatch.setattr(asgi, "PATIENCE_S", 60.0)
    monkeypatch.setattr(host_tasks, "MAX_WAIT_S", 60.0)
    handler, shown = asgi.Application(), threading.Event()
    host = registration.add_host(
        team, "mute", "127.0.0.1", registration.make_credential(team, "key")
    )
    task = HostTask.objects.create(host=host, kind="read_facts", due_at=timezone.now())

    def respond(request):
        if request.path == "/page":
            shown.set()
            HostTask.objects.update(ended_at=timezone.now())
        else:
            host_tasks.wait_for_task(task)
            assert shown.is_set()
        connections.close_all()
        return HttpResponse()

    monkeypatch.setattr(handler, "get_response", respond)
    crowd(handler, ["/silent"] * asgi.AT_ONCE + ["/page"])
    assert shown.is_set()
    assert handler._turns._value == asgi.AT_ONCE  # each was given back once


def test_who_asks_whether_it_lives_does_not_wait(crowded, monkeypatch):
    handler, seen = crowded
    monkeypatch.setattr(asgi, "PATIENCE_S", 60.0)
    crowd(handler, ["/"] * asgi.AT_ONCE + ["/healthz"])
    assert max(seen) == len(seen) == asgi.AT_ONCE  # answered without a turn


def test_health_checks_are_answered_whatever_name_and_scheme_they_use(settings):
    settings.ALLOWED_HOSTS = ["bench.example.test"]
    settings.SECURE_SSL_REDIRECT = True
    assert answered("/healthz", host=b"10.0.0.7:8000")[::2] == (200, b"ok\n")
    assert b'"database": "ok"' in answered("/readyz", host=b"10.0.0.7:8000")[2]


def test_prometheus_need_not_know_the_servers_name(settings):
    settings.BENCHLAB_METRICS_TOKEN = "a-token-of-24-letters-or-more"
    assert answered("/metrics", host=b"web:8000")[0] == 401


def test_a_health_check_asks_neither_database_nor_broker(monkeypatch):
    away = socket.create_server(("127.0.0.1", 0))  # takes connections and says nothing
    monkeypatch.setitem(connections["default"].settings_dict, "HOST", "127.0.0.1")
    monkeypatch.setitem(connections["default"].settings_dict, "PORT", str(away.getsockname()[1]))
    connections.close_all()
    assert answered("/healthz")[0] == 200
    assert b"no connection: ConnectionTimeout" in answered("/readyz")[2]
    away.close()


def test_who_waited_for_long_goes_on(crowded, monkeypatch):
    """All that are at work may wait for something themselves."""
    handler, seen = crowded
    monkeypatch.setattr(asgi, "PATIENCE_S", 0.01)
    crowd(handler, ["/"] * 2 * asgi.AT_ONCE)
    assert max(seen) > asgi.AT_ONCE


def test_the_web_server_has_a_pool_of_connections():
    """The settings see by benchlab.asgi that they are a web server's: nothing may load them before it."""
    code = """
import sys
from importlib import import_module
import benchlab.web.server as server
assert "benchlab.settings" not in sys.modules
import_module(server.APPLICATION.partition(":")[0])
from django.conf import settings
print(settings.POOL)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "20\n", done.stderr
