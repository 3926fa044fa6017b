# SPDX-License-Identifier: Apache-2.0
"""Work of the disks beyond the tool's: amplification, flushes, small writes, parity; and its balance over members."""

from __future__ import annotations

from collections.abc import Iterator

from benchlab.analysis.activity import BYTES_LABEL, Group, balances, measured_parts, tool_rates
from benchlab.analysis.devices import SECTOR, Balance, Flushes, Spread, amplification, flushes
from benchlab.analysis.evidence import AFTER, Layer, Run
from benchlab.analysis.finding import Finding, Number, Severity, run_finding
from benchlab.analysis.formats import join_names, rate, ratio_number, share, times_text

# least B/s
LEAST = 1 << 20
# least number of samples
ENOUGH = 3
# ratio to the amplification of the layout itself
MORE = 1.5
# Share of the writes: if each write is followed by a flush, half of them are flushes.
MOST_FLUSHES = 0.45
# least writes/s
LEAST_WRITES = 10.0
# Share of the bytes that the tool writes: a file system's metadata is below it.
PARITY_READS = 0.25
# Writes in each operation of pg_test_fsync's open_sync sizes, by kB; each operation is 16 kB.
OPEN_SYNC = {
    4: ("open_sync.4x4.ops", 4),
    2: ("open_sync.8x2.ops", 8),
    1: ("open_sync.16x1.ops", 16),
}
# Ratio to a write of 4 kB: a smaller one should be no slower, and figures of one run may be 20 % off.
SLOWER = 1.75
# Layers whose growth moves no data; md reshapes.
STAY = {"lvm": "volume", "zpool": "pool"}
# share of the load of the least busy old disk
LESS = 0.5


@run_finding("The disks move more than the tool")
def amplified(run: Run) -> Iterator[Finding]:
    """The disks moved several times what the tool did: a journal, parity, copy on write, larger pieces.

    One finding for each direction: the window with the highest amplification.
    """
    if run.resyncing:
        return
    parts = measured_parts(run)
    for way, due in (("read", 1.0), ("write", run.write_multiple)):
        candidates = [
            (times, window, *rates)
            for window, part in parts
            if (rates := _disk_and_tool_rates(part, window, run, way)) is not None
            and (times := amplification(rates[:1], rates[1])) is not None
            and times >= MORE * due
        ]
        if not candidates:
            continue
        times, window, moved, requested = max(candidates)
        what = "reads" if way == "read" else "writes"
        own = (
            f"; the layout's own copies and parity explain up to {times_text(due)}"
            if due > 1
            else ""
        )
        yield Finding(
            f"The {what} on disk are {times_text(times)} those of the tool{own}: {rate(moved)} on"
            f" {join_names(run.active_disks)}, {rate(requested)} requested{_in_window(run, window)}",
            Severity.NOTE,
            {
                "disks": Number(moved, "B/s", f"{what} on disk", metric=f"{way}.bandwidth"),
                "tool": Number(requested, "B/s", f"{what} of the tool", figure=f"{way}.bandwidth"),
            },
            about=way,
        )


def _in_window(run: Run, window: str) -> str:
    return f" in {window}" if window and len(run.measured_windows) > 1 else ""


def _disk_and_tool_rates(part: Run, window: str, run: Run, way: str) -> tuple[float, float] | None:
    requested, moved = tool_rates(part, window, run)[way], part.disk_rate(way)
    if requested is None or moved is None or requested < LEAST:
        return None
    return (moved, requested) if part.disk_samples(way) >= ENOUGH else None


@run_finding("Disks mostly flush")
def flush_bound(run: Run) -> Iterator[Finding]:
    """Most of a disk's writes are flushes, which move no bytes (article 000: 7,248 w/s with 0.3 MB/s).

    One finding per run: the window in which most disks are affected.
    """
    windows = [
        (window, affected) for window, part in measured_parts(run) if (affected := _flushing(part))
    ]
    if not windows:
        return
    window, affected = max(
        windows, key=lambda pair: (len(pair[1]), max(disk.share for disk in pair[1].values()))
    )
    name = max(affected, key=lambda name: affected[name].share)
    worst, total = affected[name], len(run.active_disks)
    many = f"; {len(affected)} of {total} disks got mostly flushes" if total > 1 else ""
    metric = "write.iops"
    yield Finding(
        f"At least {share(worst.share)} of the {worst.writes:.0f} writes a second on {name}"
        f"{_in_window(run, window)} were flushes, which move no bytes{many}",
        Severity.LIMIT,
        {
            "share": Number(
                worst.share, "1", f"flushes of the writes on {name}", device=name, metric=metric
            ),
            "writes": Number(worst.writes, "op/s", f"writes on {name}", device=name, metric=metric),
        },
        about="flushes",
    )


def _flushing(part: Run) -> dict[str, Flushes]:
    """Disks whose writes are mostly flushes."""
    columns = [
        part.means(metric, part.active_disks)
        for metric in ("write.iops", "write.bandwidth", "flush.iops")
    ]
    affected = {}
    for name in part.active_disks:
        writes, moved, counted = (column.get(name, float("nan")) for column in columns)
        device = part.devices.get(name)
        block = (device.logical_block if device else None) or SECTOR
        disk = flushes(writes, moved, counted, block)
        if disk is not None and disk.writes >= LEAST_WRITES and disk.share >= MOST_FLUSHES:
            affected[name] = disk
    return affected


@run_finding("Parity costs reads")
def raid5_read_modify_write(run: Run) -> Iterator[Finding]:
    """Members are read under a load of writes: parity, or a record, is made anew of what was there.

    The most expensive of several windows is reported, but none while an array resyncs, which reads all members.
    """
    if not run.only_writes or run.resyncing:
        return
    for layer in run.layers:
        if layer.parity and len(layer.uses.get("data", ())) > 1:
            costs = (_parity_cost(part, window, run, layer) for window, part in measured_parts(run))
            expensive = [cost for cost in costs if cost]
            if expensive:
                most = max(expensive, key=lambda cost: (cost[1] + cost[2]) / cost[0])
                yield _describe_parity(layer, *most)


def _parity_cost(
    part: Run, window: str, run: Run, layer: Layer
) -> tuple[float, float, float] | None:
    """B/s that the tool wrote, that the members read, and that they wrote; None if there is no such cost."""
    wrote, members = tool_rates(part, window, run)["write"], layer.uses["data"]
    read = part.total_rate("read.bandwidth", members)
    written = part.total_rate("write.bandwidth", members)
    if wrote is None or read is None or written is None:
        return None
    costly = wrote > 0 and read >= max(LEAST, PARITY_READS * wrote)
    return (wrote, read, written) if costly else None


def _parity_reads(layer: Layer) -> str:
    """What md reads for a small write: of both ways the one with fewer reads (raid5.c, handle_stripe_dirtying)."""
    rest_of_stripe = len(layer.uses["data"]) - layer.parity - 1
    if rest_of_stripe < 1 + layer.parity:
        return (
            "the rest of the stripe, which is less than the old data and parity (reconstruct-write)"
        )
    return "the old data and parity (read-modify-write), or the rest of the stripe if that takes fewer reads"


def _describe_parity(layer: Layer, wrote: float, read: float, written: float) -> Finding:
    members = join_names(layer.uses["data"])
    kind = str(layer.options.get("layout"))
    why = "to write a part of a record, the pool first reads the record"
    if layer.kind == "md":
        kind = f"RAID {layer.level}"
        why = f"to compute parity, md reads {_parity_reads(layer)}"
    return Finding(
        f"Each byte written costs {ratio_number((read + written) / wrote)} bytes on the members of {kind}:"
        f" the tool wrote {rate(wrote)}, they read {rate(read)} and wrote {rate(written)}; {why}",
        Severity.LIMIT,
        {
            "tool": Number(wrote, "B/s", "written, by the tool", figure="write.bandwidth"),
            "read": Number(read, "B/s", f"read of {members}", metric="read.bandwidth"),
            "written": Number(written, "B/s", f"written to {members}", metric="write.bandwidth"),
        },
        about=f"{layer.kind} {kind}",
    )


@run_finding("Writes below the disk's block")
def sub_sector_writes(run: Run) -> Iterator[Finding]:
    """Writes smaller than a disk's block: each is read, changed and written inside of it (article 000, 2 and 1 kB)."""
    yield from _measured_sizes(run)
    yield from _requested_block(run)


def _measured_sizes(run: Run) -> Iterator[Finding]:
    """Report by pg_test_fsync: a write of 2 kB, and of 1 kB, takes longer than one of 4 kB."""
    rates = {size: count * run.figures.get(name, 0.0) for size, (name, count) in OPEN_SYNC.items()}
    if not all(rate > 0 for rate in rates.values()):
        return
    seconds = {size: 1 / rate for size, rate in rates.items()}
    four, two, single = seconds.values()
    if min(two, single) < SLOWER * four:
        return
    yield Finding(
        f"A synced write of 2 kB takes {times_text(two / four)} as long as one of 4 kB, one of 1 kB"
        f" {times_text(single / four)} ({1e6 * four:.0f}, {1e6 * two:.0f} and {1e6 * single:.0f} µs):"
        " below its block the disk, or a layer, reads before it writes",
        Severity.LIMIT,
        {
            f"{size} kB": Number(
                seconds[size], "s", f"a write of {size} kB", figure=OPEN_SYNC[size][0]
            )
            for size in OPEN_SYNC
        },
        about="open_sync",
    )


def _requested_block(run: Run) -> Iterator[Finding]:
    """Report direct writes that reach disks with larger blocks unchanged."""
    block = run.access.block
    reaches_disks = all(layer.quiet or layer.kind == "directory" for layer in run.layers)
    if not (block and run.access.writes and run.access.direct and reaches_disks):
        return
    watched = (name for name in run.active_disks if name in run.devices)
    physical = {name: run.devices[name].physical_block or 0 for name in watched}
    large = {name: size for name, size in physical.items() if size > block}
    if not large:
        return
    name, size = next(iter(large.items()))
    yield Finding(
        f"It writes {block} B at a time on {join_names(tuple(large))}, whose physical block is {size} B: each write is"
        " a read and a write inside the disk",
        Severity.LIMIT,
        {
            "block": Number(block, "B", "the tool's smallest write"),
            "physical": Number(size, "B", f"physical block of {name}", device=name),
        },
        about="block size",
    )


def _share_number(way: str, carried: float, disks: str, device: str = "") -> Number:
    """Share of the bytes of that direction that these disks carry."""
    what, metric = f"{BYTES_LABEL[way]}, by {disks}", f"{way}.bandwidth"
    return Number(carried, "1", what, device=device, metric=metric)


@run_finding("Few disks do the work")
def few_members(run: Run) -> Iterator[Finding]:
    """k of n disks do the work: the others only add cost (docs/analysis.md, section 6; article 000, 2 of 12).

    One finding for each use and direction: the window in which the fewest disks do the work.
    """
    for way in BYTES_LABEL:
        parts: dict[Group, list[tuple[str, Balance]]] = {}
        for window, group, balance in balances(run, way):
            parts.setdefault(group, []).append((window, balance))
        for group, windows in parts.items():
            few = [pair for pair in windows if pair[1].spread == Spread.FEW]
            if few:
                yield _describe_few_members(way, group, few, len(windows))


def _describe_few_members(
    way: str, group: Group, few: list[tuple[str, Balance]], total: int
) -> Finding:
    window, balance = min(few, key=lambda pair: (len(pair[1].doers), -pair[1].carried))
    doers = tuple(group.names[index] for index in balance.doers)
    sentence = (
        f"{len(doers)} of {len(group.names)} disks ({group.kind}, {group.use}) carry {share(balance.carried)}"
        f" of the {BYTES_LABEL[way]}: {join_names(doers)}"
    )
    if total > 1:
        sentence += f", in {window}; this holds in {len(few)} of {total} windows"
    elif balance.averaged:
        several = f"{balance.windows} samples"
        sentence += f", according to {'a single report' if balance.windows == 1 else several}"
    return Finding(
        sentence,
        Severity.LIMIT,
        {
            "share": _share_number(way, balance.carried, join_names(doers)),
            "disks": Number(len(doers), "1", f"disks of {len(group.names)}"),
        },
        about=f"{way} {group.kind} {group.use}",
    )


@run_finding("Disks work in turn")
def in_turn(run: Run) -> Iterator[Finding]:
    """Members are even over the run, and few work at a time: a stripe that is as fast as one (docs/analysis.md, 6).

    One finding for each use and direction: the first window in which members work in turn.
    """
    reported = set()
    for way in BYTES_LABEL:
        for _, group, balance in balances(run, way):
            about = f"{way} {group.kind} {group.use}"
            if balance.spread != Spread.IN_TURN or about in reported:
                continue
            reported.add(about)
            half, total = len(group.names) // 2, len(group.names)
            yield Finding(
                f"{join_names(group.names)} share the {BYTES_LABEL[way]} evenly over the run, but in each sample"
                f" {half} of {total} or fewer carry nearly all of them",
                Severity.LIMIT,
                {
                    "at once": Number(half, "1", f"disks of {total}, or fewer"),
                    "samples": Number(balance.windows, "1", "samples"),
                },
                about=about,
            )


@run_finding("Disks are used unevenly")
def uneven_members(run: Run) -> Iterator[Finding]:
    """Members carry unlike shares of the bytes, though most of them work (docs/analysis.md, section 6).

    One finding for each use and direction: the most uneven window.
    """
    worst: dict[str, tuple[str, str, Group, Balance]] = {}
    for way in BYTES_LABEL:
        for window, group, balance in balances(run, way):
            about = f"{way} {group.kind} {group.use}"
            if balance.spread != Spread.UNEVEN or not balance.conclusive:
                continue
            if about not in worst or balance.variation >= worst[about][3].variation:
                worst[about] = (way, window, group, balance)
    for about, (way, window, group, balance) in worst.items():
        order = sorted(zip(balance.shares, group.names, strict=True), key=lambda pair: -pair[0])
        (high, most), (low, least) = order[0], order[-1]
        yield Finding(
            f"Of the {BYTES_LABEL[way]}{_in_window(run, window)} {most} carries {share(high)} and {least} {share(low)},"
            f" where {share(1 / len(order))} each would be even ({group.kind}, {group.use})",
            Severity.NOTE,
            {
                "most": _share_number(way, high, most, most),
                "least": _share_number(way, low, least, least),
            },
            about=about,
        )


@run_finding("Extended, not restriped")
def extended_not_restriped(run: Run) -> Iterator[Finding]:
    """A volume was extended, and its new disks carry little: old data stays where it is (article 002).

    LVM never restripes, a zpool never moves its data. New disks are the last of a layer, as growth appends them. One
    finding for each direction, only after a growth.
    """
    if not run.stage.startswith(AFTER):
        return
    reported = set()
    for way in BYTES_LABEL:
        for _, group, balance in balances(run, way):
            new, about = _idle_new_disks(balance), f"{way} {group.kind}"
            if not new or group.kind not in STAY or group.use != "data" or about in reported:
                continue
            reported.add(about)
            added, carried = join_names(group.names[-new:]), sum(balance.shares[-new:])
            yield Finding(
                f"{added} carr{'ies' if new == 1 else 'y'} {share(carried)} of the {BYTES_LABEL[way]}, where"
                f" {share(new / len(group.names))} would be even: the {STAY[group.kind]} was extended, and older data"
                " stays on the other disks",
                Severity.LIMIT,
                {"share": _share_number(way, carried, added)},
                about=about,
            )


def _idle_new_disks(balance: Balance) -> int:
    """Number of disks at the end that carry less than half of what each disk before them carries; 0: none."""
    if balance.spread not in (Spread.FEW, Spread.UNEVEN):
        return 0
    shares = balance.shares
    idle_counts = [k for k in range(1, len(shares)) if max(shares[-k:]) < LESS * min(shares[:-k])]
    return max(idle_counts, key=lambda k: min(shares[:-k]) - max(shares[-k:]), default=0)
