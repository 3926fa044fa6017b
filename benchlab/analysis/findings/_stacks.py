# SPDX-License-Identifier: Apache-2.0
"""Effects of a stack on the bytes that a tool requests. Findings that may only claim what is certain share them."""

from __future__ import annotations

from math import isnan

from benchlab.analysis.evidence import Layer, Run

# Layers where one byte requested is one byte of one disk.
STRAIGHT = {"raw", "partition", "dm_crypt", "tuning"}
# md levels whose members hold the same data, without parity to be read first
MIRRORS = {1, 10}
OFF = ("", "off", "no", "none", "false")
PACKING = ("compression", "dedup", "deduplication")
CACHES = {"bcache", "flashcache", "lvm_cache", "zpool", "zfs", "zvol"}
# beginnings of options that slow a tool down on purpose
HELD_BACK = ("rate", "think")
NO = (None, False, 0, "", "0")
# uses of disks that carry nothing while no disk fails
IDLE = {"spare"}


def held_back(run: Run) -> str:
    """The first option that slows the tool down on purpose, also one of fio's own; "" without one."""
    extra, lines = run.options.get("extra") or (), str(run.options.get("job_file") or "")
    further = (str(argument).partition("=") for argument in (*extra, *lines.splitlines()))
    options = {
        name: value for name, value in run.options.items() if name not in ("extra", "job_file")
    }
    options |= {name.strip(): value.strip() for name, _, value in further}
    return next(
        (name for name in options if name.startswith(HELD_BACK) and options[name] not in NO), ""
    )


def straight(run: Run) -> bool:
    """True when each byte asked for is one byte of one disk, and no layer does anything by itself."""
    return bool(run.layers) and all(_straight(layer) for layer in run.layers)


def quiet(run: Run) -> bool:
    """True if no layer reads during writes alone, nor writes during reads alone, except for stray metadata."""
    return bool(run.layers) and all(_straight(layer) or _quiet(layer) for layer in run.layers)


def cached(run: Run) -> bool:
    """True when a layer keeps data on its own account; unknown layers may."""
    return not run.layers or any(layer.kind in CACHES for layer in run.layers)


def active_disks(run: Run) -> tuple[str, ...]:
    """All disks that carry something."""
    held = (names for layer in run.layers for use, names in layer.uses.items() if use not in IDLE)
    return tuple(dict.fromkeys(name for names in held for name in names))


def packing(run: Run) -> str:
    """The layer that compresses or deduplicates, in words: "zfs (compression lz4)"; "" without one.

    btrfs does not compress what is written past the page cache; ZFS does.
    """
    past = run.access.direct and run.access.writes
    for layer in run.layers:
        for option in PACKING:
            value = str(layer.options.get(option, "")).lower()
            if value not in OFF:
                return f"{layer.kind} ({option} {value})"
        for word in () if past else layer.options.get("mount_options") or ():
            if str(word).startswith("compress"):
                return f"{layer.kind} ({word})"
    return ""


def copies(run: Run) -> int:
    """Least number of copies of each byte written on the disks; 1 if it is unknown."""
    return max((copies_of(layer) or 1 for layer in run.layers), default=1)


def copies_of(layer: Layer) -> int | None:
    """Number of times that a layer writes each byte; None for a mirror with an unknown number of sides."""
    level, layout = layer.options.get("level", 5), str(layer.options.get("layout", ""))
    if (layer.kind, layer.options.get("type")) == ("lvm", "mirror") or (layer.kind, level) == (
        "md",
        1,
    ):
        return len(layer.uses.get("data", ())) or None
    if (layer.kind, level) == ("md", 10):
        # md uses n2 by default.
        digits = layout[1:] if layout else "2"
        return int(digits) if digits.isdigit() else None
    if (layer.kind, layout) == ("zpool", "mirror"):
        width = layer.options.get("width") or 2
        return width if isinstance(width, int) and width > 0 else None
    return 1


def tool_rate(run: Run, way: str) -> float | None:
    """B/s that the tool counted for "read" or "write"; its only rate if that is all it does."""
    value = run.figures.get(tool_figure(run, way))
    return None if value is None or isnan(value) else value


def tool_figure(run: Run, way: str) -> str:
    """Name of the figure that holds the rate."""
    reads, writes = run.access.reads, run.access.writes
    alone = (reads, writes) == ((True, False) if way == "read" else (False, True))
    own = f"{way}.bandwidth"
    return "bandwidth" if alone and own not in run.figures else own


def _straight(layer: Layer) -> bool:
    if layer.kind == "lvm":
        return layer.options.get("type", "striped") in ("linear", "striped")
    if layer.kind == "md":
        return bool(layer.options.get("level", 5) == 0)
    return layer.kind in STRAIGHT


def _quiet(layer: Layer) -> bool:
    if layer.kind == "filesystem":
        return layer.options.get("type", "xfs") in ("xfs", "ext4")
    if layer.kind == "md":
        return layer.options.get("level", 5) in MIRRORS
    return layer.kind == "lvm"
