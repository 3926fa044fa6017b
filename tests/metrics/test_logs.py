"""Log lines as JSON, and what they name."""

from __future__ import annotations

import json
import logging
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import request_finished
from django.test import Client
from redis import Redis

from benchlab import env, log_context
from benchlab.engine import tasks
from benchlab.logs import IDS_MAX_CHARS, JsonFormatter, LineFormatter
from benchlab.runs.models import Layout
from benchlab.team import tokens
from benchlab.team.roles import Role
from benchlab.web import middleware
from benchlab.workers import process_counters, task_metrics
from tests import stack
from tests.api.conftest import everything


@pytest.fixture
def lines() -> Iterator[list[dict[str, Any]]]:
    """What is logged from now on, as objects."""
    found: list[dict[str, Any]] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(json.loads(self.format(record)))

    handler = Kept()
    handler.setFormatter(JsonFormatter())
    logging.getLogger().addHandler(handler)
    yield found
    logging.getLogger().removeHandler(handler)


def test_a_line_has_its_time_in_utc_and_what_it_says():
    record = logging.makeLogRecord(
        {"msg": "%d of %d", "args": (1, 2), "name": "a.b", "levelname": "INFO"}
    )
    record.created = datetime(2026, 11, 28, 1, 2, 3, 456000, UTC).timestamp()
    assert json.loads(JsonFormatter().format(record)) == {
        "time": "2026-11-28T01:02:03.456Z",
        "level": "INFO",
        "logger": "a.b",
        "message": "1 of 2",
    }


def test_a_line_names_what_its_thread_works_on():
    line = LineFormatter("{message}", style="{")
    record = logging.makeLogRecord({"msg": "polled", "name": "a"})
    with log_context.about(layout=7, attempt=None):
        with log_context.about(run=3):
            said = json.loads(JsonFormatter().format(record))
            assert (said["layout"], said["run"]) == (7, 3) and "attempt" not in said
            assert line.format(record) == "polled [layout 7, run 3]"
        with log_context.about(task="x" * IDS_MAX_CHARS):
            assert line.format(record) == "polled"  # too long a list for a line
    assert line.format(record) == "polled"


def test_links_are_struck_out_of_tracebacks_too():
    try:
        raise ValueError("no /join/a-secret-link/")
    except ValueError as error:
        told = (ValueError, error, error.__traceback__)
    record = logging.makeLogRecord({"msg": "x", "name": "a", "exc_info": told})
    for formatter in (JsonFormatter(), LineFormatter("{message}", style="{")):
        assert "a-secret-link" not in formatter.format(logging.makeLogRecord(dict(vars(record))))


def test_a_format_that_there_is_not_is_refused(monkeypatch):
    monkeypatch.setenv("BENCHLAB_LOG_FORMAT", "JSON")
    assert env.one_of("BENCHLAB_LOG_FORMAT", ("line", "json")) == "json"
    monkeypatch.setenv("BENCHLAB_LOG_FORMAT", "xml")
    with pytest.raises(ImproperlyConfigured, match="expected line or json"):
        env.one_of("BENCHLAB_LOG_FORMAT", ("line", "json"))


@pytest.mark.django_db
def test_a_requests_lines_and_its_answer_bear_its_id(web, user, lines):
    answer = web.get("/runs/987654/", headers={"X-Request-ID": "proxy-0815"})
    assert (answer.status_code, answer["X-Request-ID"]) == (404, "proxy-0815")
    [line] = [one for one in lines if one["logger"] == "django.request"]
    assert line["request_id"] == "proxy-0815" and line["status"] == 404
    assert (line["run"], line["user"]) == (987654, user.pk)
    request_finished.send(None)
    assert log_context.ids() == {}


@pytest.mark.django_db
def test_a_tokens_person_is_named(user, lines):
    key = tokens.create_token(user, "mine", Role.OWNER)[1]
    Client().get("/api/runs/987654/", headers={"Authorization": f"Token {key}"})
    [line] = [one for one in lines if one["logger"] == "django.request"]
    assert (line["run"], line["user"]) == (987654, user.pk)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "given", ["", "short", "a b c d e f g", "x" * 129, 'a"},{"b":"c', "ünicode-id"]
)
def test_an_id_that_is_not_sane_is_made_anew(given):
    said = Client().get("/healthz", headers={"X-Request-ID": given})["X-Request-ID"]
    assert said != given and re.fullmatch("[0-9a-f]{16}", said)


def test_nobody_is_looked_up_for_a_line(rf):
    """A line about a database that is away must not ask it."""
    request = rf.get("/hosts/3/")
    request.user = log_context.ids  # whatever is there and has no key
    assert middleware._log_ids(request, "an-id") == {"request_id": "an-id"}


@pytest.mark.django_db
def test_a_step_of_a_layout_names_it(team, lines, monkeypatch):
    rows = everything(team)
    Layout.objects.filter(pk=rows.layout.pk).update(phase="ready", outcome="")

    def broken(found: Any) -> None:
        logging.getLogger("benchlab.engine").warning("it broke")

    monkeypatch.setattr(tasks, "_decide_and_act", broken)
    tasks._step_once(rows.layout.pk, until=0.0)
    [line] = [one for one in lines if one["message"] == "it broke"]
    assert (line["layout"], line["host"]) == (rows.layout.pk, rows.layout.host_id)
    assert line["campaign"] == rows.campaign.pk and log_context.ids() == {}


def test_a_task_names_itself_until_it_is_done():
    task = SimpleNamespace(name="benchlab.findings.tasks.find", request=SimpleNamespace())
    task_metrics._task_begun(task=task)
    assert log_context.ids() == {"task": "findings.find"}
    task_metrics._task_ended(task=task, state="SUCCESS")
    assert log_context.ids() == {}


# --- real processes -------------------------------------------------------------------------------------------------


def _roles(client: Redis) -> list[str]:
    """Of those that say they are alive: the worker has a beat of its own, too."""
    return sorted(
        one.role for one in process_counters.parse_processes(client.hgetall("benchlab:processes"))
    )


def _says(log: Path, word: str) -> bool:
    return log.exists() and word in log.read_text()


@pytest.mark.night
@pytest.mark.django_db(transaction=True)
def test_web_worker_and_beat_write_objects_only(tmp_path, monkeypatch):
    redis = stack.redis_url(7)
    for name, value in {"BENCHLAB_LOG_FORMAT": "json", "CELERY_QUIET": "1"}.items():
        monkeypatch.setenv(name, value)
    argv = [sys.executable, "-m", "celery", "-A", "benchlab.celery", "beat", "--loglevel", "INFO",
            "--pidfile=", "--schedule", str(tmp_path / "schedule")]  # fmt: skip
    with Redis.from_url(redis) as client:
        client.delete("benchlab:processes")  # of an earlier test
    logs = [tmp_path / name for name in ("web.log", "worker.log", "beat.log")]
    with (
        stack.web(tmp_path, redis) as url,
        stack.worker(tmp_path, redis),
        stack.process(argv, logs[2], stack.environment(redis)),
    ):
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"{url}/join/a-secret-link/", timeout=30)
        for log, word in zip(logs, ("uvicorn", "message", "celery.beat"), strict=True):
            stack.wait_for(partial(_says, log, word), log, 60)
        with Redis.from_url(redis) as client:
            stack.wait_for(lambda: _roles(client) == ["beat", "beat", "web", "worker"], logs[2], 60)
    said = [[json.loads(line) for line in log.read_text().splitlines()] for log in logs]
    assert all(one["message"] and one["time"].endswith("Z") for each in said for one in each)
    [refused] = [one for one in said[0] if one["logger"] == "django.request"]
    assert refused["status"] == 410 and "request_id" in refused and "secret" not in str(refused)
    assert {"uvicorn.error"} <= {one["logger"] for one in said[0]}
    assert any(one["logger"].startswith("celery") for one in said[2])
