# SPDX-License-Identifier: Apache-2.0
"""A check of dynamo's counts against the kernel's.

dynamo never notices a failed I/O: it counts refused and short ones as done. The kernel's count shows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

# In correct runs both agreed to 0.3 %.
SHARE = 0.02
# With 256 I/Os in flight the kernel was seen to count that many more.
MORE = 0.03
# B/s: a journal that is written at the same time
OTHERS = 64 << 10
# s: two readings of a clock with a resolution of 0.01 s
CLOCK = 0.02
# I/Os at most that may have been counted on one side only, where recording began and ended
EDGES = 256


def kernel_count_note(figures: Mapping[str, float | None]) -> str:
    """Note on the figures: how the kernel's count contradicts them, or that it was not available.

    `figures` are those of the whole run, by the names in tools/dynamo.py. The finding dynamo_crosscheck in
    benchlab.analysis.findings distinguishes these notes by their first words.
    """
    if figures.get("ios") and "kernel.read.bytes" not in figures:
        return "not checked against the kernel's count: failed I/Os would go unnoticed"
    for off, message in _byte_differences(figures):
        return f"not to be trusted: {message}" if off < 0 else f"disturbed: {message}"
    return ""


def _byte_differences(figures: Mapping[str, float | None]) -> Iterator[tuple[int, str]]:
    """-1 or 1 and a sentence: where the kernel counted fewer, then where more.

    Bytes are compared, which neither splitting nor merging of I/Os changes. The kernel's counters are read a little
    before and after the time that dynamo counts, and the I/O in between is unknown: on a host with one CPU the reading
    itself may leave no time for I/O. So "fewer" compares with all that the kernel counted, "more" with its share of
    that time.
    """
    ways = [
        counts
        for counts in (_direction_counts(figures, "read"), _direction_counts(figures, "written"))
        if counts
    ]
    for direction, reported, counted, slack in ways:
        if reported - counted > SHARE * reported + slack:
            yield (
                -1,
                (
                    f"dynamo counted {reported:,.0f} bytes {direction}, the kernel {counted:,.0f}: I/Os failed that "
                    "dynamo counted as completed, or a cache above the device served them"
                ),
            )
    span, measured = figures.get("kernel.seconds"), figures.get("runtime")
    for direction, reported, counted, slack in ways if span and measured else ():
        assert span and measured
        least = counted * min(1.0, measured / span)
        if least - reported > (MORE + CLOCK / span) * reported + slack + OTHERS * span:
            yield (
                1,
                (
                    f"the kernel counted {least:,.0f} bytes {direction} while dynamo counted "
                    f"{reported:,.0f}: other I/O was running on that disk"
                ),
            )


def _direction_counts(
    figures: Mapping[str, float | None], direction: str
) -> tuple[str, float, float, float] | None:
    """Direction, dynamo's bytes, the kernel's, and the difference (bytes) that the edges allow; None without both
    counts.
    """
    way = "read" if direction == "read" else "write"
    reported, ios = figures.get(f"{way}.bytes"), figures.get(f"{way}.ios")
    counted = figures.get(f"kernel.{way}.bytes")
    if not reported or not ios or counted is None:
        return None
    return direction, reported, counted, min(EDGES, ios / 10, _in_flight(figures)) * reported / ios


def _in_flight(figures: Mapping[str, float | None]) -> float:
    """I/Os outstanding at both ends of the recording together, by Little's law."""
    rate, latency = figures.get("iops"), figures.get("lat.mean")
    return float(EDGES) if rate is None or latency is None else 2 * rate * latency + 1
