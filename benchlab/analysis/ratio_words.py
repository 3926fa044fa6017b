# SPDX-License-Identifier: Apache-2.0
"""Ratios as a person reads them. The one place that rounds them: sentences, tables, charts, findings."""

from __future__ import annotations

from math import floor, isfinite, log10

TIMES = "\u00a0×"
# from here on whole numbers
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
    """Of an axis, whose labels stand beside each other: 2 -> "2 ×", 2.05 -> "2.05 ×"."""
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
    """With as many decimals more as tell it from 1."""
    said, decimals = ratio_number(bound), _decimals(bound)
    while float(said.replace(",", "")) == 1 and decimals < 9:
        decimals += 1
        said = f"{bound:.{decimals}f}"
    return said
