# SPDX-License-Identifier: Apache-2.0
"""Amplification: bytes that devices moved over bytes that the application moved, by use, reads and writes apart.

1 is as much as the tool asked for. More: copies, parity, a journal, copy on write, or larger pieces than it asked for.
Less: a cache answered, or a layer packed the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

# Least B/s of the application: below it there is nothing to compare the disks with.
LEAST = 1024.0
KIB = 1024
# Bytes per operation of each test of pg_test_fsync: each of the sizes of open_sync makes 16 kB of it.
PER_TEST = {"one": 8 * KIB, "two": 16 * KIB, "open_sync": 16 * KIB}


def amplification(devices: Sequence[float], application: float | None) -> float | None:
    """Ratio of what the devices moved to what the application moved.

    `devices`: mean B/s of each device of one use; `application`: B/s over the same time. None if one of them is
    unknown, or if the application moved next to nothing.
    """
    if application is None or not application >= LEAST or not devices:
        return None
    total = float(sum(devices))
    return total / application if isfinite(total) and isfinite(application) else None


def application_rates(
    figures: Mapping[str, float], window: str, *, alone: bool, only: str = ""
) -> dict[str, float | None]:
    """{"read", "write": B/s that the tool moved in a measured window}; None where that is unknown.

    `alone`: this is the only measured window, so that the tool's figures apply to it. A tool that reports its reads and
    no writes wrote nothing, and the other way round. `only`: the one direction of the tool (`Access.only_direction`),
    whose rate dd and others print as that of the whole.
    """
    synced = _synced_write_rate(figures, window)
    if synced is not None:
        return {"read": None, "write": synced}
    if not alone:
        return {"read": None, "write": None}
    rates = {way: figures.get(f"{way}.bandwidth") for way in ("read", "write")}
    if only and rates[only] is None:
        rates[only] = figures.get("bandwidth")
    return rates


def _synced_write_rate(figures: Mapping[str, float], window: str) -> float | None:
    """Write rate in B/s of a test of pg_test_fsync; None if it is unknown.

    The window has the name of the test: "one.fdatasync" beside the figure "one.fdatasync.ops".
    """
    size = PER_TEST.get(window.partition(".")[0])
    rate = figures.get(f"{window}.ops")
    return None if size is None or rate is None else size * rate
