# SPDX-License-Identifier: Apache-2.0
"""Caches, write buffers and packing: the tool counted what the disks did not do (docs/method.md, believability)."""

from __future__ import annotations

from collections.abc import Iterator

from benchlab.analysis.activity import disk_groups
from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import (
    Finding,
    Number,
    Severity,
    disks_number,
    run_finding,
    tool_number,
)
from benchlab.analysis.formats import join_names, rate, share

# Least B/s: a tool that moves less shows nothing.
LEAST = 1 << 20
# least number of intervals
ENOUGH = 5
# share of the writes that did not reach the disks while it measured
LATER = 0.10
# share of the memory that holds all of it
FITS = 0.5
FLUSHES = (
    "fsync",
    "fdatasync",
    "end_fsync",
    "fsync_on_close",
    "fsync_end",
    "fsync_all",
    "fsync_freq",
)
# Share of the bytes read that come from the disks: below it the figure is that of the cache, whatever the layers.
FROM_DISKS = 0.5
# The same where each byte that is read is one of one disk: clean runs of ten samples stay above it.
MOSTLY_FROM_DISKS = 0.85
# least number of samples for that
ENOUGH_FOR_SHARES = 10
# layers that read each byte once, some from a cache device of their own, which counts as a disk
READS_ONCE = ("md", "lvm_cache", "bcache", "flashcache")
# Share of the bytes written to a cache: less is metadata.
METADATA = 0.10
# Largest difference between the bytes read from it and those written to the disks behind it: they are copied.
SAME = 0.20
# Share of the bytes: above it packing is not worth a number.
PACKED = 0.95
# Share of the bytes that the tool wrote. Blocks that are overwritten before a pool's transaction group ends reach the
# disks less often, and so does data that compresses; neither causes so little while direct I/O goes on for ENOUGH
# intervals.
MISSING = 0.01


def _first_figure(run: Run, *names: str) -> str:
    """The first of these figures that is above 0; "" without any."""
    return next((name for name in names if run.figures.get(name, 0) > 0), "")


def _figure_number(run: Run, name: str, what: str) -> Number:
    unit = "op/s" if name.endswith("iops") else "B/s"
    return Number(run.figures[name], unit, what, figure=name)


@run_finding("Buffered")
def buffered(run: Run) -> Iterator[Finding]:
    """Writes, or part of them, were still in memory when the tool had ended: they went through the page cache.

    The tool's count is compared with the disks' own if they were watched, else the size with the memory.
    """
    if run.access.direct or run.access.synced or run.access.writes is not True:
        return
    counted = run.tool_rate("write")
    if not counted or counted < LEAST:
        return
    if not run.measured_tracks("write.bandwidth", run.active_disks):
        yield from _fits_in_memory(run)
    elif run.windows and run.disk_samples("write") >= ENOUGH:
        yield from _late_writes(run, counted)


def _late_writes(run: Run, counted: float) -> Iterator[Finding]:
    written = run.disk_rate("write")
    if written is None or written > (1 - LATER) * counted or run.packing:
        return
    yield Finding(
        f"{share(1 - written / counted)} of what it wrote was still in memory when it ended: the tool counted "
        f"{rate(counted)}, the disks got {rate(written)}",
        Severity.DOUBT,
        {"tool": tool_number(run, "write"), "disks": disks_number(written, "write")},
    )


def _fits_in_memory(run: Run) -> Iterator[Finding]:
    size, memory = run.access.size, run.memory
    # The tool makes its writes durable now and then, or at the end of the measurement.
    conversions = run.options.get("conv") or ()
    flushes = any(run.options.get(name) or name in conversions for name in FLUSHES)
    if run.access.direct is None or not size or not memory or size > FITS * memory or flushes:
        return
    yield Finding(
        f"it wrote {rate(size, 'B')} through the page cache of a host with {rate(memory, 'B')} of memory and never "
        "flushed it: the rate may be the memory's",
        Severity.DOUBT,
        {
            "size": Number(size, "B", "what it went over"),
            "memory": Number(memory, "B", "the host's memory"),
            "tool": tool_number(run, "write"),
        },
    )


@run_finding("Read from a cache")
def cached_read(run: Run) -> Iterator[Finding]:
    """The tool read more than its disks gave: a cache above them answered, in whole or in part.

    Bytes are compared, as a cache answers in pieces of its own. Layers that compress what can be compressed read less
    by themselves and are left out. A cache inside a disk or an array is invisible: the kernel counts its answers, too.
    """
    counted = run.tool_rate("read")
    delivered = run.total_rate("read.bandwidth", run.layout_disks)
    least = MOSTLY_FROM_DISKS if _reads_only_disks(run) else FROM_DISKS
    if counted is None or delivered is None or counted < LEAST or delivered >= least * counted:
        return
    compresses = any(layer.options.get("compression", "off") != "off" for layer in run.layers)
    if compresses and run.access.compressible is not False:
        return
    yield Finding(
        f"{share(1 - delivered / counted)} of what it read came from {_cache_words(run)}: the tool counted "
        f"{rate(counted)}, the disks gave {rate(delivered)}",
        Severity.DOUBT,
        {"read": tool_number(run, "read"), "disks": disks_number(delivered, "read")},
    )


def _reads_only_disks(run: Run) -> bool:
    """True if its layers read each byte from one disk, and enough samples of one measured window show how many."""
    once = all(layer.quiet or layer.kind in READS_ONCE for layer in run.layers)
    samples = run.disk_samples("read")
    return once and len(run.measured_windows) == 1 and samples >= ENOUGH_FOR_SHARES


def _cache_words(run: Run) -> str:
    """The cache that answered, as far as it is known."""
    if any(layer.kind in ("zpool", "zfs", "zvol") for layer in run.layers):
        words = "a cache in memory (ZFS's ARC)"
    elif run.access.direct is False:
        words = "the page cache"
    else:
        words = "a cache"
    return f"{words}, or was never written" if run.unwritten else words


@run_finding("The cache is read under writes")
def cache_read_under_writes(run: Run) -> Iterator[Finding]:
    """A cache device is read while the tool only writes: what the cache does by itself (article 000).

    There 56,192 kB/s were read of the SSD, in pieces of 64 KiB, and 56,192 kB/s were written to the twelve disks behind
    it: the cache copied its blocks to them while it was measured.
    """
    groups = disk_groups(run)
    cache = tuple(name for group in groups if group.use == "cache" for name in group.names)
    backing = (group for group in groups if group.use in ("backing", "data"))
    behind = tuple(name for group in backing for name in group.names if name not in cache)
    if not cache or not run.only_writes:
        return
    read = run.total_rate("read.bandwidth", cache)
    written = run.total_rate("write.bandwidth", cache)
    if read is None or written is None or read < max(LEAST, METADATA * written):
        return
    copied = run.total_rate("write.bandwidth", behind)
    sentence = (
        f"{join_names(cache)} (cache) was read at {rate(read)} and written at {rate(written)},"
        " though the tool only writes"
    )
    numbers = {
        "read": Number(read, "B/s", f"read of {join_names(cache)}", metric="read.bandwidth"),
        "written": _written_number(written, cache),
    }
    if copied is not None:
        numbers["behind"] = _written_number(copied, behind)
        if abs(copied - read) <= SAME * read:
            sentence += f": it copies to the disks behind it, which were written at {rate(copied)}"
        else:
            sentence += f"; the disks behind it were written at {rate(copied)}"
    yield Finding(sentence, Severity.LIMIT, numbers, about=" ".join(cache))


def _written_number(written: float, disks: tuple[str, ...]) -> Number:
    return Number(written, "B/s", f"written to {join_names(disks)}", metric="write.bandwidth")


@run_finding("Compressible data")
def compressible_data(run: Run) -> Iterator[Finding]:
    """Zeros or repeats, on a layer that packs them: hardly any of it reaches the disks (docs/method.md, before a run).

    Judged by the data that the tool is known to write; the disks' own count shows how much of it reached them.
    """
    layer = run.packing
    if run.access.compressible is not True or not layer:
        return
    way = "write" if run.access.writes else "read"
    counted, moved = run.tool_rate(way), run.disk_rate(way)
    numbers = {}
    sentence = f"its data is zeros or repeats itself, and {layer} shrinks it"
    if counted:
        numbers["tool"] = tool_number(run, way)
        if moved is not None and moved < PACKED * counted:
            numbers["disks"] = disks_number(moved, way)
            verb = "wrote" if way == "write" else "read"
            part = share(moved / counted)
            sentence += f": the tool {verb} {rate(counted)}, the disks only {rate(moved)} ({part})"
    elif name := _first_figure(run, "bandwidth", "iops", "read.iops", "write.iops"):
        numbers["figure"] = _figure_number(run, name, f"{name}, by the tool")
    if numbers:
        yield Finding(sentence, Severity.DOUBT, numbers)


@run_finding("Blocks that were never written")
def unwritten_blocks(run: Run) -> Iterator[Finding]:
    """The run may have read blocks that nothing ever wrote, as the plan explains: disks answer without looking."""
    name = _first_figure(run, "read.bandwidth", "bandwidth", "read.iops", "iops")
    if run.unwritten and name:
        read = _figure_number(run, name, "read, by the tool")
        yield Finding(run.unwritten.rstrip("."), Severity.DOUBT, {"read": read})


@run_finding("Writes that reached no disk")
def writes_missing(run: Run) -> Iterator[Finding]:
    """The tool counted direct writes, and the disks next to none: its rate is of no disk (fio's null engine).

    Only writes past the page cache are checked: others reach the disks later (`buffered`).
    """
    claimed = run.tool_rate("write")
    if run.access.writes is not True or run.access.direct is not True or not claimed:
        return
    if claimed < LEAST or run.disk_samples("write") < ENOUGH:
        return
    written = run.disk_rate("write")
    # Zeros may take no room at all where a layer packs them.
    shrinks = run.packing and run.access.compressible is not False
    if written is None or written >= MISSING * claimed or shrinks:
        return
    yield Finding(
        f"the tool counted {rate(claimed)} of direct writes, and {join_names(run.active_disks)} wrote {rate(written)}: "
        "its rate is not that of the disks",
        Severity.DOUBT,
        {"tool": tool_number(run, "write"), "disks": disks_number(written, "write")},
    )
