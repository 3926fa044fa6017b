# SPDX-License-Identifier: Apache-2.0
"""Celery tasks."""

from __future__ import annotations

from benchlab.celery import app
from benchlab.sharing import report_files


@app.task
def make_report(pk: int) -> None:
    report_files.make_waiting_reports()


@app.task
def sweep_reports() -> None:
    report_files.sweep_reports()
