# SPDX-License-Identifier: Apache-2.0
"""Messages to workers: a task's name and an id. What is to be done is in the database, and lost ones are sent again.

A task is named, not imported: the module that requests work is imported by the task that does it.

Work that is cheaper for many items at once is batched: items that arrive while a thread works are its next batch. They
are lost when the process ends, so something else must repeat them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence

import kombu.exceptions
from django.db import transaction

from benchlab.celery import app

log = logging.getLogger(__name__)


def send_each(task: str, pks: Iterable[int]) -> bool:
    """Send a message for each id until the broker fails; True if a message was lost.

    A dead broker costs the caller its retries (0.7 s) only once, not once for each message. The sweeper sends the rest.
    """
    return any(send(task, pk) for pk in pks)


def send(task: str, pk: int) -> bool:
    """Send a message to a worker; True if it was lost. Without a broker only time is lost."""
    try:
        app.send_task(task, (pk,), ignore_result=True)
    except (kombu.exceptions.OperationalError, OSError) as error:
        log.warning("broker does not answer, the sweeper will send %s(%s): %s", task, pk, error)
        return True
    return False


def after_commit(task: str, pks: Iterable[int]) -> None:
    """Send the messages once the transaction is committed, so that workers see what it wrote."""
    due_pks = list(pks)
    transaction.on_commit(lambda: send_each(task, due_pks))


class BatchedWork:
    """Calls `work` in one thread at a time with all items that have arrived, each once and in order."""

    def __init__(self, work: Callable[[Sequence[int]], None]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._came: dict[int, None] = {}
        self._busy = False

    def add(self, pk: int) -> None:
        """Return once the item is done, or at once if another thread is at work, which does it next."""
        with self._lock:
            self._came[pk] = None
            if self._busy:
                return
            self._busy = True
        while some := self._next_batch():
            try:
                self._work(some)
            except BaseException:
                # Items that arrived meanwhile go with the next one that is added.
                self._busy = False
                raise

    def _next_batch(self) -> list[int]:
        with self._lock:
            some, self._came = list(self._came), {}
            self._busy = bool(some)
        return some
