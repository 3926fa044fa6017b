# SPDX-License-Identifier: Apache-2.0
"""fio's histogram bins as they are kept: so few that a run's are some kB, each of them whole bins of fio's. Pure.

fio's bins are 64 to each power of two, from 128 units on; below, each unit is one. Merged they are so many to a power
of two, nearly equally wide on a logarithmic axis, and none of fio's is split: at the edge of a bin the share of the
I/Os below it is fio's own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping
from functools import cache, lru_cache

from agents.contracts import Histogram
from agents.outputs.fio_log import GROUP_BITS
from agents.outputs.fio_model import Latencies, parse_number

MOST = 200
# tried in this order, until there are few enough
PER_DOUBLING = (32, 16, 8, 4, 2, 1)
_SUBS = 1 << GROUP_BITS

# Where it begins -> (where it ends, I/Os), in the units that fio printed
Bins = dict[int, tuple[int, int]]


def histogram(
    name: str, latencies: Latencies, labels: Mapping[str, str] | None = None
) -> Histogram:
    """Histogram of at most MOST bins, none empty, with all that fio counted. Raises ParseError."""
    bins = _printed(latencies.bins)
    for many in PER_DOUBLING:
        if len(bins) <= MOST:
            break
        # a coarser cut is among those of the finer
        bins = _merged(bins, many)
    lows, scale = sorted(bins), latencies.bins_per_second
    ends = [bins[low][0] / scale for low in lows]
    # fio's last bin takes whatever took longer
    if ends and latencies.high >= ends[-1]:
        ends[-1] = latencies.high + 1 / scale
    return Histogram(
        name,
        tuple(low / scale for low in lows),
        tuple(ends),
        tuple(bins[low][1] for low in lows),
        labels or {},
    )


def _printed(hits_by_name: Mapping[str, int]) -> Bins:
    """Bins by the middle that fio names each by. Rounded ones that fall into the same bin are added up."""
    bins: Bins = {}
    for text, hits in hits_by_name.items():
        if hits:
            low, end = _bin_span(text)
            bins[low] = end, hits + bins.get(low, (end, 0))[1]
    return bins


# fio has 1,856 bins, and an upload may have thousands of results.
@lru_cache(maxsize=4096)
def _bin_span(middle: str) -> tuple[int, int]:
    """Start and end of the bin of that name."""
    value = int(parse_number(middle, "bins"))
    if value < 2 * _SUBS:
        return value, value + 1
    bits = value.bit_length() - 1 - GROUP_BITS
    low = value >> bits << bits
    return low, low + (1 << bits)


def _merged(bins: Bins, many: int) -> Bins:
    """Bins merged to at most `many` for each power of two."""
    ends: dict[int, int] = {}
    counts: defaultdict[int, int] = defaultdict(int)
    for low, (_, hits) in bins.items():
        begin, end = _merged_bin(low, many)
        ends[begin] = end
        counts[begin] += hits
    return {low: (ends[low], counts[low]) for low in ends}


@lru_cache(maxsize=16384)
def _merged_bin(low: int, many: int) -> tuple[int, int]:
    """Start and end of the merged bin that holds the one from there on."""
    if low < _SUBS:
        # fewer to a power of two than fio has elsewhere
        return low, low + 1
    bits = low.bit_length() - 1
    cuts = _cuts(many)
    at = bisect_right(cuts, ((low - (1 << bits)) << GROUP_BITS) >> bits) - 1
    begin, end = cuts[at : at + 2]
    return (_SUBS + begin) << bits >> GROUP_BITS, (_SUBS + end) << bits >> GROUP_BITS


@cache
def _cuts(many: int) -> tuple[int, ...]:
    """First of a power of two's 64 parts in each merged bin, then 64: those of a coarser cut are among them."""
    return (*(round(_SUBS * (2 ** (at / many) - 1)) for at in range(many)), _SUBS)
