"""Celery tasks."""

from __future__ import annotations

from benchlab.celery import app
from benchlab.lifecycle import purging


@app.task
def sweep_deleted() -> None:
    purging.sweep()
