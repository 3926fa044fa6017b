"""Moves are compare-and-set; the database itself holds the host lock."""

from __future__ import annotations

import threading
import time

import pytest
from django.db import IntegrityError, connection, connections

from agents.contracts import Reason
from benchlab.hosts.models import Host
from benchlab.runs import transitions as moves
from benchlab.runs.models import Attempt, Layout, Transition
from benchlab.runs.states import ATTEMPT_MOVES, LAYOUT_MOVES, AttemptPhase, LayoutPhase, Outcome
from benchlab.runs.verdict import Verdict
from benchlab.workers.lease import lease

pytestmark = pytest.mark.django_db


def wait_until(true, seconds=5.0):
    until = time.monotonic() + seconds
    while not true() and time.monotonic() < until:
        time.sleep(0.01)
    return true()


def test_a_move_leaves_a_transition(make_layout):
    layout = make_layout()
    moves.move_layout(layout, LayoutPhase.PROVISIONING, "the host is free")
    assert Layout.objects.get().phase == "provisioning"
    assert [(t.old, t.new, t.reason) for t in Transition.objects.all()] == [
        ("waiting", "provisioning", "the host is free")
    ]


def test_an_illegal_move_is_refused(make_layout):
    with pytest.raises(ValueError, match="waiting cannot become ready"):
        moves.move_layout(make_layout(), LayoutPhase.READY)


def test_the_second_of_two_movers_is_told(make_layout):
    layout = make_layout()
    stale = Layout.objects.get(pk=layout.pk)
    moves.move_layout(layout, LayoutPhase.PROVISIONING)
    with pytest.raises(moves.Moved):
        moves.move_layout(stale, LayoutPhase.PROVISIONING)
    assert Transition.objects.count() == 1


@pytest.mark.parametrize("holding", ["provisioning", "ready", "tearing_down", "stuck"])
def test_one_layout_holds_the_host(make_layout, holding):
    decided = {"outcome": "failed"} if holding in {"tearing_down", "stuck"} else {}
    make_layout(phase=holding, **decided)
    with pytest.raises(moves.HostBusy):
        moves.move_layout(make_layout(), LayoutPhase.PROVISIONING)
    assert Transition.objects.count() == 0


def test_another_host_is_free(make_layout, team, host):
    make_layout(phase="ready")
    other = Host.objects.create(team=team, name="lab2", address="::1", credential=host.credential)
    moves.move_layout(make_layout(on=other), LayoutPhase.PROVISIONING)


def test_an_end_without_outcome_is_refused_by_the_database(make_layout):
    attempt = make_layout().attempts.get()
    with pytest.raises(IntegrityError, match="attempt_outcome_when_done"):
        moves.move_attempt(attempt, AttemptPhase.DONE)


def test_many_that_wait_are_over_at_once_each_with_its_own_words(
    make_layout, django_assert_num_queries
):
    layout = make_layout(runs=12)
    rows = list(layout.attempts.order_by("pk"))
    failed = {row: Verdict(Outcome.FAILED, Reason.TOOL_MISSING, f"no {row.pk % 2}") for row in rows}
    with django_assert_num_queries(2):
        moves.end_queued_attempts(failed)
    for row, kept in zip(rows, layout.attempts.order_by("pk"), strict=True):
        told = ("done", "failed", "tool_missing", f"no {row.pk % 2}")
        assert (kept.phase, kept.outcome, kept.reason, kept.reason_text) == told
        assert (row.phase, row.outcome, row.reason, row.reason_text) == told
        assert row.ended_at == kept.ended_at is not None
    transitions = layout.transitions.values_list("attempt", "old", "new", "reason")
    assert list(transitions) == [(row.pk, "queued", "done", f"no {row.pk % 2}") for row in rows]
    moves.end_queued_attempts({})


@pytest.mark.django_db(transaction=True)
def test_of_many_none_is_over_where_one_was_moved(make_layout):
    layout = make_layout(runs=3)
    rows = list(layout.attempts.all())
    moves.move_attempt(Attempt.objects.get(pk=rows[1].pk), AttemptPhase.STARTING)
    with pytest.raises(moves.Moved):
        moves.end_queued_attempts(dict.fromkeys(rows, Verdict(Outcome.CANCELLED)))
    assert sorted(layout.attempts.values_list("phase", flat=True)) == [
        "queued",
        "queued",
        "starting",
    ]
    assert Transition.objects.count() == 1 and {row.phase for row in rows} == {"queued"}


def test_what_belongs_to_a_move_is_undone_with_it(make_layout):
    def breaks() -> None:
        raise KeyError("ours")

    layout = make_layout()
    with pytest.raises(KeyError):
        moves.move_layout(layout, LayoutPhase.PROVISIONING, also=breaks)
    assert (Layout.objects.get().phase, Transition.objects.count()) == ("waiting", 0)


def test_a_run_has_one_open_attempt(make_layout):
    layout = make_layout()
    with pytest.raises(IntegrityError, match="attempt_one_open"):
        Attempt.objects.create(run=layout.attempts.get().run, layout=layout, number=2)


def test_every_phase_has_its_moves():
    assert set(LAYOUT_MOVES) == set(LayoutPhase.values)
    assert set(ATTEMPT_MOVES) == set(AttemptPhase.values)


@pytest.mark.django_db(transaction=True)
def test_twelve_workers_claim_one_layout_and_one_wins(make_layout):
    layout = make_layout()
    won: list[int] = []

    def claim(number: int) -> None:
        try:
            moves.move_layout(Layout.objects.get(pk=layout.pk), LayoutPhase.PROVISIONING)
            won.append(number)
        except (moves.Moved, ValueError):
            pass
        finally:
            connections.close_all()

    threads = [threading.Thread(target=claim, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert Transition.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_lease_is_held_once_and_freed_when_its_holder_dies(make_layout):
    layout = make_layout()
    seen: list[bool] = []
    dies, died = threading.Event(), threading.Event()

    def holder() -> None:
        taken = lease(layout.pk)  # kept alive, and never given back
        seen.append(taken.__enter__())
        dies.wait(5)
        connection.close()  # what the operating system does to a killed worker's connection
        died.set()
        taken.__exit__(None, None, None)  # gives back nothing: the lock went with its connection
        connection.close()

    thread = threading.Thread(target=holder)
    thread.start()
    assert wait_until(lambda: seen)
    with lease(layout.pk) as held:
        assert not held
    dies.set()
    died.wait(5)
    thread.join()

    def free() -> bool:
        with lease(layout.pk) as held:
            return held

    assert wait_until(free)  # PostgreSQL sees a moment later that the connection ended
