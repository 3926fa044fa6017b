# SPDX-License-Identifier: Apache-2.0
"""Celery tasks."""

from __future__ import annotations

from benchlab import log_context
from benchlab.celery import app
from benchlab.findings import storing
from benchlab.workers.messages import BatchedWork

_results = BatchedWork(storing.find_for_attempts)


@app.task
def find(attempt_id: int) -> None:
    """Queue a new result for its findings. A lost message is made up for at the end of its campaign."""
    with log_context.about(attempt=attempt_id):
        _results.add(attempt_id)
