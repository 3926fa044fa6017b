# SPDX-License-Identifier: Apache-2.0
"""Flushes as distinct from writes: kernels count a flush as a write of no bytes (seen on 3.10 and 6.1).

A write moves at least one logical block. So of `writes` per second that moved `moved` bytes, at most moved / block were
writes of data, and the rest were flushes: article 000's ten disks, with 7,248 w/s and 0.3 MB/s, got 6,592 flushes per
second or more. If most writes are large, this bound is of no use; kernels from 5.5 on count flushes themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

# B
SECTOR = 512


@dataclass(frozen=True, slots=True)
class Flushes:
    """Writes and flushes of one device per second.

    `empty`: writes that moved no data, at least. `counted`: flushes that its kernel counted; None if it counts none.
    """

    writes: float
    empty: float
    counted: float | None = None

    @property
    def share(self) -> float:
        """Share of writes that are flushes without data, at least. A flush that the kernel counted was a write too."""
        if not self.writes > 0:
            return 0.0
        return max(self.empty, min(self.counted or 0.0, self.writes)) / self.writes


def flushes(
    writes: float, moved: float, counted: float | None = None, block: int = SECTOR
) -> Flushes | None:
    """`writes`: op/s; `moved`: B/s; `block`: B, the device's logical block. None where one of them is unknown."""
    if writes != writes or moved != moved or writes < 0 or moved < 0:
        return None
    kernel_count = None if counted is None or counted != counted else counted
    return Flushes(writes, max(0.0, writes - moved / block), kernel_count)
