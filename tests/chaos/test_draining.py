"""SIGTERM of real servers and workers: what they have in hand is finished or handed over, and they end with 0."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import time
from contextlib import closing
from urllib.parse import urlsplit

import psutil
import pytest
from django.db import connection
from django.urls import reverse

from benchlab.campaigns.models import Campaign
from benchlab.celery import app
from benchlab.engine import commands
from benchlab.runs.models import Attempt, Layout, Transition
from benchlab.workers.lease import Lock
from tests import stack
from tests.runs import drive

pytestmark = [pytest.mark.night, pytest.mark.django_db(transaction=True)]

UPLOAD = (
    b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30\r\nConnection: close\r\n\r\n"
)


def sent(port: int, request: bytes) -> socket.socket:
    link = socket.create_connection(("127.0.0.1", port), timeout=20)
    link.sendall(request)
    return link


def to_the_end(link: socket.socket) -> bytes:
    """What comes until the server closes; ConnectionError where it cuts."""
    answer = b""
    while more := link.recv(65536):
        answer += more
    return answer


def test_a_web_server_ends_streams_and_finishes_uploads(team, web, tmp_path):
    campaign = Campaign.objects.create(team=team, name="watched", seed=1)
    cookie = web.cookies["sessionid"].value
    page = reverse("campaign-events", args=[campaign.pk])
    stream_of = f"GET {page} HTTP/1.1\r\nHost: localhost\r\nCookie: sessionid={cookie}\r\n\r\n"
    with stack.web(tmp_path, stack.redis_url(15)) as url:
        port = urlsplit(url).port
        assert port
        ours = psutil.Process().children(recursive=True)
        (server,) = [one for one in ours if one.cmdline()[-2:] == ["--port", str(port)]]
        with (
            closing(sent(port, stream_of.encode())) as stream,
            closing(sent(port, UPLOAD)) as upload,
        ):
            heard = b""
            while b": ping" not in heard:
                heard += stream.recv(65536)
            upload.sendall(b"x" * 10)
            time.sleep(0.5)
            server.send_signal(signal.SIGTERM)
            began = time.monotonic()
            assert to_the_end(stream).endswith(b"0\r\n\r\n")
            assert time.monotonic() - began < 2
            with pytest.raises(ConnectionRefusedError):
                sent(port, b"")
            time.sleep(5.0)
            upload.sendall(b"x" * 20)
            assert to_the_end(upload).startswith(b"HTTP/1.1 403")  # its form has no token
        assert server.wait(10) == 0


RUN_S = 30  # as long as another worker takes to start beside it
needs_fio = pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed here")


def sessions(namespace: int, key: int | None = None) -> set[int]:
    """PostgreSQL's sessions that hold such locks."""
    asked = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND granted"
    with connection.cursor() as cursor:
        cursor.execute(f"{asked} AND (%s::bigint IS NULL OR objid = %s)", [namespace, key, key])
        return {int(row[0]) for row in cursor.fetchall()}


def still_open(pids: set[int]) -> set[int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE pid = ANY(%s)", [list(pids)])
        return {int(row[0]) for row in cursor.fetchall()}


@needs_fio
def test_another_worker_goes_on_at_once(campaign, tmp_path):
    redis, log = stack.redis_url(15), tmp_path / "worker.log"
    (tmp_path / "other").mkdir()
    with stack.worker(tmp_path, redis) as first:
        drive.plan_and_start(campaign)
        stack.wait_for(lambda: Attempt.objects.filter(phase="running").exists(), log, 60)
        with stack.worker(tmp_path / "other", redis):
            stack.wait_for(lambda: len(sessions(Lock.WORKER)) == 2, log, 60)
            layout = Layout.objects.get()
            assert Attempt.objects.get().phase == "running"
            first.send_signal(signal.SIGTERM)
            began, seen = time.monotonic(), dict[int, float]()
            while first.poll() is None or not still_open(set(seen)):
                for pid in sessions(Lock.LAYOUT, layout.pk):
                    seen.setdefault(pid, time.monotonic() - began)
                assert time.monotonic() - began < 30, log.read_text()[-4000:]
                if first.poll() is None:
                    ended = time.monotonic() - began
                time.sleep(0.01)
            others = min(seen[pid] for pid in still_open(set(seen)))
            print(f"ended after {ended:.1f} s, the other one went on after {others:.1f} s")
            stack.wait_for(lambda: Layout.objects.filter(phase="done").exists(), log, 120)
    assert first.returncode == 0
    attempt = Attempt.objects.get()
    assert attempt.outcome == "succeeded", attempt.reason_text
    assert attempt.measurements.get(name="write.iops").value
    assert attempt.meta["ended_mono"] - attempt.meta["started_mono"] == pytest.approx(RUN_S, abs=3)
    moves = Transition.objects.filter(attempt=attempt).values_list("new", flat=True)
    assert list(moves) == ["starting", "running", "collecting", "done"]
    assert others < 2 + os.getloadavg()[0]


@pytest.mark.parametrize("wait_s", [0.0, 0.3, 1.0])
def test_plans_that_were_asked_for_come(campaign, tmp_path, wait_s):
    """The next worker makes them: their message is sent again, or they were ready."""
    redis, log = stack.redis_url(15), tmp_path / "worker.log"
    with stack.worker(tmp_path, redis) as first:
        stack.wait_for(lambda: bool(sessions(Lock.WORKER)), log, 60)
        layout = Layout.objects.get()
        with app.connection_for_write(redis) as broker:
            app.send_task(commands.PLAN, (layout.pk,), connection=broker, ignore_result=True)
        time.sleep(wait_s)
        first.send_signal(signal.SIGTERM)
        assert first.wait(20) == 0
    with stack.worker(tmp_path, redis):
        stack.wait_for(lambda: not Layout.objects.filter(planned_at=None).exists(), log, 30)
