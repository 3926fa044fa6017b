"""dynamo never sees that an I/O failed: what was refused or cut short counts as done. The kernel's count shows it."""

from __future__ import annotations

from collections.abc import Mapping

SHARE = 0.02  # they agreed to 0.3 % where all was well
EDGES = (
    256  # I/Os at most that may have been counted on one side only, where recording began and ended
)


def remark(figures: Mapping[str, float | None]) -> str:
    """For the figures' note: what the kernel's count says against them, or that nobody could count."""
    if figures.get("ios") and "kernel.read.bytes" not in figures:
        return "not checked against the kernel's count: an I/O that failed would not show"
    said = finding(figures)
    return f"not to be trusted: {said}" if said else ""


def finding(figures: Mapping[str, float | None]) -> str:
    """A sentence with its numbers, or "". `figures`: of the whole run, by the names of tools/dynamo.py.

    Bytes are compared, which neither splitting nor merging of I/Os changes. The kernel may well have moved more.
    """
    for way, done in (("read", "read"), ("write", "written")):
        said, ios = figures.get(f"{way}.bytes"), figures.get(f"{way}.ios")
        counted = figures.get(f"kernel.{way}.bytes")
        if not said or not ios or counted is None:
            continue
        slack = SHARE * said + min(EDGES, ios / 10, _in_flight(figures)) * said / ios
        if said - counted > slack:
            return (
                f"dynamo counted {said:.0f} bytes {done}, the kernel {counted:.0f}: I/Os failed that "
                "dynamo takes for done, or a cache answered above the device"
            )
    return ""


def _in_flight(figures: Mapping[str, float | None]) -> float:
    """I/Os outstanding at both ends of the recording together, by Little's law."""
    rate, latency = figures.get("iops"), figures.get("lat.mean")
    return float(EDGES) if rate is None or latency is None else 2 * rate * latency + 1
