# SPDX-License-Identifier: Apache-2.0
"""A row's id, or another whole number, in an address or a form. Pure."""

from __future__ import annotations

# what PostgreSQL's bigint holds of any of them
DIGITS = 18


def parse_row_id(text: str | None) -> int | None:
    """None: it is none, so there is no such row."""
    plain = text is not None and text.isascii() and text.isdecimal() and len(text) <= DIGITS
    return int(text) if plain and text else None
