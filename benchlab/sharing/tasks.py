# SPDX-License-Identifier: Apache-2.0
"""Celery tasks."""

from __future__ import annotations

from benchlab.celery import app
from benchlab.sharing import made_reports


@app.task
def make_report(pk: int) -> None:
    made_reports.make()


@app.task
def sweep_reports() -> None:
    made_reports.sweep()
