# SPDX-License-Identifier: Apache-2.0
"""Span and resolution of a chart over a run's time: who zooms in gets what the whole was too long for. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from benchlab.analysis.buckets import Floats, bucket_samples, samples_per_bucket
from benchlab.charts.tracks import Track
from benchlab.runs.strips import MetricRows, SampledSeries, group_by_clock, metric_rows

# of a panel; more points than twice this in one line cannot be seen
DEFAULT_PIXELS = 500
# that anybody's screen may ask for
MIN_PIXELS, MAX_PIXELS = 100, 2000


@dataclass(frozen=True, slots=True)
class Span:
    """Seconds since the first sample; `pixels` is a panel's width."""

    start: float = -math.inf
    end: float = math.inf
    pixels: int = DEFAULT_PIXELS

    def slice_samples(self, times: Floats) -> tuple[slice, int]:
        """(which samples, how many of them to a bucket): whole buckets, which stay the same when somebody pans.

        With one sample before and one behind: a line goes on to the edge of its panel.
        """
        first = max(0, int(np.searchsorted(times, self.start)) - 1)
        last = min(len(times), int(np.searchsorted(times, self.end, "right")) + 1)
        every = samples_per_bucket(last - first, self.pixels)
        return slice(first // every * every, min(len(times), -(-last // every) * every)), every


WHOLE_SPAN = Span()


def rows_from_tracks(tracks: Iterable[Track], span: Span = WHOLE_SPAN) -> list[MetricRows]:
    """As finely as `span` is seen."""
    return [
        narrow_rows(metric_rows(group), span) for group in group_by_clock(map(_as_sampled, tracks))
    ]


def _as_sampled(track: Track) -> SampledSeries:
    times, values = (
        np.asarray(numbers, dtype=np.float64) for numbers in (track.times, track.values)
    )
    return SampledSeries("", track.device, track.metric, track.unit, times, values)


def narrow_rows(rows: MetricRows, span: Span) -> MetricRows:
    """Of rows by sample. What is known of the whole stays."""
    part, every = span.slice_samples(rows.buckets.times)
    inside = bucket_samples(rows.buckets.times[part], rows.buckets.low[:, part])
    return replace(rows, buckets=inside.coarser(every))
