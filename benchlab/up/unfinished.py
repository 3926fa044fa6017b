# SPDX-License-Identifier: Apache-2.0
"""The mark of an unfinished restore, whose rows may call disks spare that no longer are.

It is a table of the database itself, created before the first row and dropped in the transaction that protects the
disks. Nothing starts on a database that has it.
"""

from __future__ import annotations

from django.db import connection

TABLE = "restore_unfinished"
SAYS = (
    "A backup was being restored into this database, and that did not finish: it says of disks that they are spare, as "
    "they were when the backup was made. Nothing is started on it. Move it away, and restore the backup again."
)


def begin() -> None:
    """Mark the database: from here on nothing starts on it."""
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} ()")


def end() -> None:
    """Remove the mark, within the transaction that makes it safe to start."""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE {TABLE}")


def is_unfinished() -> bool:
    return TABLE in connection.introspection.table_names()
