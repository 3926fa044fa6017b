"""Celery tasks."""

from __future__ import annotations

from benchlab.celery import app
from benchlab.findings import storing
from benchlab.workers.gathering import Gathered

_results = Gathered(storing.attempts)


@app.task
def find(attempt_id: int) -> None:
    """What is to be found of a result that has just come. A lost message is made up for when its campaign is over."""
    _results.add(attempt_id)
