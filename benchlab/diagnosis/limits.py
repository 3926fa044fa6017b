# SPDX-License-Identifier: Apache-2.0
"""Limits of the disks below a result, and the figures to hold against them. Shared by the rules."""

from __future__ import annotations

from dataclasses import dataclass

from benchlab.diagnosis import media
from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.wording import ops, rate

# what to buy for durable writes, after media.PROTECTED_SSD_FLUSHES
PROTECTED_DRIVE = (
    "A drive with power-loss protection, for a log or SLOG, makes 10,000 to 40,000 "
    "durable writes a second."
)
# a figure's sentence and the lines that show it
Sign = tuple[str, tuple[int, ...]]


def medium_limit(evidence: Evidence, result: Result) -> tuple[float, str] | None:
    """B/s that the disks below can move at most, and what sets that; None where no fact tells."""
    disks = evidence.runs_on(result)
    limits = [limit for disk in disks if (limit := _disk_limit(evidence, disk))]
    if not disks or len(limits) != len(disks):
        return None
    name = limits[0][1]
    return sum(limit for limit, _ in limits), f"{len(disks)} x {name}" if len(disks) > 1 else name


def _disk_limit(evidence: Evidence, disk: str) -> tuple[float, str] | None:
    facts = evidence.facts
    if evidence.rotational(disk):
        model, rpm = facts.text(disk, "disk.model"), facts.number(disk, "disk.rpm")
        return media.spinning_disk(model, rpm).in_order, "a disk that spins"
    transport = facts.text(disk, "disk.transport") or ("nvme" if disk.startswith("nvme") else "")
    link = media.link_of(transport, facts.number(disk, "disk.link_speed"))
    return (link.payload, link.name) if link else None


def limit_lines(evidence: Evidence, result: Result) -> tuple[int, ...]:
    """Lines that tell which disks are below the result."""
    names = ("disk.model", "disk.transport", "disk.rotational")
    lines = (evidence.fact_line(d, n) for d in evidence.runs_on(result) for n in names)
    return tuple(dict.fromkeys(line for line in lines if line))


def headline_figure(result: Result) -> str:
    """The figure that people quote of it: B/s in order or of large blocks, else IOPS."""
    operations, transfer = result.operations, result.rate
    if operations and result.random and (result.block or 0) < 128 << 10:
        return ops(operations)
    return rate(transfer) if transfer else ops(operations or 0)


@dataclass(frozen=True, slots=True)
class DurableWrite:
    """Mean time of one durable write in s, how it was asked for, and the line that shows it."""

    took: float
    call: str
    line: int

    @property
    def rate(self) -> float:
        """Durable writes a second of one thread."""
        return 1 / self.took


def durable_write(result: Result) -> DurableWrite | None:
    """The durable write that the result timed; None where it timed none, or many at once."""
    for name in ("fsync", "fdatasync", "open_datasync", "open_sync"):
        per_s = result.number(f"one.{name}.ops")
        if per_s:
            return DurableWrite(1 / per_s, name, result.line(f"one.{name}.ops"))
    if result.kind == "pveperf" and (per_s := result.number("fsync.ops")):
        return DurableWrite(1 / per_s, "fsync", result.line("fsync.ops"))
    if result.kind == "sysbench":
        alone = result.jobs == 1 and result.options.get("fsync_all")
        per_s = result.number("write.iops") if alone else None
        return DurableWrite(1 / per_s, "fsync", result.line("write.iops")) if per_s else None
    if not result.durable or (result.asked_in_flight or 1) != 1:
        return None
    flush = result.number("sync.lat.mean")
    written = result.number("write.lat.mean") or 0
    if flush is not None:
        call = "fsync" if result.options.get("fsync") else "fdatasync"
        return DurableWrite(flush + written, call, result.line("sync.lat.mean"))
    operations = result.operations
    call = "oflag=dsync" if result.kind == "dd" else "a synchronous write"
    return DurableWrite(1 / operations, call, result.headline()) if operations else None
