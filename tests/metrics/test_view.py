"""/metrics: who may read it, and that its numbers are those of the database and of all processes."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import asdict
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery.app.task import Context
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.db import Error
from django.test import Client
from django.utils import timezone
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics

import benchlab
from benchlab import env
from benchlab.audit import heads
from benchlab.audit.chain import add_entry
from benchlab.audit.models import Head
from benchlab.campaigns.models import Campaign
from benchlab.celery import app
from benchlab.findings.models import Finding
from benchlab.hosts.models import Device, Host
from benchlab.metrics import database, view
from benchlab.metrics.table import METRICS, PREFIX
from benchlab.runs import progress, transitions
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.states import AttemptPhase, LayoutPhase, Outcome
from benchlab.runs.verdict import Verdict
from benchlab.team import tokens
from benchlab.team.models import Membership, Team
from benchlab.team.roles import Role
from benchlab.workers import beats, process_counters, task_metrics
from tests.api.conftest import everything

pytestmark = pytest.mark.django_db
TOKEN = "a-token-of-24-letters-or-more"


def ask(token: str = "", **headers: str) -> Any:
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return Client().get("/metrics", headers=headers)


def read(settings: Any) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """What /metrics prints: by a sample's name and labels."""
    settings.BENCHLAB_METRICS_TOKEN = TOKEN
    answer = ask(TOKEN)
    assert answer.status_code == 200
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parser.text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def value(read: dict[Any, float], name: str, **labels: str) -> float:
    return read[f"{PREFIX}{name}", frozenset(labels.items())]


# --- who may --------------------------------------------------------------------------------------------------------


def test_it_is_off_until_somebody_sets_it_up(user, settings):
    assert (ask().status_code, ask(TOKEN).status_code) == (404, 404)
    assert "BENCHLAB_METRICS_TOKEN" in ask().text
    assert ask(tokens.create_token(user, "mine", Role.OWNER)[1]).status_code == 404


def test_the_token_of_the_setting_opens_it(settings):
    settings.BENCHLAB_METRICS_TOKEN = TOKEN
    answer = ask(TOKEN)
    assert answer.status_code == 200 and "no-store" in answer["Cache-Control"]
    for wrong in ("", TOKEN[:-1], TOKEN + "x", "ü", "\x00"):
        answer = ask(wrong)
        assert (answer.status_code, answer["WWW-Authenticate"][:6]) == (401, "Bearer"), wrong
        assert "site admin" in answer.text and TOKEN not in answer.text
    assert Client().get("/metrics", headers={"Authorization": TOKEN}).status_code == 401
    assert Client().get("/metrics", headers={"Authorization": f"Basic {TOKEN}"}).status_code == 401
    assert Client().post("/metrics").status_code in (403, 405)


@pytest.mark.parametrize("given", ["short", "with a blank in the middle of it", "ü" * 30])
def test_a_token_that_can_be_guessed_is_refused_at_the_start(monkeypatch, given):
    monkeypatch.setenv("BENCHLAB_METRICS_TOKEN", given)
    with pytest.raises(ImproperlyConfigured, match="at least 24") as said:
        env.token("BENCHLAB_METRICS_TOKEN")
    assert given not in str(said.value)


def test_so_does_a_site_admins_that_is_not_limited(team):
    admin = User.objects.create_superuser("root")
    Membership.objects.create(team=team, user=admin, role=Role.OWNER)
    assert ask(tokens.create_token(admin, "all", Role.OWNER)[1]).status_code == 200
    assert ask(tokens.create_token(admin, "reads", Role.VIEWER)[1]).status_code == 404
    assert ask(tokens.create_token(admin, "one", Role.OWNER, team=team)[1]).status_code == 404
    web = Client()
    web.force_login(admin)
    assert web.get("/metrics").status_code == 404  # a link that a browser follows shows nothing


def test_an_owners_of_a_team_does_not(user, settings):
    settings.BENCHLAB_METRICS_TOKEN = TOKEN
    assert ask(tokens.create_token(user, "mine", Role.OWNER)[1]).status_code == 401


def test_a_token_that_cannot_be_looked_up_is_told_so(settings, monkeypatch):
    def away(self: Any, request: Any) -> None:
        raise Error("away")

    monkeypatch.setattr(tokens.TokenAuthentication, "authenticate", away)
    answer = ask("blab_some-token")
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    settings.BENCHLAB_METRICS_TOKEN = TOKEN
    assert ask(TOKEN).status_code == 200


# --- what it says ---------------------------------------------------------------------------------------------------


def test_every_metric_of_the_table_is_printed_and_no_other(settings):
    settings.BENCHLAB_METRICS_TOKEN = TOKEN
    text = ask(TOKEN).text
    printed = {
        line.split()[2]: line.split()[3] for line in text.splitlines() if line[:6] == "# TYPE"
    }
    assert printed == {PREFIX + one.name: one.kind for one in METRICS}
    assert len({one.name for one in METRICS}) == len(METRICS)


def test_openmetrics_for_who_asks_for_it(settings):
    settings.BENCHLAB_METRICS_TOKEN = TOKEN
    answer = ask(TOKEN, Accept="application/openmetrics-text; version=1.0.0")
    assert answer["Content-Type"].startswith("application/openmetrics-text")
    found = {one.name for one in openmetrics.text_string_to_metric_families(answer.text)}
    assert {f"{PREFIX}hosts", f"{PREFIX}http_requests"} <= found


def test_what_the_database_knows(team, settings):
    rows = everything(team)
    Attempt.objects.filter(pk=rows.attempts[0].pk).update(
        phase=AttemptPhase.DONE, outcome="failed", reason="tool_failed"
    )
    Device.objects.create(host=rows.host, identity="serial:S2", name="sdc", size=1, role="nvme", spare=True,
                          spare_size=1)  # fmt: skip
    Device.objects.create(host=rows.host, identity="serial:S3", name="sdd", size=1, role="nvme", spare=True,
                          spare_size=1, in_use="it is mounted")  # fmt: skip
    Device.objects.create(host=rows.host, identity="serial:S4", name="sde", size=1, role=f"of {team}",
                          present=False)  # fmt: skip
    found = read(settings)
    for phase in LayoutPhase.values:
        assert value(found, "layouts", phase=phase) == Layout.objects.filter(phase=phase).count()
    for phase in AttemptPhase.values:
        assert value(found, "attempts", phase=phase) == Attempt.objects.filter(phase=phase).count()
    assert value(found, "attempts_done", outcome="failed") == 1
    standing = Finding.objects.filter(stands=True, dismissed_at=None, severity="doubt").count()
    assert value(found, "findings", severity="doubt") == standing > 0
    assert value(found, "disks", role="nvme", state="spare") == 1
    assert value(found, "disks", role="nvme", state="spare_in_use") == 1
    assert value(found, "disks", role="other", state="absent") == 1
    assert value(found, "disks", role="none", state="free") == 1
    assert (
        sum(n for (name, _), n in found.items() if name == f"{PREFIX}disks")
        == Device.objects.count()
    )
    assert (
        sum(n for (name, _), n in found.items() if name == f"{PREFIX}hosts") == Host.objects.count()
    )
    assert value(found, "info", version=benchlab.__version__) == 1
    assert value(found, "database_size_bytes") > 1e6


def test_no_name_of_a_teams_is_in_it(team, settings):
    rows = everything(team)
    Host.objects.filter(pk=rows.host.pk).update(name="secret-host", address="192.0.2.77")
    Device.objects.filter(pk=rows.device.pk).update(
        name="secret-disk", serial="secret-serial", role="secret-role", model="secret"
    )
    Team.objects.update(name="secret-team")
    Campaign.objects.update(name="secret-campaign")
    settings.BENCHLAB_METRICS_TOKEN = TOKEN
    text = ask(TOKEN).text
    assert rows.device.pk and "secret" not in text and "192.0.2" not in text


@pytest.mark.parametrize("trouble, state", [
    ({"trouble": "timed_out"}, "trouble"),
    ({"offered_key": "b"}, "key_changed"),
    ({"host_key": ""}, "unconfirmed"),
    ({}, "free"),
])  # fmt: skip
def test_states_of_a_host(team, settings, trouble, state):
    host = everything(team).host
    Layout.objects.all().delete()
    Host.objects.exclude(pk=host.pk).update(trouble="timed_out")
    Host.objects.filter(pk=host.pk).update(**{"host_key": "a", **trouble})
    before = 1 if state == "trouble" else 0
    assert value(read(settings), "hosts", state=state) == before + 1


def test_a_host_that_a_layout_holds(team, settings):
    rows = everything(team)
    Host.objects.update(host_key="a")
    Layout.objects.filter(pk=rows.layout.pk).update(
        phase=LayoutPhase.READY, outcome="", next_step_at=timezone.now()
    )
    Device.objects.update(spare=True, spare_size=1, role="ssd")
    found = read(settings)
    assert value(found, "hosts", state="held") == 1
    assert value(found, "disks", role="ssd", state="held") == 1


WISHES: list[dict[str, Any]] = [{}, {"paused_at": timezone.now()}, {"cancelled_at": timezone.now()}]


def test_campaigns_states_are_those_of_their_pages(team, settings):
    rows = everything(team)
    layout = Layout.objects.get(pk=rows.layout.pk)
    for phase in LayoutPhase.values:
        for wish in WISHES:
            for needs in ("", "press the button"):
                copy = Campaign.objects.get(pk=rows.campaign.pk)
                copy.pk = None
                copy.__dict__.update({"paused_at": None, "cancelled_at": None, **wish})
                copy.save(force_insert=True)
                layout.pk, layout.campaign = None, copy
                layout.host = Host.objects.create(team=team, name=f"h{copy.pk}", access="described")
                layout.phase, layout.needs_person = phase, needs
                over = phase in ("tearing_down", "stuck", "done")
                layout.outcome = "succeeded" if over else ""
                layout.save(force_insert=True)
    Campaign.objects.filter(pk=rows.campaign.pk).update(deleted_at=timezone.now())
    told = Counter(
        str(one.state) for one in progress.progress_by_campaign(Campaign.objects.all()).values()
    )
    found = read(settings)
    for state in progress.State.values:
        assert value(found, "campaigns", state=state) == told[state], state
    assert set(told) == set(progress.State.values)


def test_layouts_that_are_late(team, settings):
    layout = everything(team).layout
    late = timezone.now() - timedelta(seconds=95)
    Layout.objects.filter(pk=layout.pk).update(phase="ready", outcome="", next_step_at=late)
    found = read(settings)
    assert value(found, "layouts_overdue") == 1
    assert 90 <= value(found, "layout_overdue_seconds") < 200


def test_an_audit_log_that_was_cut_shows(settings, user, tmp_path):
    settings.BENCHLAB_AUDIT_HEAD = str(tmp_path / "head")
    # As a migration leaves it: a test that empties all tables takes it along.
    empty = heads.HeadContent()
    sealed = asdict(empty) | {"seal": heads.seal(empty)}
    Head.objects.update_or_create(pk=Head.ONLY, defaults=sealed)
    add_entry("host.create", actor="somebody")
    assert value(read(settings), "audit_head_ok") == 1
    assert value(read(settings), "audit_entries") == Head.objects.get().entries
    (tmp_path / "head").write_text(json.dumps({"entries": 9, "entry": 999999, "digest": "0" * 64}))
    assert value(read(settings), "audit_head_ok") == 0
    (tmp_path / "head").write_text("not JSON")
    assert value(read(settings), "audit_head_ok") == 0
    (tmp_path / "head").unlink()
    Head.objects.update(seal="0" * 64)
    assert value(read(settings), "audit_head_ok") == 0


def test_requests_are_counted_by_few_classes(web, settings):
    before = read(settings)
    for address in ("/", "/hosts/", "/nowhere/1", "/nowhere/2", "/api/hosts/"):
        web.get(address)
    web.generic("BREW", "/hosts/")
    found = read(settings)

    def more(name: str, **labels: str) -> float:
        return value(found, name, **labels) - before.get(
            (f"{PREFIX}{name}", frozenset(labels.items())), 0
        )

    assert more("http_requests_total", route="page", method="GET", status="200") == 2
    assert more("http_requests_total", route="none", method="GET", status="404") == 2
    assert more("http_requests_total", route="api", method="GET", status="200") == 1
    assert any(("method", "other") in labels for _, labels in found)
    assert more("http_request_seconds_count", route="api") == 1
    assert value(found, "http_request_seconds_bucket", route="api", le="+Inf") == value(
        found, "http_request_seconds_count", route="api"
    )


def test_an_attempt_that_ends_is_counted_once_it_is_stored(
    team, settings, django_capture_on_commit_callbacks
):
    rows = everything(team)
    attempt = rows.attempts[0]
    Attempt.objects.filter(pk=attempt.pk).update(
        phase=AttemptPhase.QUEUED, outcome="", ended_at=None
    )
    attempt.refresh_from_db()
    with django_capture_on_commit_callbacks(execute=True):
        transitions.end_queued_attempts(
            {attempt: Verdict(Outcome.FAILED, "tool_failed", "it said no")}
        )
    assert (
        value(read(settings), "attempts_ended_total", outcome="failed", reason="tool_failed") == 1
    )


def test_what_waits_in_the_queue_and_for_how_long(settings, monkeypatch):
    queue = f"test-{time.time()}"
    conf = SimpleNamespace(task_default_queue=queue)
    monkeypatch.setattr(view, "app", SimpleNamespace(conf=conf))
    client = beats.client()
    client.lpush(queue, json.dumps({"headers": {task_metrics.SENT_AT: time.time() - 50}}))
    client.lpush(queue, json.dumps({"headers": {task_metrics.SENT_AT: time.time()}}))
    try:
        found = read(settings)
        assert value(found, "queue_messages", queue=queue) == 2
        assert 50 <= value(found, "queue_oldest_message_seconds", queue=queue) < 100
        client.rpush(queue, "no message of Celery's")
        assert value(read(settings), "queue_oldest_message_seconds", queue=queue) == 0
    finally:
        client.delete(queue)


def test_a_message_of_celerys_says_when_it_was_sent():
    """On its way to the queue, and to the task that runs."""
    queue = f"test-{time.time()}"
    app.send_task("benchlab.findings.tasks.find", (0,), queue=queue, ignore_result=True)
    try:
        message = beats.client().lindex(queue, -1)
        assert isinstance(message, bytes)
        assert view._age_s(message) < 60 and task_metrics.SENT_AT in json.loads(message)["headers"]
        task = SimpleNamespace(name="a", request=Context(json.loads(message)["headers"]))
        task_metrics._task_begun(task=task)
        assert (
            0
            < task_metrics.MESSAGE_SENT_AT.get()
            == json.loads(message)["headers"][task_metrics.SENT_AT]
        )
        task_metrics._task_ended(task=task, state="SUCCESS")
        assert task_metrics.MESSAGE_SENT_AT.get() == 0
    finally:
        beats.client().delete(queue)


def test_processes_are_added_up_and_forgotten(settings):
    now = time.time()
    for name, age, role in (
        ("a:1", 1, "web"),
        ("b:2", 2, "web"),
        ("c:3", 60, "worker"),
        ("d:4", 9999, "beat"),
    ):
        said = {"role": role, "at": now - age, "gauges": {"connections": 3}}
        beats.client().hset(
            beats.installation_key(process_counters.PROCESSES), name, json.dumps(said)
        )
    found = read(settings)
    assert value(found, "processes", role="web") == 2
    assert value(found, "processes", role="worker") == 0
    assert value(found, "http_connections") == 6
    shown = {dict(labels)["process"] for name, labels in found if "reported" in name}
    assert shown == {"a:1", "b:2", "c:3"}
    assert beats.client().hlen(beats.installation_key(process_counters.PROCESSES)) == 3


def test_without_the_broker_the_rest_is_told(settings, monkeypatch, caplog):
    def away() -> Any:
        raise redis.ConnectionError("away")

    monkeypatch.setattr(beats, "client", away)
    found = read(settings)
    assert value(found, "scrape_ok", part="broker") == 0
    assert value(found, "scrape_ok", part="database") == 1
    assert not any("processes" in name or "http" in name for name, _ in found)
    assert "metrics without the broker: away" in caplog.text


def test_without_the_database_the_rest_is_told(settings, monkeypatch):
    def away() -> Any:
        raise Error("away")

    monkeypatch.setattr(database, "_cursor", away)
    found = read(settings)
    assert value(found, "scrape_ok", part="database") == 0
    assert value(found, "scrape_ok", part="broker") == 1
    assert not any("layouts" in name for name, _ in found)


def test_the_last_backup(settings):
    assert not any("backup" in name for name, _ in read(settings))
    process_counters.note_time("backup")
    assert abs(value(read(settings), "backup_timestamp_seconds") - time.time()) < 60


def test_tasks_and_what_they_waited(settings):
    task = SimpleNamespace(name="benchlab.engine.tasks.step_layout", request=SimpleNamespace())
    setattr(task.request, task_metrics.SENT_AT, time.time() - 7)
    task_metrics._task_begun(task=task)
    task_metrics._task_ended(task=task, state="FAILURE")
    found = read(settings)
    assert value(found, "tasks_total", task="engine.step_layout", outcome="failed") == 1
    assert value(found, "task_wait_seconds_bucket", task="engine.step_layout", le="5.0") == 0
    assert value(found, "task_wait_seconds_bucket", task="engine.step_layout", le="10.0") == 1
