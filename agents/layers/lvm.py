# SPDX-License-Identifier: Apache-2.0
"""A logical volume over disks: linear, striped or mirrored. Group bl17, volume data, so /dev/bl17/data.

Sources: lvcreate(8), lvextend(8), lvmraid(7); articles 000 (12-way stripe of 4 KiB) and 002 (a stripe extended).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from agents.contracts import (
    Claim,
    Need,
    OptionsError,
    Part,
    Plan,
    PlanError,
    Progress,
    Step,
    Target,
    Use,
)
from agents.facts.health import Health
from agents.facts.model import HostFacts
from agents.layers import _lvm
from agents.layers._lvm import NEED_DMSETUP, NEED_LVM, PVS, extents
from agents.options import option
from agents.steps.common import MIB, erase_all, member_nodes, settle, still_there, without_uses

LABEL = "LVM"
NEEDS = (NEED_LVM, NEED_DMSETUP)
USES = {"data": Use("disks of the volume")}
PROVIDES = "lv"
REQUIRES = "devices"
SECTOR = 512


@dataclass(frozen=True, slots=True)
class Options:
    type: str = option(
        "striped",
        "Segment type; a mirror (raid1) has a copy on every disk",
        choices=("linear", "striped", "mirror"),
    )
    stripes: int = option(0, "Number of stripes; 0: one per disk", minimum=0)
    stripe_size: int = option(64 << 10, "Stripe size, a power of two", unit="B", minimum=4096)
    size: int = option(
        0, "Size, rounded up to whole stripes of extents; 0: all free space", unit="B", minimum=0
    )
    extent_size: int = option(4 << 20, "Extent size, a power of two", unit="B", minimum=64 << 10)

    def __post_init__(self) -> None:
        for name in ("stripe_size", "extent_size"):
            value = getattr(self, name)
            if value < 1 or value & (value - 1):
                raise OptionsError(f"{name}: {value} is not a power of two")
        if self.stripe_size > self.extent_size:
            raise OptionsError(
                f"stripe_size: {self.stripe_size} B is more than an extent of {self.extent_size} B"
            )
        if self.type != "striped" and self.stripes:
            raise OptionsError(f"stripes: a {self.type} volume has none; leave it at 0")


@dataclass(frozen=True, slots=True)
class Grow:
    """A new segment on the new disks. What was written stays where it is: LVM never restripes."""

    stripes: int = option(0, "Stripes of the new segment; 0: one per new disk", minimum=0)
    size: int = option(0, "Size added; 0: all free space", unit="B", minimum=0)


def required_programs(options: Options) -> tuple[Need, ...]:
    return NEEDS


def plan(options: Options, target: Target, facts: HostFacts) -> Plan:
    """Plan the layer. Raises PlanError for too few or too small disks."""
    pieces = _physical_volumes(target)
    nodes = [piece.node for piece in pieces]
    segment = layout_of(options, options.stripes, options.size, pieces, target)
    name = target.name
    create = (
        *written(segment),
        "--wipesignatures",
        "y",
        "--zero",
        "y",
        "--name",
        "data",
        name,
        *nodes,
    )
    group = ("--physicalextentsize", f"{options.extent_size}b", name, *nodes)
    steps = (
        *erase_all(target, pieces, facts, settled=False),
        *_lvm.make_pvs(target, "data", pieces, nodes, facts),
        _lvm.lvm_step(
            "vgcreate",
            group,
            f"Make the volume group {name}",
            target,
            nodes,
            facts,
            undo=(
                _lvm.lvm_step(
                    "vgremove", (name,), f"Remove the volume group {name}", target, nodes, facts
                ),
            ),
        ),
        _lvm.lvm_step(
            "lvcreate",
            create,
            f"Make the logical volume {name}/data",
            target,
            nodes,
            facts,
            undo=(
                _lvm.lvm_step(
                    "lvremove", (f"{name}/data",), f"Remove {name}/data", target, nodes, facts
                ),
            ),
        ),
    )
    return _volume_plan(options, target, steps, [segment], pieces, _plan_notes(options, segment))


def _physical_volumes(target: Target) -> tuple[Part, ...]:
    if target.volume.startswith(f"/dev/{target.name}/"):
        raise PlanError(f"{target.volume} is a logical volume already: one LVM layer is enough")
    if target.volume.startswith("/dev/zvol/"):
        # Seen with LVM 2.03.16 on OpenZFS 2.1: the physical volume is made, and vgcreate does not find it.
        raise PlanError(
            f"{target.volume} is a zvol, and LVM does not find its volumes there: use the zvol itself"
        )
    if not (nodes := member_nodes(target, "data", main=True)):
        raise PlanError("data: there is no disk to make the volume on")
    return nodes


def _plan_notes(options: Options, segment: Segment) -> tuple[str, ...]:
    size = segment.extents * options.extent_size
    if options.size and size != options.size:
        return (f"LVM: {options.size} B requested, {size} B allocated: whole stripes of extents",)
    return ()


def _volume_plan(
    options: Options,
    target: Target,
    steps: Sequence[Step],
    segments: Sequence[Segment],
    pieces: Sequence[Part],
    notes: tuple[str, ...],
) -> Plan:
    """`stripe_unit` and `stripe_count` only where one segment is the whole volume."""
    size = sum(segment.extents for segment in segments) * options.extent_size
    unit = count = 0
    if len(segments) == 1 and segments[0].type == "striped" and segments[0].stripes > 1:
        unit, count = options.stripe_size, segments[0].stripes
    elif len(pieces) == 1 and pieces[0].node == target.volume:
        unit, count = target.stripe_unit, target.stripe_count
    below = without_uses(target, "data")
    gives = replace(
        below,
        parts={**below.parts, PVS: tuple(pieces)},
        volume=_volume(target),
        size=size,
        stripe_unit=unit,
        stripe_count=count,
        notes=(*target.notes, *notes),
    )
    segments_json = json.dumps([asdict(segment) for segment in segments], separators=(",", ":"))
    return Plan(tuple(steps), gives, {"segments": segments_json})


def _volume(target: Target) -> str:
    return f"/dev/{target.name}/data"


def _segments(target: Target) -> list[Segment]:
    return [Segment(**segment) for segment in json.loads(target.kept["segments"])]


def plan_growth(
    options: Options,
    grow: Grow,
    target: Target,
    more: Mapping[str, tuple[Claim, ...]],
    facts: HostFacts,
) -> Plan:
    """Plan vgextend and lvextend. Raises PlanError for too few or too small disks."""
    pieces = _physical_volumes(target)
    nodes = [piece.node for piece in pieces]
    new = tuple(Part(claim.node, claim.size) for claim in more.get("data", ()))
    if not new:
        raise PlanError("data: it grows by disks, and got none")
    if options.type == "mirror" and grow.stripes:
        raise PlanError("stripes: a mirror has none")
    segment = layout_of(options, grow.stripes, grow.size, new, target, first=_segments(target)[0])
    name, added = target.name, [piece.node for piece in new]
    words = (*written(segment, extend=True), f"{name}/data", *added)
    steps = [
        *erase_all(target, new, facts, settled=False),
        *_lvm.make_pvs(target, "data", new, nodes, facts),
        _lvm.lvm_step("vgextend", (name, *added), f"Add them to {name}", target, nodes, facts),
        _lvm.lvm_step("lvextend", words, f"Extend {name}/data", target, nodes, facts),
        settle(),
    ]
    note = (
        f"LVM: extended by {segment.extents * options.extent_size} B on {len(new)} disk(s)"
        f" ({segment.type}, {segment.stripes} wide); existing data is not moved"
    )
    return _volume_plan(options, target, steps, [*_segments(target), segment], pieces, (note,))


def plan_expansion(options: Options, target: Target, facts: HostFacts) -> Plan:
    """Plan pvresize and lvextend after the volume below has grown; disks of the layer's own do not change."""
    segments = _segments(target)
    pieces = _physical_volumes(target)
    had = sum(segment.extents for segment in segments)
    room = _lvm.extents(pieces[0], target, options.extent_size)
    if pieces[0].node != target.volume or options.size or room <= had:
        return _volume_plan(options, target, (), segments, pieces, ())
    name, nodes = target.name, [pieces[0].node]
    segments[-1] = replace(segments[-1], extents=segments[-1].extents + room - had)
    steps = (
        _lvm.lvm_step(
            "pvresize", (nodes[0],), f"Use the space that {nodes[0]} gained", target, nodes, facts
        ),
        _lvm.lvm_step(
            "lvextend",
            ("--extents", f"+{room - had}", f"{name}/data", *nodes),
            f"Extend {name}/data",
            target,
            nodes,
            facts,
        ),
        settle(),
    )
    return _volume_plan(options, target, steps, segments, pieces, ())


def starts_resync(options: Options) -> bool:
    return options.type == "mirror"


def background_progress(options: Options, target: Target, facts: HostFacts) -> Progress | None:
    """The first copy of a mirror, by device-mapper's status: "0 LENGTH raid raid1 2 aa DONE/ALL resync …"."""
    for line in facts.dm_status:
        name, _, status = line.partition(": ")
        words = status.split()
        if name != f"{target.name}-data" or len(words) < 8 or words[2] != "raid":
            continue
        finished, _, whole = words[6].partition("/")
        if words[7] != "idle" or finished != whole:
            part = int(finished) / int(whole) if int(whole or 0) else 0.0
            return Progress(f"{words[7]} of {_volume(target)}", part)
    return None


def health_faults(options: Options, target: Target, health: Health) -> list[str]:
    """A mirror's legs, a letter each (A: in sync, a: not yet, D: dead): "0 LENGTH raid raid1 2 AD DONE/ALL …".

    Of a volume under a cache the mirror is what is below the cache's own.
    """
    wrong = []
    for name, words in health.mapped.items():
        if not re.fullmatch(rf"{re.escape(target.name)}-data(?:_corig|_wcorig)?", name):
            continue
        if words[2:3] != ("raid",) or len(words) < 6:
            continue
        if "D" in words[5]:
            dead = [str(at) for at, state in enumerate(words[5], start=1) if state == "D"]
            wrong.append(f"leg {' and '.join(dead)} of {words[4]} of {name} has failed")
        elif health.at_rest and "a" in words[5]:
            late = [str(at) for at, state in enumerate(words[5], start=1) if state == "a"]
            wrong.append(f"leg {' and '.join(late)} of {words[4]} of {name} is not in sync")
    return wrong


def teardown(options: Options, target: Target, facts: HostFacts) -> list[Step]:
    """Remove the volumes from the kernel, then erase every disk. Nothing is written back, no LVM command can hang."""
    present_nodes = still_there(target, member_nodes(target, "data", main=True), facts)
    return [*_lvm.remove_nodes(target, facts), *erase_all(target, present_nodes, facts)]


def verify(options: Options, target: Target, facts: HostFacts) -> list[str]:
    """Check the kernel's table of the volume: type, lengths, stripes, stripe size."""
    rows = _lvm.device_table(f"{target.name}-data", facts)
    if not rows:
        return [f"{_volume(target)} is not active"]
    return segment_differences(options.extent_size, _segments(target), rows)


@dataclass(frozen=True, slots=True)
class Segment:
    """`stripes` is 1 for a linear one, and the number of copies of a mirror. `extents` are what a user can use."""

    type: str
    stripes: int
    stripe_size: int
    extents: int


def layout_of(
    options: Options,
    stripes: int,
    size: int,
    pieces: Sequence[Part],
    target: Target,
    first: Segment | None = None,
) -> Segment:
    """The segment on these disks; `first` is that of the volume which it extends. Raises PlanError."""
    rooms = [extents(piece, target, options.extent_size) for piece in pieces]
    kind, wide = options.type, stripes or len(pieces)
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
    requested_extents = -(-size // options.extent_size)
    rounded_extents = -(-requested_extents // step) * step or most
    if not 0 < rounded_extents <= most:
        raise PlanError(
            f"{len(pieces)} disk(s) have room for {max(most, 0) * options.extent_size // MIB} MiB"
            f" ({kind}, {wide} wide, extents of {options.extent_size // 1024} KiB),"
            f" not {size / MIB:g} MiB"
        )
    if kind == "striped" and wide == 1:
        kind = "linear"
    return Segment(kind, wide, options.stripe_size if kind == "striped" else 0, rounded_extents)


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
