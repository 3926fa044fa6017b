"""Celery tasks: an id, one idempotent step, done."""

from __future__ import annotations

from benchlab.celery import app
from benchlab.runs import beats, engine, planning
from benchlab.runs.sweep import due


@app.task
def step_layout(layout_id: int) -> None:
    engine.step(layout_id)


@app.task
def plan_layout(layout_id: int) -> None:
    planning.preview(layout_id)


@app.task
def sweep() -> None:
    beats.beat()
    for layout_id in due():
        step_layout.delay(layout_id)
