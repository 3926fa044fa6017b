# SPDX-License-Identifier: Apache-2.0
"""Celery tasks: an id, one idempotent step, done. Files have threads of their own: a large upload may take minutes."""

from __future__ import annotations

from typing import Any

from celery.signals import worker_ready, worker_shutdown

from benchlab.celery import app
from benchlab.imports import draft_store, drafts
from benchlab.workers import draining, messages, task_metrics
from benchlab.workers.fair_queue import FairQueue, ThreadShares, WorkItem
from benchlab.workers.lru_cache import LruCache

uploads = FairQueue("upload", ThreadShares(places=4, of_team=3, messages=4, messages_of_team=3))
_teams_of_files = LruCache(drafts.file_team)
_teams_of_drafts = LruCache(draft_store.draft_team)
draining.hand_over.append(uploads.drain)


@app.task
def read_file(pk: int) -> None:
    uploads.submit(
        WorkItem(drafts.read_file, _teams_of_files, pk, drafts.READ, task_metrics.sent_at())
    )


@app.task
def store_draft(pk: int) -> None:
    uploads.submit(
        WorkItem(
            draft_store.store_draft,
            _teams_of_drafts,
            pk,
            draft_store.STORE,
            task_metrics.sent_at(),
        )
    )


@app.task
def sweep_drafts() -> None:
    drafts.delete_expired()
    if not messages.send_each(drafts.READ, drafts.due_files()):
        messages.send_each(draft_store.STORE, draft_store.due_drafts())


@worker_ready.connect
def start_uploads(**_: Any) -> None:
    uploads.begin()


@worker_shutdown.connect
def stop_uploads(**_: Any) -> None:
    uploads.end()
