"""One worker at a time steps a layout: an advisory lock that PostgreSQL frees when its holder dies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

NAMESPACE = 0x626C  # "bl": keeps our keys apart from anybody else's advisory locks


@contextmanager
def lease(layout_id: int) -> Iterator[bool]:
    """True if we hold it. kill -9 of the worker closes its connection, and so frees the lease at once."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [NAMESPACE, layout_id])
        held = bool(cursor.fetchone()[0])
    try:
        yield held
    finally:
        if held:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [NAMESPACE, layout_id])
