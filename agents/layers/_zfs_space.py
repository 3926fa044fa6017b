# SPDX-License-Identifier: Apache-2.0
"""Capacity of a pool and of its volumes, by OpenZFS's own arithmetic. Sizes in bytes. Pure.

Sources: module/zfs/{vdev.c, vdev_raidz.c, spa_misc.c} and lib/libzfs (zvol_volsize_to_reservation) of OpenZFS 2.1;
tests/rig/layers/test_zfs.py holds them against what a kernel says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MIB = 1 << 20
# SPA_MINDEVSIZE
LEAST = 64 * MIB
LABEL = 256 << 10
# two labels and the space for a boot loader
FRONT = 2 * LABEL + (7 << 19)
BACK = 2 * LABEL
# what raidz's space is reckoned in
OLD_BLOCK = 128 << 10
# block pointers in an indirect block
POINTERS = 1024


@dataclass(frozen=True, slots=True)
class Shape:
    """Geometry by which a group of disks stores a block. A disk alone and a mirror: width 1, no parity."""

    width: int = 1
    parity: int = 0
    sector: int = 4096

    def allocated_bytes(self, block: int) -> int:
        """Bytes that a block takes, parity and padding included."""
        sectors = -(-block // self.sector)
        if self.parity:
            sectors += self.parity * -(-sectors // (self.width - self.parity))
            sectors = -(-sectors // (self.parity + 1)) * (self.parity + 1)
        return sectors * self.sector

    def deflated(self, space: int) -> int:
        """Bytes that a raidz's raw space is worth, reckoned in blocks of 128 KiB."""
        return space // 512 * (OLD_BLOCK // (self.allocated_bytes(OLD_BLOCK) // 512))


def partition(size: int) -> int:
    """Bytes of the first partition that OpenZFS on Linux makes of a disk: without the last 8 MiB and both tables."""
    return max((size - 34 * 4096 - 8 * MIB - MIB) // MIB * MIB, 0)


def group_bytes(sizes: Iterable[int], shape: Shape) -> int:
    """Raw space of one group of devices of these sizes: whole metaslabs, without one for its own intent log."""
    least = min(sizes) // LABEL * LABEL - FRONT - BACK
    space = least * shape.width
    metaslab = _metaslab(space)
    count = space // metaslab
    return (count - (count > 64)) * metaslab


def _metaslab(space: int) -> int:
    if space >> 29 < 16:
        shift = (space // 16).bit_length()
    elif space >> 29 > 200:
        shift = (space // 200).bit_length()
    else:
        shift = 29
    return int(1 << min(max(shift, 24), 34))


def usable(spaces: Iterable[int], shape: Shape) -> int:
    """Bytes that the pool's datasets may hold: less what ZFS keeps for itself, and a MiB for what it writes first."""
    whole = sum(shape.deflated(space) for space in spaces)
    slop = max(min(whole >> 5, 128 << 30), min(whole >> 1, 128 * MIB))
    return max(whole - slop - MIB, 0)


def reservation(size: int, block: int, shape: Shape) -> int:
    """Bytes that a volume, not sparse, takes from the pool: its data as raidz stores it, and its block pointers."""
    blocks = size // block
    data = blocks * block
    if shape.parity:
        data = blocks * shape.allocated_bytes(block) * OLD_BLOCK // shape.allocated_bytes(OLD_BLOCK)
    indirect = 7
    while blocks > 1:
        blocks = -(-blocks // POINTERS)
        indirect += blocks
    return data + 2 * indirect * OLD_BLOCK


def largest(space: int, block: int, shape: Shape) -> int:
    """The largest volume, in whole MiB, whose reservation fits into a space."""
    low, high = 0, space // MIB
    while low < high:
        middle = (low + high + 1) // 2
        if reservation(middle * MIB, block, shape) <= space:
            low = middle
        else:
            high = middle - 1
    return low * MIB
