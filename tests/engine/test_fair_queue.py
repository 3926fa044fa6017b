"""Turns of teams: one team's silent hosts leave places to others, and results come first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.contracts import AgentError, Secret
from agents.ssh import dial, shell
from agents.ssh.keys import generate_key_pair
from benchlab.hosts import package_installs
from benchlab.hosts import tasks as host_tasks
from benchlab.imports import draft_store, drafts
from benchlab.imports import tasks as import_tasks
from benchlab.workers import messages
from benchlab.workers.fair_queue import FairQueue, Priority, ThreadShares, WorkItem
from benchlab.workers.lru_cache import LruCache
from tests.silent_hosts import silent_hosts
from tests.stack import wait_for

OURS, OTHERS = 1000, 2000  # pks from here on are of that team


def eventually(true: Any) -> None:
    wait_for(true, Path("/dev/null"), 30)


class Lab:
    """What was begun, in order; each waits until the test lets all go."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.go = threading.Event()
        self.teams: LruCache[int | None] = LruCache(lambda pk: pk // 1000)

    def do(self, pk: int) -> None:
        self.begun.append(pk)
        assert self.go.wait(30)

    def work(self, pk: int) -> WorkItem:
        return WorkItem(self.do, self.teams, pk, "task")


@pytest.fixture
def lab() -> Iterator[Lab]:
    queue = Lab()
    yield queue
    queue.go.set()


@pytest.fixture(params=[ThreadShares()])
def queue(lab, request) -> Iterator[FairQueue]:
    queue = FairQueue("test", request.param)
    yield queue
    lab.go.set()
    queue.end()


def places(count: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "queue", [ThreadShares(count)], indirect=True, ids=[f"{count} places"]
    )


@pytest.mark.parametrize("how", ["silent", "drip", "handshake"])
def test_a_team_begins_while_another_teams_hosts_are_silent(queue, how, monkeypatch):
    """Forty hosts on real sockets; the other team's work begins and ends while all that have a place still wait."""
    for limit in ("BANNER_S", "EXCHANGE_S"):
        monkeypatch.setattr(dial, limit, 30.0)
    private, _ = generate_key_pair("test")
    over, ended = threading.Event(), list[int]()
    with silent_hosts(40, how) as silent:

        def connect(pk: int) -> None:
            port = silent.ports[pk - OTHERS]
            address = shell.Address("127.0.0.1", port, "root", Secret(private), silent.host_key)
            with pytest.raises(AgentError):
                shell.connect_shell(address)
            ended.append(pk)

        queue.begin()
        teams: LruCache[int | None] = LruCache(lambda pk: pk // 1000)
        for number in range(40):
            queue.submit(WorkItem(connect, teams, OTHERS + number, "task"))
        eventually(lambda: silent.came >= queue.shares.messages_of_team)
        queue.submit(WorkItem(lambda pk: over.set(), teams, OURS, "task"))
        assert over.wait(20)
        assert not ended
        assert silent.came == queue.shares.messages_of_team


@places(1)
def test_results_come_before_what_was_put_off(queue, lab):
    queue.begin()
    queue.enqueue(Priority.RESULT, lab.work(OURS))
    eventually(lambda: lab.begun == [OURS])
    assert not queue.crowded(1)
    queue.enqueue(Priority.FOLLOW_UP, lab.work(OURS + 1))
    queue.submit(lab.work(OURS + 2))
    assert not queue.crowded(1)
    queue.enqueue(Priority.RESULT, lab.work(OURS + 3))
    queue.enqueue(Priority.RESULT, lab.work(OURS + 4))
    assert queue.crowded(1)
    lab.go.set()
    eventually(lambda: len(lab.begun) == 5)
    assert lab.begun == [OURS + n for n in (0, 3, 4, 1, 2)]


@places(2)
def test_the_team_that_has_least_under_way_goes_first(queue, lab):
    queue.begin()
    queue.enqueue(Priority.RESULT, lab.work(OURS))
    queue.enqueue(Priority.RESULT, lab.work(OURS + 1))
    eventually(lambda: len(lab.begun) == 2)
    queue.enqueue(Priority.RESULT, lab.work(OURS + 2))
    queue.submit(lab.work(OTHERS))
    lab.go.set()
    eventually(lambda: len(lab.begun) == 4)
    assert lab.begun[2] == OTHERS


@places(1)
def test_what_is_asked_for_twice_is_done_once_and_again_when_asked_meanwhile(queue, lab):
    queue.begin()
    queue.submit(lab.work(OURS))
    eventually(lambda: lab.begun == [OURS])
    queue.submit(lab.work(OURS + 1))
    queue.submit(lab.work(OURS + 1))
    queue.submit(lab.work(OURS))  # it may have looked already when this came
    lab.go.set()
    eventually(lambda: len(lab.begun) == 3)
    assert lab.begun == [OURS, OURS + 1, OURS]


@places(1)
def test_a_team_that_cannot_be_looked_up_stops_nobody(queue, lab):
    queue.begin()
    known: dict[int, int | None] = {}
    missing: LruCache[int | None] = LruCache(lambda pk: known[pk])
    queue.submit(WorkItem(lab.do, missing, OURS, "task"))
    queue.submit(lab.work(OURS + 1))
    eventually(lambda: lab.begun == [OURS + 1])


def test_where_nobody_serves_it_is_done_in_place(lab):
    lab.go.set()
    FairQueue().submit(lab.work(OURS))
    assert lab.begun == [OURS]


@places(1)
def test_what_waits_is_handed_over_when_the_process_ends(queue, lab, monkeypatch):
    """Once, by the message that asked for it, and what comes later as well; what is under way goes on."""
    sent: list[tuple[str, int]] = []
    monkeypatch.setattr(messages, "send", lambda task, pk: sent.append((task, pk)))
    queue.begin()
    queue.submit(lab.work(OURS))
    eventually(lambda: lab.begun == [OURS])
    queue.submit(lab.work(OURS + 1))
    queue.enqueue(Priority.FOLLOW_UP, lab.work(OURS + 1))
    queue.drain()
    assert sent == [("task", OURS + 1)]
    queue.submit(lab.work(OURS + 2))
    lab.go.set()
    queue.end()
    assert sent == [("task", OURS + 1), ("task", OURS + 2)]
    assert lab.begun == [OURS]


@pytest.mark.parametrize(
    ("tasks", "task", "does", "teams", "threads"),
    [
        (host_tasks, "advance_install", (package_installs, "advance_step"), "_teams", "host_queue"),
        (import_tasks, "read_file", (drafts, "read_file"), "_teams_of_files", "uploads"),
        (import_tasks, "store_draft", (draft_store, "store_draft"), "_teams_of_drafts", "uploads"),
    ],
)
def test_no_team_takes_celerys_threads(tasks, task, does, teams, threads, lab, monkeypatch):
    """Nor all of the threads that do the work: it waits there, and another team's is begun."""
    monkeypatch.setattr(*does, lab.do)
    monkeypatch.setattr(tasks, teams, lab.teams)
    served: FairQueue = getattr(tasks, threads)
    served.begin()
    try:
        most = served.shares.messages_of_team
        for pk in (*range(OTHERS, OTHERS + 2 * most), OURS):
            getattr(tasks, task)(pk)
        eventually(lambda: len(lab.begun) == most + 1)
        assert OURS in lab.begun
        lab.go.set()
        eventually(lambda: len(lab.begun) == 2 * most + 1)
    finally:
        lab.go.set()
        served.end()
