# SPDX-License-Identifier: Apache-2.0
"""Celery tasks."""

from __future__ import annotations

from benchlab.celery import app
from benchlab.diagnosis import campaign_answers


@app.task
def sweep_campaigns() -> None:
    campaign_answers.sweep_campaigns()
