# SPDX-License-Identifier: Apache-2.0
"""Writes smaller than a disk's block: each is read, changed and written inside of it (article 000, 2 kB and 1 kB)."""

from __future__ import annotations

from benchlab.analysis.evidence import Layer, Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings._stacks import active_disks
from benchlab.analysis.formats import join_names, times_text

LABEL = "Writes below the disk's block"
METHOD = "Findings"

# Writes in each operation of pg_test_fsync's open_sync sizes; each operation is 16 kB.
FOUR_KB, BELOW = ("open_sync.4x4", 4), {2: ("open_sync.8x2", 8), 1: ("open_sync.16x1", 16)}
# Ratio to a write of 4 kB: a smaller one should be no slower, and figures of one run may be 20 % off.
SLOWER = 1.75
# Layers that pass blocks on as they are requested.
PASSES_ON = {
    "raw",
    "partition",
    "tuning",
    "lvm",
    "dm_crypt",
    "directory",
    "filesystem",
}


def applies(run: Run) -> list[Finding]:
    return [*_measured_sizes(run), *_requested_block(run)]


def _measured_sizes(run: Run) -> list[Finding]:
    """Report by pg_test_fsync: a write of 2 kB, and of 1 kB, takes longer than one of 4 kB."""
    needed = {FOUR_KB[0], *(name for name, _ in BELOW.values())}
    rates = {name: run.figures.get(f"{name}.ops", 0.0) for name in needed}
    if not all(rate > 0 for rate in rates.values()):
        return []
    each = {size: 1 / (rates[name] * count) for size, (name, count) in BELOW.items()}
    four = 1 / (rates[FOUR_KB[0]] * FOUR_KB[1])
    if min(each.values()) < SLOWER * four:
        return []
    return [
        Finding(
            f"A synced write of 2 kB takes {times_text(each[2] / four)} as long as one of 4 kB, one of 1 kB"
            f" {times_text(each[1] / four)} ({1e6 * four:.0f}, {1e6 * each[2]:.0f} and {1e6 * each[1]:.0f} µs):"
            " below its block the disk, or a layer, reads before it writes",
            Severity.LIMIT,
            {
                "4 kB": Number(four, "s", "a write of 4 kB", figure="open_sync.4x4.ops"),
                "2 kB": Number(each[2], "s", "a write of 2 kB", figure="open_sync.8x2.ops"),
                "1 kB": Number(each[1], "s", "a write of 1 kB", figure="open_sync.16x1.ops"),
            },
            about="open_sync",
        )
    ]


def _requested_block(run: Run) -> list[Finding]:
    """Report direct writes that reach disks with larger blocks unchanged."""
    block = run.access.block
    if not (block and run.access.writes and run.access.direct) or not run.layers:
        return []
    reaches_disks = all(_passes_on(layer) for layer in run.layers)
    physical = {
        name: run.devices[name].physical_block or 0
        for name in active_disks(run)
        if name in run.devices
    }
    large = tuple(name for name, size in physical.items() if size > block)
    if not reaches_disks or not large:
        return []
    size = physical[large[0]]
    return [
        Finding(
            f"It writes {block} B at a time on {join_names(large)}, whose physical block is {size} B: each write is a"
            " read and a write inside the disk",
            Severity.LIMIT,
            {
                "block": Number(block, "B", "the tool's smallest write"),
                "physical": Number(size, "B", f"physical block of {large[0]}", device=large[0]),
            },
            about="block size",
        )
    ]


def _passes_on(layer: Layer) -> bool:
    if layer.kind == "md":
        return layer.options.get("level", 5) in (0, 1, 10)
    if layer.kind == "filesystem":
        return layer.options.get("type", "xfs") in ("xfs", "ext4")
    return layer.kind in PASSES_ON
