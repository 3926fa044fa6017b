# SPDX-License-Identifier: Apache-2.0
"""Size of an md array, and its state in the facts against the options.

The sizes follow mdadm's own arithmetic (super1.c, Create.c of 4.2; tried on Linux 6.1). They are in KiB unless a name
says bytes, because mdadm's options are.
"""

from __future__ import annotations

from collections.abc import Sequence

from agents.contracts import Part, Progress
from agents.facts.graph import Graph
from agents.facts.model import HostFacts, MdArray

KIB = 1 << 10
# mdadm refuses fewer
LEAST = {0: 2, 1: 2, 5: 2, 6: 4, 10: 2}
PARITY = {5: 1, 6: 2}
# a mirror has no chunk; what a superblock of any version could take
ROUND = 64


def data_offset(nodes: Sequence[Part], chunk: int) -> int:
    """Start of the data on every member (KiB): whole MiB. `chunk` in bytes, 0 for a mirror.

    mdadm's own choice, said explicitly because it differs from version to version. The room before the data is what
    a reshape later moves through.
    """
    sectors = min(node.size for node in nodes) // 512
    headroom = 128 * 1024 * 2
    while headroom << 10 > sectors and (not chunk or headroom > 4 * (chunk // KIB)):
        headroom >>= 1
    needed = 24 + _bitmap_sectors(sectors) + headroom
    return -(-needed // 2048) * 1024


def _bitmap_sectors(sectors: int) -> int:
    if sectors - 128 >= 200 * 1024 * 1024 * 2:
        return 256
    return 128 if sectors - 8 > 8 * 1024 * 1024 * 2 else 8


def usable(level: int, nodes: Sequence[Part], chunk: int, layout: str) -> int:
    """Bytes of the array's data; 0 or less when the members are too small for one chunk."""
    offset, step = data_offset(nodes, chunk), chunk // KIB or ROUND
    each = [(node.size // KIB - offset) // step * step for node in nodes]
    least, count = min(each), len(each)
    if level == 0:
        return sum(each) * KIB if least > 0 else 0
    if level == 1:
        return least * KIB
    if level == 10:
        return _raid10(least // step, count, layout) * step * KIB
    return least * (count - PARITY[level]) * KIB


def _raid10(chunks: int, count: int, layout: str) -> int:
    """Chunks of data when every member has `chunks`: far and offset copies lie within a member."""
    copies = int(layout[1:])
    if layout[0] == "n":
        return chunks * count // copies
    return chunks // copies * count


def stripe_count(level: int, count: int, layout: str) -> int:
    """Data chunks of a full stripe, as the kernel tells file systems (optimal_io_size); 0: no stripe."""
    if level == 1:
        return 0
    if level == 10:
        copies = int(layout[1:]) if layout[0] == "n" else 1
        return count if count % copies else count // copies
    return count - PARITY.get(level, 0)


def array_at(node: str, facts: HostFacts) -> MdArray | None:
    device = Graph(facts).find_device(node)
    return next((a for a in facts.md_arrays if device and a.name == device.name), None)


def array_differences(
    array: MdArray, level: int, chunk: int, layout: str, bitmap: bool
) -> list[str]:
    wrong = []
    if array.state != "active":
        wrong.append(f"{array.name} is {array.state}, not active")
    # a reshape of RAID 0, seen in the middle
    passing = level == 0 and array.level == "raid4"
    if array.level != f"raid{level}" and not passing:
        wrong.append(f"{array.name} is {array.level or 'without a level'}, not raid{level}")
    if array.chunk != chunk:
        wrong.append(f"{array.name} has chunks of {array.chunk} B, not {chunk} B")
    if level == 10 and array.layout != layout:
        wrong.append(f"{array.name} has the layout {array.layout or '?'}, not {layout}")
    if array.bitmap != bitmap and not passing:
        wrong.append(f"{array.name} has {'a' if array.bitmap else 'no'} bitmap")
    return wrong


def wrong_members(
    array: MdArray, data: Sequence[Part], spares: Sequence[Part], facts: HostFacts
) -> list[str]:
    """Differences between the members and the disks. A slot that is not in sync yet may be on its way."""
    graph = Graph(facts)
    wished = [d.name if (d := graph.find_device(p.node)) else p.node for p in [*data, *spares]]
    wrong = lost_members(array, wished, len(spares))
    inside = {member.device for member in array.members}
    wrong += [f"{name} is in {array.name} too" for name in sorted(inside - set(wished))]
    if array.slots and array.slots != len(data) and not array.action:
        wrong.append(f"{array.name} has {array.slots} slots, not {len(data)}")
    return wrong


def lost_members(array: MdArray, wished: Sequence[str], spares: int) -> list[str]:
    """Members (kernel names) that are not in the array or have failed, and spares that were taken, in words."""
    flags = {member.device: member.flags for member in array.members}
    wrong = [f"{name} is not in {array.name}" for name in sorted(set(wished) - flags.keys())]
    wrong += [f"{name} has failed in {array.name}" for name, state in flags.items() if "F" in state]
    idle = sum("S" in state for state in flags.values())
    if idle != spares and not array.action:
        wrong.append(f"{array.name} has {idle} spares, not {spares}")
    return wrong


def progress(array: MdArray, level: int, name: str) -> Progress | None:
    if array.action:
        return Progress(f"{array.action} of {name}", array.done, array.finish_s)
    if level == 0 and array.level == "raid4":
        return Progress(f"return of {name} to RAID 0", 1.0)
    usable = sum("F" not in member.flags for member in array.members)
    if array.up < array.slots <= usable:
        return Progress(f"recovery of {name}, which has not begun", 0.0)
    return None
