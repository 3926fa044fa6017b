"""The web server's own handler: what a request costs beside its page, and that static files go their way."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections
from django.test import Client

from benchlab.asgi import application
from tests import stack

pytestmark = pytest.mark.django_db(transaction=True)
END = {"type": "http.request", "body": b"", "more_body": False}


def answered(path: str, cookie: str = "") -> tuple[int, dict[bytes, bytes], bytes]:
    """Through the application as uvicorn calls it."""
    scope = {
        "type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "path": path,
        "raw_path": path.encode(), "query_string": b"", "root_path": "", "server": ("localhost", 80),
        "client": ("127.0.0.1", 9), "headers": [(b"host", b"localhost"), (b"cookie", cookie.encode())],
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
    """What is given to another thread."""
    found: list[object] = []
    submit = ThreadPoolExecutor.submit

    def counted(self, fn, /, *args, **more):
        found.append(fn)
        return submit(self, fn, *args, **more)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", counted)
    return found


def test_a_page_is_made_in_one_thread(web: Client, handed_over):
    """Django's own would change threads for every middleware, there and back."""
    status, _, body = answered("/campaigns/", f"sessionid={web.cookies['sessionid'].value}")
    assert status == 200 and b"Campaigns" in body
    assert len(handed_over) <= 3  # that it began, the page, that it is over


def test_a_static_file_is_served_with_every_header(handed_over):
    status, headers, body = answered("/static/charts.js")
    assert status == 200 and b"Plotly" in body
    assert headers[b"X-Content-Type-Options"] == b"nosniff"
    assert headers[b"Content-Type"].startswith(b"text/javascript")
    assert answered("/static/none.js")[0] == 404


def test_the_first_press_loads_nothing(tmp_path):
    """What a worker is told goes through Celery, whose import takes long where a hundred people wait meanwhile."""
    code = (
        "import sys, benchlab.asgi; loaded = set(sys.modules)\n"
        "from benchlab.hosts import host_tasks; from benchlab.workers import messages\n"
        "messages.send(host_tasks.PERFORM, 0)\n"
        "print(sorted(set(sys.modules) - loaded))"
    )
    env = stack.environment(stack.redis_url(9))
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "[]\n"), ran
