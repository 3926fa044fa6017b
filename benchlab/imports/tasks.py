"""Celery tasks: an id, one idempotent step, done."""

from __future__ import annotations

from benchlab.celery import app
from benchlab.imports import drafts


@app.task
def read_file(pk: int) -> None:
    drafts.read(pk)


@app.task
def sweep_drafts() -> None:
    drafts.forget()
    for pk in drafts.due():
        read_file.delay(pk)
