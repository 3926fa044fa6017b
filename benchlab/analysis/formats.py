# SPDX-License-Identifier: Apache-2.0
"""Texts of numbers: rates with their units, shares, lists of names, and ratios. The one place that rounds ratios."""

from __future__ import annotations

import re
from math import floor, isfinite, log10

PREFIXES = (
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "µ"),
    (1e-9, "n"),
)


def rate(value: float, unit: str = "B/s") -> str:
    """Three digits with an SI prefix: "12.3 MB/s"; op/s is "381 IOPS", fsyncs/s "1.20 k fsyncs/s"."""
    size, prefix = next((scale for scale in PREFIXES if abs(value) >= scale[0] * 0.9995), (1.0, ""))
    digits = f"{value / size:#.3g}".rstrip(".") if value else "0"
    word = IOPS if unit == "op/s" else unit
    return f"{digits} {f'{prefix} {word}'.lstrip() if separates_prefix(word) else prefix + word}"


def share(value: float) -> str:
    """ "4 %", "0.3 %" of a ratio."""
    percent = 100 * value
    return f"{percent:.0f} %" if percent >= 10 or not percent else f"{percent:.2g} %"


def join_names(names: tuple[str, ...], most: int = 4) -> str:
    """ "sda and sdb", "sda, sdb, sdc and 9 more"."""
    if len(names) > most:
        return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1] if names else ""]))


IOPS = "IOPS"
# unit of operations that are no I/O and have no name of their own
OPERATIONS = "ops/s"
WORDS = (
    (re.compile(r"(?:.+\.)?flush\.iops"), "flushes/s"),
    (re.compile(r"(?:.+\.)?iops"), IOPS),
    (re.compile(r"(?:.+\.)?fdatasync\.ops"), "fdatasyncs/s"),
    (re.compile(r"(?:.+\.)?(?:fsync|fsync_writethrough)\.ops"), "fsyncs/s"),
)


def shown_unit(name: str, unit: str) -> str:
    """ "one.fsync.ops", "op/s" -> "fsyncs/s"; other units stay as they are, as does op/s of what has no name."""
    if unit != "op/s" or not name:
        return unit
    return next((word for pattern, word in WORDS if pattern.fullmatch(name)), OPERATIONS)


def separates_prefix(word: str) -> bool:
    """True for a word to which a prefix does not stick: 12.3 k IOPS, 4 k fsyncs/s, but 4 kB/s."""
    return word == IOPS or word.endswith("s/s")


TIMES = "\u00a0×"
# From this number on, whole numbers are printed.
LARGE = 100


def ratio_number(ratio: float) -> str:
    """2.63 -> "2.6", 1.184 -> "1.18", 0.0004 -> "0.00040", 1234.5 -> "1,234": never "0.00" of what is above 0."""
    if ratio <= 0 or not isfinite(ratio):
        return f"{ratio:.2f}"
    if round(ratio, 1) >= LARGE:
        return f"{ratio:,.0f}"
    return f"{ratio:.{_decimals(ratio)}f}"


def times_text(ratio: float) -> str:
    """2.63 -> "2.6 times"."""
    return f"{ratio_number(ratio)} times"


def ratio_sign(ratio: float) -> str:
    """2.63 -> "2.6 ×", in tables and beside marks."""
    return f"{ratio_number(ratio)}{TIMES}"


def ratio_tick(ratio: float) -> str:
    """Format a ratio for an axis, whose labels stand beside each other: 2 -> "2 ×", 2.05 -> "2.05 ×"."""
    return f"{ratio:.3g}{TIMES}"


def ratio_range(low: float, high: float) -> str:
    """ "1.9 to 3.4". Bounds that leave 1 out are not rounded onto it: 1.003 to 1.16 is "1.003 to 1.16"."""
    words = _off_one if low > 1 or high < 1 else ratio_number
    return f"{words(low)} to {words(high)}"


def _decimals(ratio: float) -> int:
    """Two digits that count, and two decimals at least of what is below 2."""
    if round(ratio, 2) >= 2:
        return 1
    return max(2, 1 - floor(log10(ratio)))


def _off_one(bound: float) -> str:
    """Format a bound with as many more decimals as tell it from 1."""
    number, decimals = ratio_number(bound), _decimals(bound)
    while float(number.replace(",", "")) == 1 and decimals < 9:
        decimals += 1
        number = f"{bound:.{decimals}f}"
    return number
