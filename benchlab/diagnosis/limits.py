# SPDX-License-Identifier: Apache-2.0
"""Limits of the disks below a result, and the figures to hold against them. Shared by the rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from benchlab.analysis.formats import share
from benchlab.diagnosis import media
from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.model import Proof
from benchlab.diagnosis.wording import ops, percent, rate, seconds

# what to buy for durable writes, after media.PROTECTED_SSD_FLUSHES
PROTECTED_DRIVE = (
    "A drive with power-loss protection, for a log or SLOG, makes 10,000 to 40,000 "
    "durable writes a second."
)
# disks whose load one sentence can name
MOST_DISKS = 8
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


# what the kernel, a file system or a pool says of a fault
_FAULT = re.compile(
    r"\b(I/O error|[Ii]nput/output error|[Mm]edium [Ee]rror|UNCORRECTABLE|Unrecovered read error|DRDY ERR"
    r"|hard resetting link|blocked for more than \d+ seconds|EXT4-fs error|XFS .*[Cc]orruption"
    r"|Remounting filesystem read-only|[Rr]ead-only file system|controller is down|Abort(?:ing|ed) command"
    r"|One or more devices (?:has|have|are|is|could))\b"
)
_NO_FAULT = re.compile(r"\b(no|not|without|never|any|grep|egrep)\b|\|", re.IGNORECASE)
# Mean s of one direct read of a few KiB from a local SSD at up to 32 in flight, and B/s of large ones in order at a
# depth: the slowest SATA SSDs stay well within (data sheets of QLC models; media.FLASH_READ_S is the least time).
_SLOW_SSD_READ_S, _SLOW_SSD_STREAM = 5e-3, 100e6
# The same of a disk that spins: reads at random of one disk at depth 1, and B/s of large ones in order.
_FEW_SEEKS, _SLOW_STREAM = 20.0, 30e6


def fault_lines(evidence: Evidence) -> Iterator[int]:
    """Numbers of the lines in which the system or a tool reports a fault, and of facts that do."""
    for number in evidence.matching_lines(_FAULT):
        if not _NO_FAULT.search(evidence.quote(number)):
            yield number
    for fact in evidence.facts.with_name("vdev.errors"):
        if not isinstance(fact.value, str) and fact.value > 0:
            yield fact.line


def low_figures(evidence: Evidence) -> Iterator[tuple[int, str, tuple[int, ...]]]:
    """Direct reads far below what their known medium does: place of the result, a sentence, its lines."""
    for place, result in evidence.numbered_tests:
        disks = evidence.runs_on(result)
        spins = evidence.all_rotational(disks)
        requested = result.asked_in_flight
        models = [evidence.facts.text(disk, "disk.model") for disk in disks]
        if spins is None and _is_slower_than_seeks(result) and not result.is_paced:
            text = (
                f"{seconds(result.latency or 0)} a read with one in flight is far more than any disk takes, "
                "one that spins included"
            )
            yield place, text, (result.headline(),)
        if spins is None or not result.direct or result.writes or not requested or result.is_paced:
            continue
        local = all(_is_plain_disk(evidence, disk) for disk in disks)
        if any(media.is_cloud_disk(model) for model in models) or requested > 32 or not local:
            continue
        name = "a disk that spins" if spins else "an SSD"
        lines = (result.headline(), *limit_lines(evidence, result))
        latency, transfer = result.latency, result.rate or 0
        block = result.block or 0
        if result.random and block <= 16 << 10 and latency:
            slow = spins and requested == 1 and (result.operations or 0) < _FEW_SEEKS
            slow = slow or (spins is False and latency > _SLOW_SSD_READ_S)
            if slow:
                text = f"{seconds(latency)} a read with {requested} in flight is far more than {name} takes"
                yield place, text, lines
            continue
        least = _SLOW_STREAM if spins else _SLOW_SSD_STREAM
        if result.random is False and block >= 128 << 10 and 0 < transfer < least:
            yield place, f"{rate(transfer)} in order is far below what {name} reads", lines


def _is_slower_than_seeks(result: Result) -> bool:
    """True for single direct reads of a few KiB that take longer than twice the seek of any disk."""
    single = result.asked_in_flight == 1 and result.random and not result.writes
    small = (result.block or 1 << 30) <= 16 << 10
    return bool(single and small and result.direct and (result.latency or 0) > 1 / _FEW_SEEKS)


def _is_plain_disk(evidence: Evidence, disk: str) -> bool:
    """True for a disk on SATA, SAS or NVMe. Memory cards, sticks and disks of a network are slower by design."""
    transport = evidence.facts.text(disk, "disk.transport")
    return transport in ("sata", "ata", "sas", "nvme") or disk.startswith("nvme")


def supporting_proofs(evidence: Evidence) -> Iterator[Proof]:
    """Facts beside figures that are usual: the disks' models, hits of a cache, how busy the disks were."""
    for fact in evidence.facts.with_name("disk.model")[:2]:
        yield Proof(f"{fact.subject} is {_medium_name(str(fact.value))}.", (fact.line,))
    for fact in evidence.facts.with_name("cache.read_hits"):
        misses = evidence.facts.find(fact.subject, "cache.read_misses")
        if misses is None or isinstance(fact.value, str) or isinstance(misses.value, str):
            continue
        both = fact.value + misses.value
        if both:
            text = f"The cache of {fact.subject} served {percent(fact.value / both)} of the reads."
            yield Proof(text, (fact.line, misses.line))
    for watcher in evidence.watchers:
        utils = [(d, u) for d in watcher.devices if (u := watcher.number("util", d)) is not None]
        busy = [f"{device} {share(util)}" for device, util in utils if util >= 0.3]
        if busy and len(utils) <= MOST_DISKS:
            yield Proof(f"Busy by iostat: {', '.join(busy)}.", (watcher.first,))
            return


def _medium_name(model: str) -> str:
    """The model, and what it is where its name alone does not say."""
    return f"{model} (Optane, 8 to 10 µs a read)" if media.is_optane(model) else model


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
        # without the heading of a cut report nothing says of how many writes
        for key in (f"one.{name}.ops", f"{name}.ops"):
            per_s = result.number(key) if result.kind == "pg_test_fsync" else None
            if per_s:
                return DurableWrite(1 / per_s, name, result.line(key))
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
