# SPDX-License-Identifier: Apache-2.0
"""Many rows of one kind at once, by COPY: a run has a hundred series, and an INSERT of them is read word by word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import connection
from django.db.models import Model
from psycopg.sql import SQL, Identifier


def copy_rows(model: type[Model], fields: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Store rows of these fields, which no default fills and no database's default. Raises django.db.Error.

    A list without rows is no statement.
    """
    if isinstance(rows, Sequence) and not rows:
        return
    meta: Any = model._meta
    columns = [Identifier(meta.get_field(name).column) for name in fields]
    statement = SQL("COPY {} ({}) FROM STDIN").format(
        Identifier(meta.db_table), SQL(", ").join(columns)
    )
    with (
        connection.cursor() as cursor,
        connection.wrap_database_errors,
        cursor.copy(statement) as to,
    ):
        for row in rows:
            to.write_row(row)


def array_literal(numbers: Iterable[float]) -> str:
    """Array as PostgreSQL reads it. psycopg would take ten times as long to write an hour's series number by number."""
    return "{" + ",".join([repr(float(number)) for number in numbers]) + "}"
