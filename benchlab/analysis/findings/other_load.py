# SPDX-License-Identifier: Apache-2.0
"""Other load on the disks while the tool measured: I/O that it did not request, resync, rebuild, discards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from benchlab.analysis.evidence import NEAR, Layer, Run
from benchlab.analysis.finding import (
    Finding,
    Number,
    Severity,
    disks_number,
    run_finding,
    tool_number,
)
from benchlab.analysis.formats import join_names, rate, share, times_text

# Share of the requested I/O that a file system's metadata may reach.
STRAYS = 0.10
# Ratio to the request in the same direction: the windows of the tool and the samples end at different times.
MORE = 1.25
# least B/s
LEAST = 1 << 20
# least number of intervals
ENOUGH = 5
# B: a smaller write makes a file system read the page first
PAGE = 4096
OTHER = {"read": "write", "write": "read"}
BANDWIDTHS = ("read.bandwidth", "write.bandwidth")
PAST = {"read": "read", "write": "wrote"}
# share of the bytes that the disks read and wrote
TRIMMED = 0.01


@run_finding("Other I/O on the disks")
def other_io(run: Run) -> Iterator[Finding]:
    """Somebody else used the disks, or the tool did something unrequested: only if the stack explains none of it.

    Three cases are certain: reads during writes alone, and writes during reads alone, past the page cache, on stacks of
    which no layer does that by itself (raw, LVM, mirrors, xfs, ext4; not parity, pools, caches); more than was
    requested where each byte requested is one of one disk; and I/O on such disks before the tool began.
    """
    way = run.access.only_direction
    requested = run.tool_rate(way) if way and run.access.direct else None
    if not requested or requested < LEAST or not run.quiet or run.resyncing or _does_other(run):
        return
    yield from _opposite_direction(run, way, requested)
    if run.straight:
        yield from _more_than_requested(run, way, requested)
        yield from _before_start(run, requested)


def _does_other(run: Run) -> bool:
    """True if the tool itself does more than its one direction."""
    way = run.access.only_direction
    if run.figures.get(f"{OTHER[way]}.bandwidth") or run.figures.get("trim.bandwidth"):
        return True
    return way == "write" and (run.access.block or 0) < PAGE and not run.straight


def _disk_rate(run: Run, way: str) -> float | None:
    return run.disk_rate(way) if run.windows and run.disk_samples(way) >= ENOUGH else None


def _opposite_direction(run: Run, way: str, requested: float) -> Iterator[Finding]:
    other = OTHER[way]
    moved = _disk_rate(run, other)
    if moved is None or moved < max(STRAYS * requested, LEAST):
        return
    did = "read" if other == "read" else "written"
    why = ", which no layer of the layout explains"
    if other == "write" and _may_write_inode_tables(run):
        why = ": a new ext4 may still have written its inode tables (lazy_itable_init)"
    yield Finding(
        f"{rate(moved)} were {did} on {join_names(run.active_disks)} while the tool only {PAST[way]} "
        f"({rate(requested)}){why}",
        Severity.DOUBT,
        {"disks": disks_number(moved, other), "tool": tool_number(run, way)},
        about=other,
    )


def _may_write_inode_tables(run: Run) -> bool:
    """By default mke2fs leaves these to be zeroed after the mount, which takes minutes on a large disk."""
    return any(
        layer.kind == "filesystem"
        and layer.options.get("type") == "ext4"
        and "lazy_itable_init=0" not in ",".join(map(str, layer.options.get("mkfs_options") or ()))
        for layer in run.layers
    )


def _more_than_requested(run: Run, way: str, requested: float) -> Iterator[Finding]:
    moved = _disk_rate(run, way)
    if moved is None or moved < MORE * requested:
        return
    yield Finding(
        f"the disks {PAST[way]} {rate(moved)}, "
        f"{times_text(moved / requested)} the {rate(requested)} of the tool, which no layer of the layout explains",
        Severity.DOUBT,
        {"disks": disks_number(moved, way), "tool": tool_number(run, way)},
        about=way,
    )


def _before_start(run: Run, requested: float) -> Iterator[Finding]:
    """Report I/O before the tool began, on disks without a file system: nothing is laid out on these."""
    begin = min((window.start for window in run.windows), default=0.0)
    if begin <= NEAR:
        return
    total, seconds = 0.0, 0.0
    for track in run.tracks:
        if track.device not in run.active_disks or track.metric not in BANDWIDTHS:
            continue
        ends, spans, values = (
            np.asarray(column, dtype=float) for column in (track.times, track.spans(), track.values)
        )
        early = (ends <= begin) & np.isfinite(values)
        total += float((values * spans)[early].sum())
        seconds = max(seconds, float(spans[early].sum()))
    if seconds <= 0 or total / seconds < max(STRAYS * requested, LEAST):
        return
    yield Finding(
        f"{rate(total / seconds)} were read or written on {join_names(run.active_disks)} in the "
        f"{seconds:.0f} s before the tool began",
        Severity.DOUBT,
        {
            "before": Number(total / seconds, "B/s", "by the disks, before the tool began"),
            "tool": Number(requested, "B/s", "by the tool"),
        },
        about="before",
    )


@run_finding("Resync or discards meanwhile")
def resync_meanwhile(run: Run) -> Iterator[Finding]:
    """The kernel, or a pool, rebuilt or checked redundancy while it measured, or blocks were discarded.

    What was to be measured (a growing layout, a discard that was requested) is worth a note.
    """
    during = run.meta.get("during")
    yield from _recorded_work(during) if during else _resynced_arrays(run)
    yield from _discards(run)


def _recorded_work(during: Mapping[str, Sequence[Mapping[str, object]]]) -> Iterator[Finding]:
    """Report work that the engine saw at both ends of the run: it was measured during that on purpose."""
    ended = {entry.get("says"): entry.get("done") for entry in during.get("end") or ()}
    for entry in during.get("start") or ():
        work, start = str(entry.get("says", "")), entry.get("done")
        if not work or not isinstance(start, int | float):
            continue
        numbers = {"start": Number(start, "1", f"{work}, done at the start")}
        sentence = f"{work} ran during the measurement, from {share(start)} done"
        end = ended.get(work)
        if isinstance(end, int | float):
            numbers["end"] = Number(end, "1", f"{work}, done at the end")
            sentence += f" to {share(end)}"
        yield Finding(sentence, Severity.NOTE, numbers, about=work)


def _resynced_arrays(run: Run) -> Iterator[Finding]:
    """Report the arrays that /proc/mdstat shows at work.

    If the layout has no array, those of the host are on other disks and worth only a note.
    """
    ours = any(layer.kind == "md" for layer in run.layers)
    for track in run.measured_tracks("sync.bandwidth"):
        values, spans = np.asarray(track.values, dtype=float), np.asarray(track.spans())
        going = np.isfinite(values) & (values > 0)
        if not going.any():
            continue
        array, speed, seconds = track.device, float(values[going].mean()), float(spans[going].sum())
        yield Finding(
            f"{array} was resynced, reshaped or checked at {rate(speed)} for {seconds:.0f} s of the "
            f"{spans.sum():.0f} s measured",
            Severity.DOUBT if ours and not run.stage else Severity.NOTE,
            {
                "speed": Number(
                    speed, "B/s", f"sync of {array}", device=array, metric=track.metric
                ),
                "seconds": Number(seconds, "s", "of it, while it measured"),
            },
            about=array,
        )


def _discards(run: Run) -> Iterator[Finding]:
    if any(name.startswith("trim.") for name in run.figures):
        # The tool itself discards.
        return
    means = run.means("discard.bandwidth", run.active_disks)
    busy = {name: value for name, value in means.items() if value > LEAST}
    moved = sum(run.disk_rate(way) or 0.0 for way in OTHER) if busy else 0.0
    total = sum(busy.values())
    if not busy or total < TRIMMED * moved:
        return
    requested = any(_discards_as_it_goes(layer) for layer in run.layers)
    metric = "discard.bandwidth"
    yield Finding(
        f"{rate(total)} were discarded on {join_names(tuple(sorted(busy)))} while it measured",
        Severity.NOTE if requested else Severity.DOUBT,
        {"discards": Number(total, "B/s", "discards, by the disks", metric=metric)},
        about="discards",
    )


def _discards_as_it_goes(layer: Layer) -> bool:
    """True if it is set to discard what is freed at once."""
    discards = layer.options.get("autotrim") or (
        layer.kind == "bcache" and layer.options.get("discard")
    )
    return bool(discards) or "discard" in (layer.options.get("mount_options") or ())
