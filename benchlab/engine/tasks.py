"""Celery tasks: an id, one idempotent step, done. Lost messages are sent again by the sweeper."""

from __future__ import annotations

from typing import Any

from celery.signals import worker_ready, worker_shutdown

from benchlab.celery import app
from benchlab.engine import stepper
from benchlab.engine.checks import planning
from benchlab.engine.sweeper import Sweeper
from benchlab.engine.waits import waits

_sweepers: list[Sweeper] = []


@app.task
def step_layout(layout_id: int) -> None:
    stepper.step(layout_id)


@app.task
def plan_layout(layout_id: int) -> None:
    planning.preview_once(layout_id)


@worker_ready.connect
def begin_sweeping(**_: Any) -> None:
    """A thread beside those that work: it finds time when they have none. What polls bring is taken up by others."""
    waits.serve(stepper.step)
    _sweepers.append(Sweeper())
    _sweepers[-1].start()


@worker_shutdown.connect
def end_sweeping(**_: Any) -> None:
    while _sweepers:
        _sweepers.pop().stop()
    waits.end()
