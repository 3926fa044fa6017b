"""What lies between frames: shared by samplers that read counters."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from agents.contracts import Frame

SHORTEST_S = 0.2


def is_count(word: str) -> bool:
    """A whole number as the kernel counts: 64 bits at most."""
    return word.isascii() and word.isdigit() and len(word) <= 20


@dataclass(frozen=True, slots=True)
class Interval:
    before: Frame
    after: Frame
    end: float  # seconds since the run's first frame
    seconds: float  # its length


def intervals(frames: Sequence[Frame]) -> list[Interval]:
    """Neighbouring frames, in order. The last frame comes when the tool ends, maybe just after a tick:
    such a sliver is added to the interval before it, for rates over a few ms are noise."""
    kept = list(frames[:1])
    for frame in frames[1:]:
        gap = frame.at - kept[-1].at
        if gap <= 0:
            continue  # a monotonic clock has no such frames: torn
        if gap < SHORTEST_S and len(kept) > 1:
            kept[-1] = frame
        else:
            kept.append(frame)
    pairs = itertools.pairwise(kept)
    return [Interval(a, b, b.at - kept[0].at, b.at - a.at) for a, b in pairs]
