"""Polls that hold no thread: asked once, taken up once, and never needed for the run to get on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from agents.contracts import AgentError, Ran, Reason, Secret
from agents.jobs import job
from agents.jobs.spool import Spool
from agents.ssh.shell import Address, SshShell
from benchlab.engine import jobs, polls, tasks
from benchlab.engine.polls import PollAnswer, PollRequest, Polls
from benchlab.runs.models import Attempt
from benchlab.workers.lease import lease
from tests.runs import drive
from tests.runs.test_engine_local import here, make_campaign, server  # noqa: F401
from tests.stack import wait_for

ADDRESS = Address("127.0.0.1", 22, "root", Secret("x"), "key")
RUNNING = Ran((), 0, b"state=running\nexit=\nfrom=0\n\nabc", b"", 0.0)


@dataclass(frozen=True, slots=True)
class Slow(SshShell):
    """Its commands end when the test says so."""

    sent: list[Future[Ran]] = field(default_factory=list)

    def submit(self, argv: Any, *, root: bool = False, timeout_s: float = 60.0) -> Future[Ran]:
        self.sent.append(Future())
        return self.sent[-1]


def question(attempt_id: int = 1) -> PollRequest:
    return PollRequest(attempt_id, Spool("attempt-1"), 2.0, 0, ())


@pytest.fixture
def served() -> Iterator[tuple[Polls, list[int]]]:
    made = Polls()
    stepped: list[int] = []
    made.serve_steps(stepped.append, lambda layout_id: 1)
    yield made, stepped
    made.stop_serving()


def eventually(true: Any) -> None:
    wait_for(true, Path("/dev/null"), 10)


def test_a_poll_is_under_way_once_and_its_end_has_the_layout_stepped(served):
    made, stepped = served
    shell = Slow(ADDRESS)
    assert made.submit_poll(7, question(), shell) is False
    assert made.submit_poll(7, question(), shell) is False
    assert len(shell.sent) == 1 and stepped == []
    shell.sent[0].set_result(RUNNING)
    eventually(lambda: stepped == [7])
    answer = made.take_answer(7, 1)
    assert answer is not None
    assert answer.to_polled() == job.Polled(job.State.RUNNING, None, b"abc", 3, False)
    assert made.take_answer(7, 1) is None
    assert made.submit_poll(7, question(), shell) is False  # the next one
    assert len(shell.sent) == 2


def test_an_answer_that_waits_is_not_asked_for_again(served):
    made, _ = served
    shell = Slow(ADDRESS)
    made.submit_poll(7, question(), shell)
    shell.sent[0].set_result(RUNNING)
    assert made.submit_poll(7, question(), shell) is True
    assert len(shell.sent) == 1


def test_what_a_poll_met_is_said_to_who_takes_it_up(served):
    made, stepped = served
    shell = Slow(ADDRESS)
    made.submit_poll(7, question(), shell)
    shell.sent[0].set_exception(AgentError("the connection was lost", Reason.CONNECTION_LOST))
    eventually(lambda: stepped == [7])
    with pytest.raises(AgentError, match="the connection was lost"):
        made.take_answer(7, 1).to_polled()


def test_an_answer_is_for_its_own_attempt_and_for_a_while(served, monkeypatch):
    made, _ = served
    shell = Slow(ADDRESS)
    made.submit_poll(7, question(1), shell)
    # That one is over; nobody takes its answer.
    assert made.submit_poll(7, question(2), shell) is False
    shell.sent[0].set_result(RUNNING)
    assert made.take_answer(7, 2) is None
    shell.sent[1].set_result(RUNNING)
    monkeypatch.setattr(polls, "STALE_S", 0.0)
    assert made.take_answer(7, 2) is None


def test_of_a_crowd_each_is_asked_less_often(served):
    made, _ = served
    shell = Slow(ADDRESS)
    assert made.patience_s(2.0) == 2.0
    for layout_id in range(150):
        made.submit_poll(layout_id, question(), shell)
    assert made.patience_s(2.0) == 10.0
    for future in shell.sent:
        future.cancel()


def test_a_poll_that_could_not_be_sent_is_not_waited_for(served):
    made, stepped = served

    @dataclass(frozen=True, slots=True)
    class Broken(SshShell):
        def submit(self, *given: Any, **more: Any) -> Future[Ran]:
            raise RuntimeError("no thread can be started")

    with pytest.raises(RuntimeError):
        made.submit_poll(7, question(), Broken(ADDRESS))
    shell = Slow(ADDRESS)
    assert made.submit_poll(7, question(), shell) is False
    shell.sent[0].cancel()
    made.submit_poll(7, question(), shell)
    assert len(shell.sent) == 2 and stepped == []


def test_where_nobody_serves_it_is_asked_in_place():
    class Shell:
        def run(self, argv: Any, **given: Any) -> Ran:
            return RUNNING

    made = Polls()
    assert made.submit_poll(7, question(), Shell()) is True
    assert made.take_answer(7, 1).to_polled().state is job.State.RUNNING


@pytest.fixture
def serving(monkeypatch) -> Iterator[list[str]]:
    """This process as a worker, without messages; the names of the threads that step."""
    names: list[str] = []
    monkeypatch.setattr(tasks, "BUDGET_S", 60.0)

    def step(layout_id: int) -> None:
        names.append(threading.current_thread().name)
        try:
            tasks.step_until_waiting(layout_id)
        finally:
            connections.close_all()

    polls.polls.serve_steps(step, jobs.layout_team)
    yield names
    polls.polls.stop_serving()


SLOW = {"block_size": 4096, "count": 5000, "oflag": ["dsync"]}


@pytest.mark.one_in(2)
@pytest.mark.django_db(transaction=True)
def test_a_host_that_works_holds_no_thread(make_campaign, serving):  # noqa: F811
    campaign = make_campaign(options=SLOW, repeats=2)
    drive.plan_and_start(campaign)
    layout = campaign.layouts.get()
    tasks.step_until_waiting(layout.pk)
    assert Attempt.objects.get(run__repeat=1).phase == "running"
    with lease(layout.pk) as held:
        assert held, "the step is over while the tool runs"
    eventually_done(lambda: Attempt.objects.filter(outcome="succeeded").count() == 2)
    assert serving and all(name.startswith("step") for name in serving)
    drive.to_the_end(campaign, 60)
    assert campaign.layouts.get().outcome == "succeeded"


@pytest.mark.django_db(transaction=True)
def test_an_answer_that_finds_its_layout_held(make_campaign, serving, monkeypatch):  # noqa: F811
    campaign = make_campaign(options={"block_size": 65536, "count": 16})
    drive.plan_and_start(campaign)
    layout = campaign.layouts.get()
    real = polls.polls.submit_poll

    def ask(*given: Any) -> bool:
        """The job is over and its answer here before the step that asked has ended."""
        found = real(*given)
        until = time.monotonic() + 5
        while layout.pk not in polls.polls._came and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.2)  # the thread that takes it up finds the lease held
        return found

    monkeypatch.setattr(polls.polls, "submit_poll", ask)
    tasks.step_until_waiting(layout.pk)
    eventually_done(lambda: Attempt.objects.get().phase == "done")
    monkeypatch.undo()
    assert Attempt.objects.get().outcome == "succeeded"
    drive.to_the_end(campaign, 60)


def eventually_done(true: Any) -> None:
    wait_for(true, Path("/dev/null"), 240)


def test_answers_nobody_took_are_let_go(monkeypatch):
    made = Polls()
    made._store_answer(1, PollAnswer(question()))
    monkeypatch.setattr(polls, "STALE_S", -1.0)
    made._store_answer(2, PollAnswer(question()))
    assert list(made._came) == [2]
