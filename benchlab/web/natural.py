# SPDX-License-Identifier: Apache-2.0
"""Names in the order in which people count: vm-2 before vm-10, by the database and here."""

from __future__ import annotations

import re

from django.db.models import Func, TextField

# a number is filled up to that many; longer ones are compared as they are written
DIGITS = 12
FILLED = "regexp_replace(lower({}), '(\\d+)', '" + "0" * (DIGITS - 1) + "\\1', 'g')"
TEMPLATE = f"regexp_replace({FILLED}, '0*(\\d{{{{{DIGITS}}}}})(?!\\d)', '\\1', 'g')"


def natural_sql(expression: str) -> str:
    """SQL to order by, for a text in SQL."""
    return TEMPLATE.format(expression)


class NaturalOrder(Func):
    """The same for Django: order_by(Natural("name"))."""

    template = natural_sql("%(expressions)s")
    arity = 1
    output_field = TextField()


def natural_key(name: str) -> list[tuple[int, str]]:
    """The same as a key of Python's sort: sda2 before sda10."""
    return [
        (int(part), "") if part.isdecimal() else (-1, part)
        for part in re.split(r"(\d+)", name)
        if part
    ]
