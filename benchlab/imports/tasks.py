"""Celery tasks: an id, one idempotent step, done."""

from __future__ import annotations

from benchlab.celery import app
from benchlab.imports import drafts, storing_drafts
from benchlab.workers import messages


@app.task
def read_file(pk: int) -> None:
    drafts.read(pk)


@app.task
def store_draft(pk: int) -> None:
    storing_drafts.store(pk)


@app.task
def sweep_drafts() -> None:
    drafts.forget()
    if not messages.send_each(drafts.READ, drafts.due()):
        messages.send_each(storing_drafts.STORE, storing_drafts.due())
