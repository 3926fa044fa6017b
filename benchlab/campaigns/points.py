# SPDX-License-Identifier: Apache-2.0
"""A point of a sweep in words, and in the order in which people count. Pure.

{"iodepth": 4, "block_size": 8192} -> "iodepth 4, block size 8 KiB"; 4096 comes before 16384, and "64k" before "128k".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError

from benchlab.web.driver_forms import option_text, parse_option

# Options of the tools, ours and those that others' outputs name, whose numbers are bytes.
SIZE_OPTIONS = frozenset(
    {
        "block_size",
        "size",
        "obs",
        "ibs",
        "bs",
        "blocksize",
        "chunk_size",
        "ram",
        "file_max",
        "file_min",
        "file_size",
    }
)
PREFIX = re.compile(r"(?<=\d)(?=[KMGT]iB$)")
NUMBERS = re.compile(r"(\d+(?:\.\d+)?)")

Rank = tuple[tuple[bool, float, tuple[tuple[bool, float, str], ...]], ...]


def describe_point(point: Mapping[str, Any]) -> str:
    """Words of a page for a point."""
    return ", ".join(
        f"{name.replace('_', ' ')} {format_value(name, setting)}" for name, setting in point.items()
    )


def format_value(name: str, setting: Any) -> str:
    """A value of that option: sizes with a binary unit, exactly."""
    size = _size_in_bytes(name, setting)
    if size is None:
        return str(setting)
    text = option_text(size, "B")
    return f"{text} B" if text.isdigit() else PREFIX.sub(" ", text)


def numeric_value(name: str, setting: Any) -> float | None:
    """Value of that option as a number, sizes in bytes; None where it is no number."""
    size = _size_in_bytes(name, setting)
    amount = setting if size is None else size
    return (
        float(amount) if isinstance(amount, int | float) and not isinstance(amount, bool) else None
    )


def point_rank(point: Mapping[str, Any]) -> Rank:
    """Key to sort points by: the option that is last by its name decides first."""
    return tuple(_option_rank(name, point[name]) for name in sorted(point, reverse=True))


def _option_rank(
    name: str, setting: Any
) -> tuple[bool, float, tuple[tuple[bool, float, str], ...]]:
    """Numbers as numbers, before texts; a text by the numbers in it."""
    size = _size_in_bytes(name, setting)
    number = setting if size is None else size
    if isinstance(number, int | float):
        return False, float(number), ()
    parts = [part for part in NUMBERS.split(str(setting)) if part]
    return True, 0.0, tuple(_text_rank(part) for part in parts)


def _text_rank(text: str) -> tuple[bool, float, str]:
    return (False, float(text), "") if NUMBERS.fullmatch(text) else (True, 0.0, text)


def _size_in_bytes(name: str, setting: Any) -> int | None:
    """Size in bytes; None where the value is no size, or not written as one."""
    if name not in SIZE_OPTIONS or isinstance(setting, bool):
        return None
    if isinstance(setting, int):
        return setting
    try:
        return int(parse_option(setting, int, "B")) if isinstance(setting, str) else None
    except ValidationError:
        return None
