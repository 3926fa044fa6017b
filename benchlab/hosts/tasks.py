# SPDX-License-Identifier: Apache-2.0
"""Celery tasks: an id, one step, done. Lost messages are sent again by the sweeper."""

from __future__ import annotations

from benchlab.celery import app
from benchlab.hosts import host_tasks, installing
from benchlab.workers import counting
from benchlab.workers.memory import Memory
from benchlab.workers.turns import Work, turns

_teams = Memory(installing.team_of)


@app.task
def perform_host_task(pk: int) -> None:
    host_tasks.perform(pk)


@app.task
def advance_install(pk: int) -> None:
    turns.ask(Work(installing.advance, _teams, pk, installing.ADVANCE, counting.sent_at()))
