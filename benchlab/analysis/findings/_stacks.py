# SPDX-License-Identifier: Apache-2.0
"""Effects of a stack on the bytes that a tool asks for: shared by findings that may only say what is certain."""

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
    """The first option by which the tool was told to do less than it could, also one of fio's own; "" without one."""
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
    """True when no layer reads while it only writes, nor writes while it only reads, but for strays of metadata."""
    return bool(run.layers) and all(_straight(layer) or _quiet(layer) for layer in run.layers)


def cached(run: Run) -> bool:
    """True when a layer keeps data on its own account; unknown layers may."""
    return not run.layers or any(layer.kind in CACHES for layer in run.layers)


def active_disks(run: Run) -> tuple[str, ...]:
    """All that carry something."""
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
    """Least number of copies of each byte written on the disks: 1 where nobody can tell."""
    return max((copies_of(layer) or 1 for layer in run.layers), default=1)


def copies_of(layer: Layer) -> int | None:
    """Number of times that a layer writes each byte; None of a mirror of which nobody told how many sides it has."""
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
    """B/s that the tool counted, "read" or "write"; its only rate where it does but that."""
    value = run.figures.get(tool_figure(run, way))
    return None if value is None or isnan(value) else value


def tool_figure(run: Run, way: str) -> str:
    """The name of that figure."""
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
