"""A worker with more to do than it can: results are taken up before the next runs are started."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from benchlab.engine import tasks
from benchlab.engine.checks import condition
from benchlab.runs.models import Attempt

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_look_serves_the_next_run_of_the_same_step_only(make_layout, monkeypatch):
    layout = make_layout(phase="ready", runs=1)
    kept: list[bool] = []

    def acted(rows: Any) -> float:
        kept.append(layout.pk in condition._recent_conditions)
        condition._keep_recent(rows.layout, time.monotonic(), condition.Condition())
        return 0.0 if len(kept) < 2 else 5.0

    monkeypatch.setattr(tasks, "_decide_and_act", acted)
    tasks.step_until_waiting(layout.pk)
    assert kept == [False, True] and layout.pk not in condition._recent_conditions
    tasks.step_until_waiting(layout.pk)
    assert kept == [False, True, False]


@pytest.mark.parametrize(("phase", "waits"), [("done", True), ("queued", True), ("running", False)])
def test_who_has_no_result_to_bring_lets_others_go_first(make_layout, monkeypatch, phase, waits):
    layout = make_layout(phase="ready", runs=1)
    Attempt.objects.filter(layout=layout).update(phase="running")
    put_off: list[int] = []
    delays = [0.0, 5.0]  # it goes on at once, then waits

    def acted(rows: Any) -> float:
        rows.attempt.phase = phase
        return delays.pop(0)

    waiting = SimpleNamespace(
        has_backlog=lambda team: True,
        defer_step=put_off.append,
        queue_if_answered=lambda layout_id: None,
        drained=False,
    )
    monkeypatch.setattr(tasks, "polls", waiting)
    monkeypatch.setattr(tasks, "_decide_and_act", acted)
    tasks.step_until_waiting(layout.pk)
    assert (put_off, len(delays)) == (([layout.pk], 1) if waits else ([], 0))
    layout.refresh_from_db()
    assert layout.next_step_at is not None  # a lost one is found by the sweeper
