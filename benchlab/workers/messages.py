# SPDX-License-Identifier: Apache-2.0
"""Messages to workers: a task's name and an id. What is to be done is in the database, and lost ones are sent again.

A task is named, not imported: whoever asks for work is imported by the task that does it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import kombu.exceptions
from django.db import transaction

from benchlab.celery import app

log = logging.getLogger(__name__)


def send_each(task: str, pks: Iterable[int]) -> bool:
    """To workers, until the broker fails: a dead one costs the asker its retries once (0.7 s), not once each.

    True when a message is lost. What was not sent the sweeper sends.
    """
    return any(send(task, pk) for pk in pks)


def send(task: str, pk: int) -> bool:
    """To a worker. True when that is lost: without a broker nothing else is lost but time."""
    try:
        app.send_task(task, (pk,), ignore_result=True)
    except (kombu.exceptions.OperationalError, OSError) as error:
        log.warning("broker does not answer, the sweeper will send %s(%s): %s", task, pk, error)
        return True
    return False


def after_commit(task: str, pks: Iterable[int]) -> None:
    """Once what was written is visible to the workers."""
    due_pks = list(pks)
    transaction.on_commit(lambda: send_each(task, due_pks))
