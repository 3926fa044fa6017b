# SPDX-License-Identifier: Apache-2.0
"""Celery tasks: an id, one idempotent step, done. Files have threads of their own: a large upload may take minutes."""

from __future__ import annotations

from typing import Any

from celery.signals import worker_ready, worker_shutdown

from benchlab.celery import app
from benchlab.imports import drafts, storing_drafts
from benchlab.workers import counting, draining, messages
from benchlab.workers.memory import Memory
from benchlab.workers.turns import Shares, Turns, Work

uploads = Turns("upload", Shares(places=4, of_team=3, asked=4, asked_of_team=3))
_teams_of_files = Memory(drafts.team_of)
_teams_of_drafts = Memory(storing_drafts.team_of)
draining.hand_over.append(uploads.drain)


@app.task
def read_file(pk: int) -> None:
    uploads.ask(Work(drafts.read, _teams_of_files, pk, drafts.READ, counting.sent_at()))


@app.task
def store_draft(pk: int) -> None:
    uploads.ask(
        Work(storing_drafts.store, _teams_of_drafts, pk, storing_drafts.STORE, counting.sent_at())
    )


@app.task
def sweep_drafts() -> None:
    drafts.forget()
    if not messages.send_each(drafts.READ, drafts.due()):
        messages.send_each(storing_drafts.STORE, storing_drafts.due())


@worker_ready.connect
def begin(**_: Any) -> None:
    uploads.begin()


@worker_shutdown.connect
def end(**_: Any) -> None:
    uploads.end()
