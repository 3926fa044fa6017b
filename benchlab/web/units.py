# SPDX-License-Identifier: Apache-2.0
"""Numbers as people read them: SI for rates and times, binary for sizes, never without the unit."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from benchlab.analysis.formats import IOPS, ratio_sign, separates_prefix

SI = [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")]
UNIT_WORDS = {"op/s": IOPS, "1": ""}


def si(value: float | None, unit: str = "") -> str:
    """12345.6, "op/s" -> "12.3 k IOPS"; 0.00123, "s" -> "1.23 ms"; None -> "n/a"."""
    if value is None or math.isnan(value):
        return "n/a"
    if unit == "B":
        return format_size(value)
    if unit == "%":
        return f"{_three(value)} %"
    word = UNIT_WORDS.get(unit, unit)
    if unit == "1" and 1e3 <= abs(value) < math.inf:
        # a count: every digit
        return f"{value:,.0f}".replace(",", "\u202f")
    if not math.isfinite(value) or value == 0 or unit == "1":
        return f"{value:.3g} {word}".strip()
    scale, prefix = next(((s, p) for s, p in SI if abs(value) >= s), SI[-1])
    return f"{_three(value / scale)} {prefix}{' ' if prefix and separates_prefix(word) else ''}{word}".strip()


def short_si(value: float | None, unit: str) -> str:
    """Under a head that says what is counted: 12345.6, "op/s" -> "12.3 k"; 0.00123, "s" -> "1.23 ms"."""
    text, word = si(value, unit), UNIT_WORDS.get(unit, unit)
    return text.removesuffix(word).strip() if separates_prefix(word) else text


def format_size(value: float | None) -> str:
    """Bytes in binary units: 536870912 -> "512 MiB"."""
    if value is None:
        return "n/a"
    for prefix in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024:
            return f"{_three(value)} {prefix}"
        value /= 1024
    return f"{_three(value)} PiB"


def exact(value: float | None) -> str:
    """Format a number to be copied, without an exponent above 1: 147085877.92 -> "147 085 878"."""
    if value is None or math.isnan(value):
        return "n/a"
    if abs(value) >= 1e5 and math.isfinite(value):
        return f"{value:,.0f}".replace(",", "\u202f")
    return f"{value:.6g}"


def digits(value: float | None) -> str:
    """Every digit that was read: 1073741824.5 -> "1073741824.5". To be held against the text it came from."""
    return "n/a" if value is None or math.isnan(value) else f"{value:.15g}"


def factor(ratio: float) -> str:
    """3.684 -> "3.7 ×", 1.184 -> "1.18 ×"; of a repeat in which nothing was done: "from nothing"."""
    return ratio_sign(ratio) if math.isfinite(ratio) else "from nothing"


def format_share(share: float) -> str:
    """Format a share with enough digits to differ from 0 and 100 %: 0.123 -> "12.3 %", 0.99994 -> "99.994 %"."""
    rest = min(share, 1 - share)
    digits = 1 if rest >= 0.01 or rest <= 0 else min(12, 1 - math.floor(math.log10(rest * 100)))
    return f"{100 * share:.{digits}f} %"


def duration(seconds: float | None) -> str:
    """Seconds as a person says them: 3723 -> "1 h 2 min"."""
    if seconds is None:
        return "n/a"
    whole = round(seconds)
    hours, minutes = whole // 3600, whole % 3600 // 60
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"


def clock(seconds: float) -> str:
    """Format a running time: 72 -> "1:12", 3723 -> "1:02:03"."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def utc_time(at: datetime, now: datetime | None = None, *, seconds: bool = False) -> str:
    """UTC, with the day where that is another than `now`'s: "03:15", "26 Nov, 03:15", "26 Nov 2025, 03:15:07"."""
    at, now = at.astimezone(UTC), (now or datetime.now(UTC)).astimezone(UTC)
    time = f"{at:%H:%M:%S}" if seconds else f"{at:%H:%M}"
    if at.date() == now.date():
        return time
    year = "" if at.year == now.year else f" {at.year}"
    return f"{at.day} {at:%b}{year}, {time}"


def _three(value: float) -> str:
    """Three significant digits, no exponent."""
    digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
