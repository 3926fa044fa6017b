"""Work that waits for a host: no web request does, a worker's thread does, and whoever looks is told how it stands."""

from __future__ import annotations

import socket
import threading
import time
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from agents.contracts import AgentError, Reason
from agents.ssh import dial, pool
from benchlab.engine import sweeper
from benchlab.hosts import discovery, host_tasks, package_installs, registration, ssh_access
from benchlab.hosts.models import Host, HostTask, PackageInstall
from benchlab.team.models import Team
from benchlab.topologies.models import Topology
from benchlab.workers import beats, messages
from benchlab.workers.lease import Lock, lease
from tests.api.conftest import client_of, is_problem
from tests.hosts.conftest import credential_key, disk, facts
from tests.silent_hosts import silent_hosts

PAGES_S = 2.0  # a page that waits for nobody, on a machine that is busy with tests


@pytest.fixture
def silent(host):
    """The host takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as server:
        key = credential_key(host)
        port = server.getsockname()[1]
        Host.objects.filter(pk=host.pk).update(address="127.0.0.1", port=port, host_key=key)
        host.refresh_from_db()
        yield host


@pytest.fixture
def sent(monkeypatch) -> list[tuple[str, int]]:
    """Messages that would have gone to Celery."""
    found: list[tuple[str, int]] = []
    monkeypatch.setattr(messages, "send", lambda task, pk: found.append((task, pk)))
    return found


@pytest.fixture
def other_team(db) -> Team:
    return Team.objects.create(name="Others")


@pytest.fixture
def topology(team) -> Topology:
    stack = [{"kind": "directory", "options": {"path": "/srv"}, "devices": []}]
    return Topology.objects.create(team=team, name="dir", stack=stack)


def ask(host: Host, kind: str = "read_facts") -> HostTask:
    return host_tasks.request_task(host, kind, None)


def fresh(row: HostTask) -> HostTask:
    row.refresh_from_db()
    return row


def test_no_page_waits_for_a_silent_host(web, silent, topology, team, sent):
    asked = {
        reverse("host-read", args=[silent.pk]): {},
        reverse("host-key-ask", args=[silent.pk]): {},
        reverse("topology-plan", args=[topology.pk]): {"host": silent.pk},
        reverse("dynamo-check"): {"host": silent.pk, "path": "dynamo"},
        reverse("host-add"): {
            "name": "lab2", "address": "127.0.0.1", "port": silent.port, "user": "root"
        },
    }  # fmt: skip
    for path, body in asked.items():
        begun = time.monotonic()
        answer = web.post(path, body)
        assert answer.status_code == 302 and "task=" in answer["Location"], path
        shown = web.get(answer["Location"])
        assert time.monotonic() - begun < PAGES_S, path
        assert 'id="host-task"' in shown.text and "waiting for a worker" in shown.text, path
        assert '<meta http-equiv="refresh"' in shown.text, path  # without JavaScript
    kinds = HostTask.objects.values_list("kind", flat=True)
    # The plan's reading is the one that was asked for before.
    assert sorted(kinds) == ["check_dynamo", "offer_key", "offer_key", "read_facts"]


def test_the_api_says_where_to_look(user, silent, topology, monkeypatch, sent):
    monkeypatch.setattr(host_tasks, "MAX_WAIT_S", 0.3)
    api = client_of(user)
    for path, body in (
        (f"/api/hosts/{silent.pk}/read-facts/", {}),
        (f"/api/hosts/{silent.pk}/offer-key/", {}),
        (f"/api/topologies/{topology.pk}/plan/", {"host": silent.pk}),
        ("/api/dynamo-checks/", {"host": silent.pk}),
    ):
        begun = time.monotonic()
        answer = api.post(path, body, format="json")
        assert time.monotonic() - begun < PAGES_S and answer.status_code == 202, path
        assert answer.json()["state"] == "waiting" and answer["Retry-After"]
        found = api.get(answer["Location"])
        assert found.status_code == 200 and found.json()["id"] == answer.json()["id"]


def test_a_silent_host_ends_as_an_error_in_words(web, silent, monkeypatch, hosts_at_once):
    monkeypatch.setattr(dial, "BANNER_S", 0.3)
    answer = web.post(reverse("host-read", args=[silent.pk]), follow=True)
    row = HostTask.objects.get()
    assert row.ended_at and "sent no SSH banner within 0.3 s; check" in row.error
    assert "could not be read" in answer.text and "sent no SSH banner" in answer.text
    assert "()" not in row.error


def test_a_timeout_has_no_empty_brackets():
    for error in (TimeoutError(), OSError(), ConnectionResetError(""), TimeoutError()):
        assert "()" not in str(dial._connection_error(error, "lab"))
    assert "(no route)" in str(dial._connection_error(TimeoutError("no route"), "lab"))


def test_how_it_ended_is_seen_by_whoever_followed(
    web, htmx, other_web, read_host, monkeypatch, sent
):
    answer = web.post(reverse("host-read", args=[read_host.pk]))
    row = HostTask.objects.get()
    part = reverse("host-task", args=[read_host.pk, row.pk])
    assert other_web.get(part).status_code == 404
    polled = htmx.get(part)
    assert "HX-Refresh" not in polled and "<html" not in polled.text
    assert 'hx-trigger="every 1s"' in polled.text and "Asked for by alice" in polled.text
    monkeypatch.setattr(
        discovery, "read_facts", lambda host: discovery.store_facts(host, facts(disk("sdb")))
    )  # fmt: skip
    host_tasks.perform_task(row.pk)
    assert htmx.get(part)["HX-Refresh"] == "true"
    told = web.get(answer["Location"]).text
    assert "answered; its facts were read" in told and "every 1s" not in told
    assert "http-equiv" not in told
    HostTask.objects.update(ended_at=timezone.now() - timedelta(hours=1))
    assert "its facts were read" not in web.get(answer["Location"]).text


def test_a_worker_that_is_not_there_is_said(web, silent, monkeypatch, sent):
    web.post(reverse("host-read", args=[silent.pk]))
    page = reverse("host-detail", args=[silent.pk])
    for age, said in ((None, "No worker runs"), (40.0, "silent for 40 s"), (1.0, "")):
        monkeypatch.setattr(beats, "age_s", lambda age=age: age)
        text = web.get(page).text
        assert (said in text) if said else ("No worker" not in text and "silent for" not in text)


def test_who_asks_twice_gets_the_same(host, sent):
    assert ask(host) == ask(host) != ask(host, "offer_key")


def test_silent_hosts_leave_threads_to_campaigns(host, monkeypatch, sent):
    """As many hosts as there are threads say nothing: only some of the threads wait for them."""
    rows = [
        ask(registration.add_host(host.team, f"h{n}", "192.0.2.1", host.credential))
        for n in range(8)
    ]
    begun(*rows[: host_tasks.MAX_AT_ONCE_OF_TEAM])
    monkeypatch.setattr(discovery, "read_facts", lambda host: pytest.fail("has no seat"))
    host_tasks.perform_task(rows[-1].pk)
    assert fresh(rows[-1]).started_at is None
    HostTask.objects.filter(pk=rows[0].pk).update(ended_at=timezone.now())

    def refused(host):
        raise AgentError("refused", Reason.CONNECTION_REFUSED)

    monkeypatch.setattr(discovery, "read_facts", refused)
    host_tasks.perform_task(rows[-1].pk)
    assert fresh(rows[-1]).error == "refused"


def begun(*rows: HostTask) -> None:
    HostTask.objects.filter(pk__in=[row.pk for row in rows]).update(
        started_at=timezone.now(), tries=1
    )


def hosts_of(team: Team, count: int) -> list[Host]:
    key = registration.make_credential(team, f"of {team.pk}")
    return [registration.add_host(team, f"{team.pk}-{n}", "192.0.2.1", key) for n in range(count)]


def test_one_teams_silent_hosts_leave_a_seat_to_others(host, other_team, monkeypatch, sent):
    """Twelve hosts that drip a banner kept another team's facts waiting for a minute."""
    slow = [ask(silent) for silent in hosts_of(host.team, 12)]
    begun(*slow[: host_tasks.MAX_AT_ONCE_OF_TEAM])
    monkeypatch.setattr(discovery, "read_facts", lambda host: pytest.fail("has no seat"))
    host_tasks.perform_task(slow[-1].pk)
    assert fresh(slow[-1]).started_at is None
    (theirs,) = (ask(one) for one in hosts_of(other_team, 1))

    def refused(host):
        raise AgentError("refused", Reason.CONNECTION_REFUSED)

    monkeypatch.setattr(discovery, "read_facts", refused)
    host_tasks.perform_task(theirs.pk)
    assert fresh(theirs).error == "refused"


def test_the_next_seat_is_of_the_team_that_has_fewest(host, other_team, sent):
    slow = [ask(silent) for silent in hosts_of(host.team, 6)]
    theirs = [ask(one) for one in hosts_of(other_team, 2)]
    begun(slow[0], slow[1])
    assert host_tasks.next_in_turn() == theirs[0].pk
    begun(theirs[0])
    assert host_tasks.next_in_turn() == theirs[1].pk
    HostTask.objects.filter(pk__in=[slow[0].pk, slow[1].pk]).update(ended_at=timezone.now())
    assert host_tasks.next_in_turn() == slow[2].pk
    begun(*slow[2:5])
    HostTask.objects.filter(pk=theirs[1].pk).update(ended_at=timezone.now())
    # The team has all that it may: nobody else waits.
    assert host_tasks.next_in_turn() is None


@pytest.mark.django_db(transaction=True)
def test_the_next_one_is_sent_when_a_seat_is_free(host, monkeypatch, sent):
    first, second = ask(host), ask(host, "offer_key")
    monkeypatch.setattr(discovery, "read_facts", lambda host: ssh_access.offer_key(host))
    sent.clear()
    monkeypatch.setattr("agents.ssh.shell.offered_host_key", lambda *_, **__: 1 / 0)
    host_tasks.perform_task(first.pk)
    assert fresh(first).error == "BenchLab itself failed: ZeroDivisionError. See the worker's log."
    assert sent == [("benchlab.hosts.tasks.perform_host_task", second.pk)]


def test_a_lost_message_is_sent_again(host, sent):
    row = ask(host)
    sweeper.sweep_once()
    assert sent == []  # it was sent a moment ago
    HostTask.objects.update(due_at=timezone.now() - timedelta(seconds=1))
    sweeper.sweep_once()
    sweeper.sweep_once()
    assert sent == [("benchlab.hosts.tasks.perform_host_task", row.pk)]


@pytest.mark.django_db(transaction=True)
def test_what_another_worker_does_is_left_to_it(host, monkeypatch, sent):
    row = ask(host)
    monkeypatch.setattr(discovery, "read_facts", lambda host: pytest.fail("twice at once"))
    held, over = threading.Event(), threading.Event()

    def other() -> None:
        from django.db import connection

        with lease(row.pk, Lock.HOST_TASK):
            held.set()
            over.wait(10)
        connection.close()

    thread = threading.Thread(target=other)
    thread.start()
    held.wait(10)
    host_tasks.perform_task(row.pk)
    over.set()
    thread.join()
    assert fresh(row).started_at is None


def test_a_dead_workers_task_is_done_by_the_next_but_not_for_ever(host, monkeypatch, sent):
    row = ask(host)
    HostTask.objects.update(started_at=timezone.now() - timedelta(hours=2), tries=1)
    calls = []

    def dies(host):
        calls.append(host)
        raise KeyboardInterrupt

    monkeypatch.setattr(discovery, "read_facts", dies)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            host_tasks.perform_task(row.pk)
    host_tasks.perform_task(row.pk)
    assert len(calls) == 2 and "died 3 times" in fresh(row).error


def test_what_nobody_began_for_long_is_not_done_any_more(host, monkeypatch, sent):
    row = ask(host)
    HostTask.objects.update(created_at=timezone.now() - timedelta(hours=1))
    monkeypatch.setattr(discovery, "read_facts", lambda host: pytest.fail("nobody expects it"))
    host_tasks.perform_task(row.pk)
    assert "Try again" in fresh(row).error


def test_every_kind_can_be_done():
    from django.utils.module_loading import import_string

    for kind in host_tasks.KINDS.values():
        assert callable(import_string(kind.perform))
        assert all("{host}" in text for text in (kind.in_progress, kind.succeeded, kind.failed))


def test_an_install_on_a_silent_host_is_looked_at_seldom(host, monkeypatch, sent):
    row = PackageInstall.objects.create(host=host, argv=["apt-get"], begun_at=timezone.now())

    def slow(host):
        time.sleep(0.5)
        raise AgentError("lab1: no answer", Reason.TIMED_OUT)

    monkeypatch.setattr(ssh_access, "connect_to_host", slow)
    assert (
        PackageInstall.objects.claim_due() == [row.pk] and PackageInstall.objects.claim_due() == []
    )
    package_installs.advance_step(row.pk)
    row.refresh_from_db()
    assert row.silence == "lab1: no answer" and row.ended_at is None
    assert row.due_at - timezone.now() > timedelta(seconds=3.5)


def test_an_install_on_a_host_that_is_not_there_ends(web, host, monkeypatch):
    row = PackageInstall.objects.create(host=host, argv=["apt-get"])
    page = reverse("host-install", args=[host.pk, row.pk])
    assert "Waiting for a worker" in web.get(page).text

    def refused(host):
        raise AgentError("lab1: refused", Reason.CONNECTION_REFUSED)

    monkeypatch.setattr(ssh_access, "connect_to_host", refused)
    package_installs.advance_step(row.pk)
    assert "lab1: refused" in web.get(page).text
    assert PackageInstall.objects.get().ended_at


def test_a_dry_run_by_facts_that_were_read(user, read_host, topology, host, team):
    api, seen = client_of(user), read_host.snapshots.get().pk
    path = f"/api/topologies/{topology.pk}/plan/"
    told = api.post(path, {"host": read_host.pk, "snapshot": seen}, format="json")
    assert told.status_code == 200 and told.json()["snapshot"] == seen
    other = registration.add_host(team, "lab9", "192.0.2.1", host.credential)
    is_problem(api.post(path, {"host": other.pk, "snapshot": seen}, format="json"), 400)


def test_who_asks_has_a_silent_host_tried_and_others_leave_it_alone(web, host, monkeypatch, sent):
    monkeypatch.setattr(dial, "BANNER_S", 0.3)
    monkeypatch.setattr(pool, "SLOW_S", 0.1)
    monkeypatch.setattr(pool, "FIRST_S", 1000.0)
    with silent_hosts(1, "silent") as silent:
        row = registration.add_host(
            host.team, "mute", "127.0.0.1", host.credential, port=silent.ports[0]
        )
        registration.change_host(row, host_key=silent.host_key)
        for tries in (1, 2):
            host_tasks.perform_task(ask(row).pk)
            assert silent.came == tries
        # As a plan or a step of a layout does.
        with pytest.raises(AgentError, match="not tried again before"):
            discovery.read_facts(row)
        assert silent.came == 2
        assert "not tried again before" in web.get(reverse("host-detail", args=[row.pk])).text
