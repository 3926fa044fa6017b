"""The queries of a step, by event: what the engine had in hand when it made them.

A step loads its scene, and then goes from one event to the next: a look at the host, a reading of it that is kept, a
command of the plan. What it asks of the database between two of them, and within a kept reading or a logged command, is
one event decided and acted on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from django.db import connection

from agents.facts import reading
from agents.safety import apply
from benchlab.engine import tasks
from benchlab.hosts import discovery

SEEN = 'UPDATE "runs_layout" SET "seen_at" = %s WHERE'  # once in ten seconds: the host answered


class Event(NamedTuple):
    """`what`: "step" for its beginning and what follows a command or a kept reading; "look", "kept" or "command"."""

    what: str
    said: list[str]  # statements


class Counted:
    """An execute_wrapper of Django's, by event."""

    def __init__(self) -> None:
        self.every = [Event("step", [])]
        self._within = False

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if not sql.startswith(SEEN):
            self.every[-1].said.append(sql)
        return execute(sql, params, many, context)

    def begins(self, what: str, work: Callable[..., Any], within: bool) -> Callable[..., Any]:
        """`work`, whose call is an event; `within`: the event is over when it returns."""

        def called(*args: Any, **more: Any) -> Any:
            if self._within:  # a look of the guard's is a part of its command
                return work(*args, **more)
            self.every.append(Event(what, []))
            self._within = within
            try:
                return work(*args, **more)
            finally:
                if within:
                    self._within = False
                    self.every.append(Event("step", []))

        return called

    @property
    def events(self) -> list[Event]:
        return [event for event in self.every if event.said]

    @property
    def said(self) -> list[str]:
        return [sql for event in self.every for sql in event.said]

    @property
    def numbers(self) -> list[tuple[str, int]]:
        """Number of statements of each event, in order."""
        return [(event.what, len(event.said)) for event in self.events]


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    """Statements that this thread makes meanwhile."""
    counted = Counted()
    with monkeypatch.context() as patched, connection.execute_wrapper(counted):
        for where, name, what, within in (
            (reading, "read_facts", "look", False),
            (discovery, "store_facts", "kept", True),
            (apply._Run, "run_step", "command", True),
        ):
            patched.setattr(where, name, counted.begins(what, getattr(where, name), within))
        yield counted


def step(layout_id: int, monkeypatch: pytest.MonkeyPatch) -> Counted:
    """One step, as of a task that goes on with what follows at once."""
    with counting(monkeypatch) as counted:
        tasks._step_once(layout_id, until=math.inf)
    return counted
