# SPDX-License-Identifier: Apache-2.0
"""Names that must be unique within a team, for rows that are made on a person's behalf. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Container

# characters of a name
MAX_NAME_LENGTH = 100


def copy_name(name: str) -> str:
    """Suggest a name for a copy."""
    return f"Copy of {name}"[:MAX_NAME_LENGTH]


def free_name(name: str, used: Container[str], longest: int = MAX_NAME_LENGTH) -> str:
    """`name`, or "name 2", … while it is taken; cut to `longest` characters."""
    later = (f" {number}" for number in itertools.count(2))
    names = (name[: longest - len(end)] + end for end in itertools.chain([""], later))
    return next(free for free in names if free not in used)
