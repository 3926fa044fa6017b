# SPDX-License-Identifier: Apache-2.0
"""Effects of a stack on the bytes that a tool asks for: shared by findings that may only say what is certain."""

from __future__ import annotations

from math import isnan

from benchlab.analysis.evidence import Layer, Run

# one byte asked for is one byte of one disk
STRAIGHT = {"raw", "partition", "dm_crypt", "tuning"}
# md levels whose members hold the same, without parity to be read first
MIRRORS = {1, 10}
OFF = ("", "off", "no", "none", "false")
PACKING = ("compression", "dedup", "deduplication")
CACHES = {"bcache", "flashcache", "lvm_cache", "zpool", "zfs", "zvol"}
# how options begin by which a tool holds itself back
HELD_BACK = ("rate", "think")
NO = (None, False, 0, "", "0")
# uses of disks that carry nothing while all is well
IDLE = {"spare"}


def held_back(run: Run) -> str:
    """The first option by which the tool was told to do less than it could, also one of fio's own; "" without one."""
    extra, lines = run.options.get("extra") or (), str(run.options.get("job_file") or "")
    further = (str(one).partition("=") for one in (*extra, *lines.splitlines()))
    told = {name: value for name, value in run.options.items() if name not in ("extra", "job_file")}
    told |= {name.strip(): value.strip() for name, _, value in further}
    return next((name for name in told if name.startswith(HELD_BACK) and told[name] not in NO), "")


def straight(run: Run) -> bool:
    """True when each byte asked for is one byte of one disk, and no layer does anything by itself."""
    return bool(run.layers) and all(_straight(one) for one in run.layers)


def quiet(run: Run) -> bool:
    """True when no layer reads while it only writes, nor writes while it only reads, but for strays of metadata."""
    return bool(run.layers) and all(_straight(one) or _quiet(one) for one in run.layers)


def cached(run: Run) -> bool:
    """True when a layer keeps data on its own account; unknown layers may."""
    return not run.layers or any(one.kind in CACHES for one in run.layers)


def active_disks(run: Run) -> tuple[str, ...]:
    """All that carry something."""
    held = (names for one in run.layers for use, names in one.uses.items() if use not in IDLE)
    return tuple(dict.fromkeys(name for names in held for name in names))


def packing(run: Run) -> str:
    """The layer that compresses or deduplicates, in words: "zfs (compression lz4)"; "" without one.

    btrfs does not compress what is written past the page cache; ZFS does.
    """
    past = run.access.direct and run.access.writes
    for one in run.layers:
        for option in PACKING:
            value = str(one.options.get(option, "")).lower()
            if value not in OFF:
                return f"{one.kind} ({option} {value})"
        for word in () if past else one.options.get("mount_options") or ():
            if str(word).startswith("compress"):
                return f"{one.kind} ({word})"
    return ""


def copies(run: Run) -> int:
    """Least number of copies of each byte written on the disks: 1 where nobody can tell."""
    return max((copies_of(one) or 1 for one in run.layers), default=1)


def copies_of(one: Layer) -> int | None:
    """Number of times that a layer writes each byte; None of a mirror of which nobody told how many sides it has."""
    level, layout = one.options.get("level", 5), str(one.options.get("layout", ""))
    if (one.kind, one.options.get("type")) == ("lvm", "mirror") or (one.kind, level) == ("md", 1):
        return len(one.uses.get("data", ())) or None
    if (one.kind, level) == ("md", 10):
        # n2 is md's own choice
        told = layout[1:] if layout else "2"
        return int(told) if told.isdigit() else None
    if (one.kind, layout) == ("zpool", "mirror"):
        width = one.options.get("width") or 2
        return width if isinstance(width, int) and width > 0 else None
    return 1


def tool_rate(run: Run, way: str) -> float | None:
    """B/s that the tool counted, "read" or "write"; its only rate where it does but that."""
    said = run.figures.get(tool_figure(run, way))
    return None if said is None or isnan(said) else said


def tool_figure(run: Run, way: str) -> str:
    """The name of that figure."""
    reads, writes = run.access.reads, run.access.writes
    alone = (reads, writes) == ((True, False) if way == "read" else (False, True))
    own = f"{way}.bandwidth"
    return "bandwidth" if alone and own not in run.figures else own


def _straight(one: Layer) -> bool:
    if one.kind == "lvm":
        return one.options.get("type", "striped") in ("linear", "striped")
    if one.kind == "md":
        return bool(one.options.get("level", 5) == 0)
    return one.kind in STRAIGHT


def _quiet(one: Layer) -> bool:
    if one.kind == "filesystem":
        return one.options.get("type", "xfs") in ("xfs", "ext4")
    if one.kind == "md":
        return one.options.get("level", 5) in MIRRORS
    return one.kind == "lvm"
