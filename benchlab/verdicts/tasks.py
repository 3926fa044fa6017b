# SPDX-License-Identifier: Apache-2.0
"""Celery tasks."""

from __future__ import annotations

from benchlab.celery import app
from benchlab.verdicts import set_ups


@app.task
def sweep_set_ups() -> None:
    set_ups.sweep_campaigns()
