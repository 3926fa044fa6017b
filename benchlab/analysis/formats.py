# SPDX-License-Identifier: Apache-2.0
"""Numbers in a finding's sentence, as pages write them."""

from __future__ import annotations

from benchlab.analysis.rate_words import IOPS, separates_prefix

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


def join_names(of: tuple[str, ...], most: int = 4) -> str:
    """ "sda and sdb", "sda, sdb, sdc and 9 more"."""
    if len(of) > most:
        return f"{', '.join(of[: most - 1])} and {len(of) - most + 1} more"
    return " and ".join(filter(None, [", ".join(of[:-1]), of[-1] if of else ""]))
