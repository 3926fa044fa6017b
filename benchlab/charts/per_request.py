"""What the mean of a wait or of a hit ratio is weighted by: the requests that it is of. Only here. Pure.

A mean over time would let a second with one slow request count as much as one with a thousand fast ones; so weighted,
it is what the counters at both ends of the window give.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchlab.analysis.buckets import Numbers
from benchlab.charts.tracks import Track

HITS = ("read.hits", "read.misses", "write.hits", "write.misses")
# metric -> the rates (op/s) that together are its requests; those that a host does not have are left out
OF: dict[str, tuple[str, ...]] = {
    "await": ("read.iops", "write.iops", "discard.iops"),
    "hit_ratio": HITS,
    "read.hit_ratio": HITS[:2],
    "write.hit_ratio": HITS[2:],
    "arc.hit_ratio": ("arc.hits", "arc.misses"),
    "l2arc.hit_ratio": ("l2arc.hits", "l2arc.misses"),
    "zpool.read.wait": ("zpool.read.iops",),
    "zpool.write.wait": ("zpool.write.iops",),
}


def weights(track: Track, of_device: Mapping[str, Track]) -> Numbers:
    """Of each of its values: requests, where all are known, else seconds."""
    wanted = OF.get(track.metric, ())
    rates = [of_device[name] for name in wanted if name in of_device]
    if not rates or not all(map(track.beside, rates)):
        return track.lengths
    together = np.sum([np.asarray(one.values, dtype=float) for one in rates], axis=0)
    found: Numbers = together * np.asarray(track.lengths, dtype=float)
    return found
