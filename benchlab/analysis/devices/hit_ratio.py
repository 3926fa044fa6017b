# SPDX-License-Identifier: Apache-2.0
"""Hit ratio of a cache over what was measured: from its own counters, or from the bytes of the disks under it.

A mean of the ratios of seconds would let a second with one request count as much as one with a thousand: so all hits
are held against all requests, as the counters at both ends of the window would.
"""

from __future__ import annotations

import numpy as np

from benchlab.analysis.buckets import Numbers

# B/s read from cache and backing disks together
LEAST = 1024.0


def request_hit_ratio(hits: Numbers, misses: Numbers, lengths: Numbers) -> float | None:
    """Share of requests that hit the cache; None if there were none, or nothing is known.

    `hits`, `misses`: op/s in each interval of `lengths` s; an interval in which one is unknown is left out.
    """
    hit_rates, miss_rates, spans = (
        np.asarray(column, dtype=float) for column in (hits, misses, lengths)
    )
    is_known = ~np.isnan(hit_rates) & ~np.isnan(miss_rates) & (spans > 0)
    requests = float(np.sum((hit_rates[is_known] + miss_rates[is_known]) * spans[is_known]))
    return float(np.sum(hit_rates[is_known] * spans[is_known])) / requests if requests > 0 else None


def byte_hit_ratio(cache: float, backing: float) -> float | None:
    """Share of the bytes read (B/s of all cache disks, of all backing disks) that came from the cache.

    Only reads count: writes to a cache do not show hits, as misses are copied into it. What the cache reads by itself,
    to write back, counts as hits, and what it fetches beyond the request as misses.
    """
    together = cache + backing
    return cache / together if together >= LEAST else None
