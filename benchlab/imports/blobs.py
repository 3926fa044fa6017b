# SPDX-License-Identifier: Apache-2.0
"""Large contents in and out of PostgreSQL, a MiB at a time.

A bytea goes through the client as hexadecimal digits and several copies of them: 242 MB took 1.16 GiB. So it goes in as
parts, which PostgreSQL itself puts together, and comes out as slices.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import IO

from django.db import connection

from benchlab.imports.models import DraftFile, DraftPart

PART = 1 << 20

TOGETHER = """
UPDATE imports_draftfile SET content = (
    SELECT coalesce(string_agg(content, ''::bytea ORDER BY number), ''::bytea)
    FROM imports_draftpart WHERE file_id = %(pk)s
) WHERE id = %(pk)s
"""


def store_parts(file: DraftFile, stream: IO[bytes]) -> None:
    """An upload as it came, as parts of its row."""
    stream.seek(0)
    number = 0
    while part := stream.read(PART):
        DraftPart.objects.create(file=file, number=number, content=part)
        number += 1


def read_parts(file: DraftFile) -> Iterator[bytes]:
    numbers = list(file.parts.values_list("number", flat=True))
    # one in memory at a time, whatever the driver keeps of a query
    for number in numbers:
        yield bytes(file.parts.values_list("content", flat=True).get(number=number))


def store_content(file: DraftFile, raw: bytes) -> None:
    """Make it the content of the row, in the caller's transaction; the parts are gone."""
    file.parts.all().delete()
    store_parts(file, BytesIO(raw))
    with connection.cursor() as cursor:
        cursor.execute(TOGETHER, {"pk": file.pk})
    file.parts.all().delete()


def read_content(pk: int) -> bytes:
    """The content of a row."""
    whole = BytesIO()
    with connection.cursor() as cursor:
        at = 1
        while True:
            cursor.execute(
                "SELECT substring(content FROM %s FOR %s) FROM imports_draftfile WHERE id = %s",
                [at, PART, pk],
            )
            row = cursor.fetchone()
            if row is None:
                raise DraftFile.DoesNotExist(pk)
            whole.write(row[0])
            if len(row[0]) < PART:
                return whole.getvalue()
            at += PART
