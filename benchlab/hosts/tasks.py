# SPDX-License-Identifier: Apache-2.0
"""Celery tasks: an id, one step, done. Lost messages are sent again by the sweeper."""

from __future__ import annotations

from benchlab.celery import app
from benchlab.hosts import host_tasks, package_installs
from benchlab.workers import task_metrics
from benchlab.workers.fair_queue import WorkItem, host_queue
from benchlab.workers.lru_cache import LruCache

_teams = LruCache(package_installs.install_team)


@app.task
def perform_host_task(pk: int) -> None:
    host_tasks.perform_task(pk)


@app.task
def advance_install(pk: int) -> None:
    host_queue.submit(
        WorkItem(
            package_installs.advance_step,
            _teams,
            pk,
            package_installs.ADVANCE,
            task_metrics.sent_at(),
        )
    )
