# SPDX-License-Identifier: Apache-2.0
"""Celery tasks."""

from __future__ import annotations

from benchlab.celery import app
from benchlab.lifecycle import purging, retention


@app.task
def sweep_deleted() -> None:
    purging.purge_due()


@app.task
def sweep_raw() -> None:
    retention.remove_due_output()
