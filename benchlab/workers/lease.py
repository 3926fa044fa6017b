"""One worker at a time steps a layout: an advisory lock that PostgreSQL frees when its holder dies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

NAMESPACE = 0x626C  # "bl": keeps our keys apart from anybody else's advisory locks
PLANNING = 0x626E  # of hosts that are read for the plans of their drafts (previews.py)
SET_UPS = 0x6270  # of campaigns whose set-ups are looked at (benchlab/verdicts/set_ups.py)
# Of the one Chromium that makes files of reports (benchlab/sharing/made_reports.py)
PRINTING = 0x626F
PLAYING = 0x626D  # of attempts whose console is played by a process of ours (dynamo_player.py)


@contextmanager
def lease(key: int, namespace: int = NAMESPACE) -> Iterator[bool]:
    """True if we hold it. kill -9 of the worker closes its connection, and so frees the lease at once."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [namespace, key])
        held = bool(cursor.fetchone()[0])
    try:
        yield held
    finally:
        if held:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [namespace, key])
