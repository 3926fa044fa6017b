# SPDX-License-Identifier: Apache-2.0
"""Intervals between frames: shared by samplers that read counters."""

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
    # seconds since the run's first frame
    end: float
    # its length
    seconds: float


def in_time(frames: Sequence[Frame]) -> list[Frame]:
    """Each later than the one before it: a monotonic clock has no others, such are torn."""
    frames_in_time: list[Frame] = []
    for frame in frames:
        if not frames_in_time or frame.at > frames_in_time[-1].at:
            frames_in_time.append(frame)
    return frames_in_time


def intervals(frames: Sequence[Frame]) -> list[Interval]:
    """Neighbouring frames, in order. The last frame comes when the tool ends, maybe just after a tick:
    such a sliver is added to the interval before it, for rates over a few ms are noise."""
    ordered_frames: list[Frame] = []
    for frame in in_time(frames):
        if len(ordered_frames) > 1 and frame.at - ordered_frames[-1].at < SHORTEST_S:
            ordered_frames[-1] = frame
        else:
            ordered_frames.append(frame)
    pairs = itertools.pairwise(ordered_frames)
    return [Interval(a, b, b.at - ordered_frames[0].at, b.at - a.at) for a, b in pairs]
