# SPDX-License-Identifier: Apache-2.0
"""Celery tasks: an id, one step, done. Lost messages are sent again by the sweeper."""

from __future__ import annotations

from benchlab.celery import app
from benchlab.hosts import host_tasks, installing
from benchlab.workers import task_metrics
from benchlab.workers.fair_queue import WorkItem, host_queue
from benchlab.workers.lru_cache import LruCache

_teams = LruCache(installing.team_of)


@app.task
def perform_host_task(pk: int) -> None:
    host_tasks.perform(pk)


@app.task
def advance_install(pk: int) -> None:
    host_queue.submit(
        WorkItem(installing.advance, _teams, pk, installing.ADVANCE, task_metrics.sent_at())
    )
