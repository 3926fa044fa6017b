# SPDX-License-Identifier: Apache-2.0
"""Size of an md array, by mdadm's own arithmetic (super1.c, Create.c of 4.2; tried on Linux 6.1).

Everything is in KiB unless it says bytes, because mdadm's options are.
"""

from __future__ import annotations

from collections.abc import Sequence

from agents.contracts import Part

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
