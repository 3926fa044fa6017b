"""A worker with more to do than it can: results are taken up before the next runs are started."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from benchlab.engine import tasks
from benchlab.runs.models import Attempt

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(("phase", "waits"), [("done", True), ("queued", True), ("running", False)])
def test_who_has_no_result_to_bring_lets_others_go_first(make_layout, monkeypatch, phase, waits):
    layout = make_layout(phase="ready", runs=1)
    Attempt.objects.filter(layout=layout).update(phase="running")
    put_off: list[int] = []
    delays = [0.0, 5.0]  # it goes on at once, then waits

    def acted(rows: Any) -> float:
        rows.attempt.phase = phase
        return delays.pop(0)

    crowd = SimpleNamespace(crowded=True, put_off=put_off.append, follow=lambda layout_id: None)
    monkeypatch.setattr(tasks, "waits", crowd)
    monkeypatch.setattr(tasks, "_acted", acted)
    tasks.step(layout.pk)
    assert (put_off, len(delays)) == (([layout.pk], 1) if waits else ([], 0))
    layout.refresh_from_db()
    assert layout.next_step_at is not None  # a lost one is found by the sweeper
