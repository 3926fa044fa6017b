"""Celery tasks: an id, one idempotent step, done."""

from __future__ import annotations

from celery import shared_task

from benchlab.runs import engine, planning
from benchlab.runs.sweep import due


@shared_task
def step_layout(layout_id: int) -> None:
    engine.step(layout_id)


@shared_task
def plan_layout(layout_id: int) -> None:
    planning.preview(layout_id)


@shared_task
def sweep() -> None:
    for layout_id in due():
        step_layout.delay(layout_id)
