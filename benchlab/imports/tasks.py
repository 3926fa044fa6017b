"""Celery tasks: an id, one idempotent step, done."""

from __future__ import annotations

from benchlab.celery import app
from benchlab.imports import agreeing, drafts


@app.task
def read_file(pk: int) -> None:
    drafts.read(pk)


@app.task
def store_draft(pk: int) -> None:
    agreeing.store(pk)


@app.task
def sweep_drafts() -> None:
    drafts.forget()
    for pk in drafts.due():
        read_file.delay(pk)
    for pk in agreeing.due():
        store_draft.delay(pk)
