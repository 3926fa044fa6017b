# SPDX-License-Identifier: Apache-2.0
"""One metric of one device over a run. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchlab.analysis.buckets import Numbers


@dataclass(frozen=True, slots=True)
class Track:
    """One metric of one device: a row of Series, or what a running attempt has so far. NaN is unknown."""

    device: str
    metric: str
    unit: str
    # at the ends of what each value is of
    times: Numbers
    values: Numbers
    # s that each value is of; empty: since the one before it
    spans: Numbers = ()
    # Its times are a tool's own, of which nobody knows how they stand to the host's
    own_clock: bool = False

    @property
    def durations(self) -> Numbers:
        """Of the first one nobody knows what was before it: it is taken for as long as the second."""
        if len(self.spans) or not len(self.times):
            return self.spans
        times = np.asarray(self.times, dtype=np.float64)
        second = times[1] - times[0] if len(times) > 1 else times[0]
        return np.diff(times, prepend=times[0] - (min(times[0], second) or second))

    def shares_times(self, other: Track) -> bool:
        """True when both were sampled at the same times."""
        return self.times is other.times or np.array_equal(self.times, other.times)
