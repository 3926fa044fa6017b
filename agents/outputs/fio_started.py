# SPDX-License-Identifier: Apache-2.0
"""Lines of fio's text about the jobs that start: names, engines, depths and block sizes. Pure, never raises.

`rr: (g=0): rw=randread, bs=4K-4K/4K-4K, ioengine=libaio, iodepth=64` up to 2.x, whose sizes are powers of 1024 and go
reads/writes/trims; `bs=(R) 64.0KiB-64.0KiB, (W) …` from 3.0 on, and with kb_base=1000 `(R) 65.5kB-65.5kB`, rounded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

LINE = re.compile(
    r"(?<!\S)(?P<name>\S{1,200}):\s+\(g=(?P<group>\d{1,6})\):\s+rw=(?P<rw>[a-z]+)[^;,]{0,40},\s+"
    r"(?P<sizes>[^;]{1,200}?),\s+ioengine=(?P<ioengine>[\w-]+),\s+iodepth=(?P<iodepth>\d{1,6})"
)
SIZE = re.compile(r"(\d{1,9})(\.\d{1,9})?([KMG]?)(i?)(B?)(?=[-/,\s]|\Z)", re.IGNORECASE)
# Below the line of a job with numjobs, which does not say how many
COPIES = re.compile(r"\s*\.\.\.\s")
WAYS = ("read", "write", "trim")
POWERS = {"": 0, "k": 1, "m": 2, "g": 3}
# the power of two of the smallest block
SECTOR = 9
# as much may a size be off that was computed
NEARLY = 1e-9


@dataclass(frozen=True, slots=True)
class Started:
    name: str
    group: str
    rw: str
    ioengine: str
    iodepth: int
    # Bytes, as printed: the smallest and the largest block of each direction
    sizes: tuple[int, ...]
    # numjobs
    several: bool

    def fixed(self) -> Mapping[str, int]:
        """Block size of each direction that has but one; of "mixed", where all have the same."""
        pairs = zip(WAYS, self.sizes[::2], self.sizes[1::2], strict=False)
        sizes = {way: low for way, low, high in pairs if low == high}
        same = set(self.sizes)
        return sizes | ({"mixed": same.pop()} if len(same) == 1 else {})


def parse_starting_lines(text: str) -> list[Started]:
    return [
        Started(
            name=match["name"],
            group=match["group"],
            rw=match["rw"],
            ioengine=match["ioengine"],
            iodepth=int(match["iodepth"]),
            sizes=tuple(
                _size_bytes(size) for size in SIZE.finditer(match["sizes"].replace("bs=", ""))
            ),
            several=bool(COPIES.match(text, match.end())),
        )
        for match in LINE.finditer(text)
    ]


def _size_bytes(size: re.Match[str]) -> int:
    whole, rest, unit, binary, byte = size.groups("")
    thousands = unit and byte and not binary
    factor = float((1000 if thousands else 1024) ** POWERS[unit.lower()])
    printed = float(whole + rest) * factor
    if not thousands:
        return int(printed)
    half = factor / 10 ** max(len(rest) - 1, 0) / 2
    return int(roundest(printed - half, printed + half) or printed)


def roundest(least: float, most: float) -> float:
    """The size above `least` bytes and up to `most` that the largest power of two divides.

    0.0 where none is a multiple of 512.
    """
    most *= 1 + NEARLY
    for power in range(int(math.log2(max(most, 1))), SECTOR - 1, -1):
        block = float(1 << power)
        size = most // block * block
        if size > least:
            return size
    return 0.0
