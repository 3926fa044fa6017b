# SPDX-License-Identifier: Apache-2.0
"""Segments of a logical volume: how many extents fit, the words that ask for them, and the kernel's table of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from agents.contracts import Part, PlanError, Target
from agents.layers._lvm import extents

SECTOR = 512
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Segment:
    """`stripes` is 1 for a linear one, and the number of copies of a mirror. `extents` are what a user can use."""

    type: str
    stripes: int
    stripe_size: int
    extents: int


class Wish(Protocol):
    """LVM's options that hold for any segment."""

    @property
    def type(self) -> str: ...
    @property
    def stripe_size(self) -> int: ...
    @property
    def extent_size(self) -> int: ...


def layout_of(
    wish: Wish,
    stripes: int,
    size: int,
    pieces: Sequence[Part],
    target: Target,
    first: Segment | None = None,
) -> Segment:
    """The segment on these disks; `first` is that of the volume which it extends. Raises PlanError."""
    rooms = [extents(piece, target, wish.extent_size) for piece in pieces]
    kind, wide = wish.type, stripes or len(pieces)
    if kind == "linear":
        wide = 1
    elif kind == "mirror":
        wide = first.stripes if first else len(pieces)
    if (kind == "mirror" and wide < 2) or len(pieces) % wide or wide > 128:
        raise PlanError(
            f"{len(pieces)} disk(s) cannot hold a {kind} volume {wide} wide:"
            " use as many disks as it is wide, or a multiple of that"
        )
    if kind == "mirror":
        # an extent of each is the record of what is in sync
        rooms = [room - 1 for room in rooms]
        most = len(rooms) // wide * min(rooms)
    else:
        most = sum(rooms) if wide == 1 else len(rooms) // wide * wide * min(rooms)
    step = 1 if kind == "mirror" else wide
    requested_extents = -(-size // wish.extent_size)
    rounded_extents = -(-requested_extents // step) * step or most
    if not 0 < rounded_extents <= most:
        raise PlanError(
            f"{len(pieces)} disk(s) have room for {max(most, 0) * wish.extent_size // MIB} MiB"
            f" ({kind}, {wide} wide, extents of {wish.extent_size // 1024} KiB),"
            f" not {size / MIB:g} MiB"
        )
    if kind == "striped" and wide == 1:
        kind = "linear"
    return Segment(kind, wide, wish.stripe_size if kind == "striped" else 0, rounded_extents)


def written(segment: Segment, extend: bool = False) -> tuple[str, ...]:
    """Words for lvcreate or lvextend. A mirror is extended by all its copies at once."""
    count = ("--extents", f"{'+' if extend else ''}{segment.extents}")
    if segment.type == "mirror":
        return (
            count if extend else ("--type", "raid1", "--mirrors", str(segment.stripes - 1), *count)
        )
    # lvextend rounds a linear type up to the stripes of the volume
    if segment.type == "linear":
        return (*(("--stripes", "1") if extend else ("--type", "linear")), *count)
    return (
        "--type",
        "striped",
        "--stripes",
        str(segment.stripes),
        "--stripesize",
        f"{segment.stripe_size}b",
        *count,
    )


def segment_differences(
    extent_size: int, segments: Sequence[Segment], rows: Iterable[Sequence[str]]
) -> list[str]:
    """Differences between the wanted segments and `dmsetup table`.

    LVM may show one segment as several where a disk ends, and merge equal ones.
    """
    expected_rows = [(_format_segment(segment), segment.extents) for segment in segments]
    actual_rows = [(_format_table_row(row), int(row[1]) * SECTOR) for row in rows]
    if any(segment.type == "mirror" for segment in segments):
        expected_rows = [(expected_rows[0][0], sum(extents for _, extents in expected_rows))]
    wrong = []
    for what in dict.fromkeys([w for w, _ in expected_rows] + [f for f, _ in actual_rows]):
        wish = sum(extents for text, extents in expected_rows if text == what) * extent_size
        have = sum(size for text, size in actual_rows if text == what)
        if wish != have:
            wrong.append(f"{have} B of the volume are {what}, not {wish} B")
    return wrong


def _format_segment(segment: Segment) -> str:
    if segment.type == "striped":
        return f"striped over {segment.stripes} by {segment.stripe_size} B"
    return f"mirrored {segment.stripes} times" if segment.type == "mirror" else "linear"


def _format_table_row(row: Sequence[str]) -> str:
    """start length type …: "striped 4 8 dev offset …", "raid raid1 3 0 region_size 4096 2 …", "linear dev offset"."""
    kind = row[2] if len(row) > 2 else "nothing"
    if kind == "striped":
        return f"striped over {row[3]} by {int(row[4]) * SECTOR} B"
    if kind == "raid" and row[3] == "raid1":
        words = row[4 : 5 + int(row[4])]
        return f"mirrored {row[4 + len(words)]} times"
    return kind
