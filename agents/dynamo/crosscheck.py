"""dynamo never sees that an I/O failed: what was refused or cut short counts as done. The kernel's count shows it."""

from __future__ import annotations

from collections.abc import Mapping

SHARE = 0.02  # they agreed to 0.3 % where all was well
EDGES = 256  # I/Os that may have been counted on one side only, where recording began and ended


def finding(figures: Mapping[str, float | None]) -> str:
    """A sentence with its numbers, or "". `figures`: of the whole run, by the names of tools/dynamo.py.

    Bytes are compared, which neither splitting nor merging of I/Os changes. The kernel may well have moved more.
    """
    for way, done in (("read", "read"), ("write", "written")):
        said, ios = figures.get(f"{way}.bytes"), figures.get(f"{way}.ios")
        counted = figures.get(f"kernel.{way}.bytes")
        if not said or not ios or counted is None:
            continue
        slack = SHARE * said + min(EDGES, ios / 10) * said / ios
        if said - counted > slack:
            return (
                f"dynamo counted {said:.0f} bytes {done}, the kernel {counted:.0f}: I/Os failed that "
                "dynamo takes for done, or a cache answered above the device"
            )
    return ""
