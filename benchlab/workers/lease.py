# SPDX-License-Identifier: Apache-2.0
"""One worker at a time steps a layout: an advisory lock that PostgreSQL frees when its holder dies.

Each worker holds another one for its whole life, by which the others learn within a second that it died.

Why two never command a host at once: a session of PostgreSQL holds the lock, and right before each command to a host
that very session is asked whether it lives. A worker that was stopped (SIGSTOP) or cut off while the lock went
elsewhere gets an error, or no answer, and sends nothing more. What it had sent before goes on at the host, as it does
when the worker is killed: the guard (agents/safety/guard.py) refuses to touch a disk that a program has open for
writing. A pooler between us and PostgreSQL must leave each connection its session.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum, unique
from functools import partial
from typing import Any

from django.db import connection

from agents.ssh import loop


@unique
class Lock(IntEnum):
    """Kinds of locks: the first of an advisory lock's two keys; the second is the row's number.

    All begin with "bl", which keeps them apart from other programs' locks in the same database.
    """

    # being stepped
    LAYOUT = 0x626C
    # whose console a process of ours plays (dynamo_player.py)
    ATTEMPT = 0x626D
    # read for the plans of its drafts (previews.py)
    PLANNED_HOST = 0x626E
    # the one that makes files of reports (benchlab/sharing/report_files.py)
    CHROMIUM = 0x626F
    # of a campaign, being looked at (benchlab/verdicts/set_ups.py)
    SET_UPS = 0x6270
    HOST_TASK = 0x6271
    # of host tasks, being given
    SEATS = 0x6272
    # being advanced
    INSTALLATION = 0x6273
    # that lives
    WORKER = 0x6274
    # of a campaign, being made (benchlab/diagnosis/campaign_answers.py)
    DIAGNOSIS = 0x6275


# Its subselect: the keys of other databases of the same server are others'
ALIVE = """
SELECT objid FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND objsubid = 2 AND granted
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@contextmanager
def lease(key: int, kind: Lock = Lock.LAYOUT) -> Iterator[bool]:
    """True if we hold it. kill -9 of the worker closes its connection, and so frees the lease at once.

    While we do, a command of this thread to a host raises Django's OperationalError, and is not sent, once it is lost.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [kind, key])
        held = bool(cursor.fetchone()[0])
    if not held:
        yield False
        return
    execute = connection.wrap_database_errors(connection.connection.execute)
    before = loop.check.set(partial(execute, "SELECT 1"))
    try:
        yield True
    finally:
        loop.check.reset(before)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [kind, key])


class Workers:
    """The live workers, as one of them sees them.

    Used by one thread, whose connection shows the others that this worker is alive.
    """

    def __init__(self) -> None:
        self._number = secrets.randbits(31)
        self._session: Any = None
        self._alive: set[int] | None = None

    def take_over_from_ended(self, take_over: Callable[[], None]) -> None:
        """Call `take_over` if workers have ended since the last call, and always at the first call.

        It takes over the work that they had in hand.
        """
        with connection.cursor() as cursor:
            if connection.connection is not self._session:
                cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [Lock.WORKER, self._number])
                self._session = connection.connection
            cursor.execute(ALIVE, [Lock.WORKER])
            alive = {int(row[0]) for row in cursor.fetchall()}
        if self._alive is None or not self._alive <= alive:
            take_over()
        self._alive = alive
