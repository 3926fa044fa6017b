# SPDX-License-Identifier: Apache-2.0
"""Weights for the mean of a wait or of a hit ratio: the requests that it is of. Only here. Pure.

A mean over time would let a second with one slow request count as much as one with a thousand fast ones; so weighted,
it is what the counters at both ends of the window give.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchlab.analysis.buckets import Floats, Numbers
from benchlab.charts.tracks import Track

HITS = ("read.hits", "read.misses", "write.hits", "write.misses")
# metric -> the rates (op/s) that together are its requests; those that a host does not have are left out
REQUEST_RATES: dict[str, tuple[str, ...]] = {
    "await": ("read.iops", "write.iops", "discard.iops"),
    "hit_ratio": HITS,
    "read.hit_ratio": HITS[:2],
    "write.hit_ratio": HITS[2:],
    "arc.hit_ratio": ("arc.hits", "arc.misses"),
    "l2arc.hit_ratio": ("l2arc.hits", "l2arc.misses"),
    "zpool.read.wait": ("zpool.read.iops",),
    "zpool.write.wait": ("zpool.write.iops",),
}


def request_weights(track: Track, of_device: Mapping[str, Track]) -> Numbers:
    """Of each of its values: requests, where all are known, else seconds."""
    requests = _request_counts(track, of_device)
    return track.durations if requests is None else requests


def mean_across_gaps(track: Track, of_device: Mapping[str, Track]) -> float | None:
    """Mean wait (s) where one is unknown though requests were counted: those in flight over their rate (Little's law).

    The mean of the others would be of requests whose time came in the gap. None where there is no such gap, or nobody
    knows how many were in flight.
    """
    requests, queue = _request_counts(track, of_device), of_device.get("queue")
    if (
        track.metric != "await"
        or requests is None
        or queue is None
        or not track.shares_times(queue)
    ):
        return None
    if not (np.isnan(np.asarray(track.values, dtype=float)) & (requests > 0)).any():
        return None
    waited = np.asarray(queue.values, dtype=float) * np.asarray(track.durations, dtype=float)
    is_known = ~np.isnan(waited) & ~np.isnan(requests)
    return float(waited[is_known].sum() / requests[is_known].sum())


def _request_counts(track: Track, of_device: Mapping[str, Track]) -> Floats | None:
    """Number of requests behind each of its values; None where that is not known."""
    metrics = REQUEST_RATES.get(track.metric, ())
    rates = [of_device[name] for name in metrics if name in of_device]
    if not rates or not all(map(track.shares_times, rates)):
        return None
    together = np.sum([np.asarray(rate.values, dtype=float) for rate in rates], axis=0)
    counts: Floats = together * np.asarray(track.durations, dtype=float)
    return counts
