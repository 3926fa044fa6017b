# SPDX-License-Identifier: Apache-2.0
"""Stored latencies of attempts (histograms and percentiles), read for charts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from benchlab.analysis.latency_bins import Bins
from benchlab.charts.latency_curves import (
    Labels,
    LatencyCurve,
    StoredFigure,
    StoredHistogram,
    build_curves,
)
from benchlab.runs.models import Attempt, Histogram, Measurement


def read_histograms(attempts: Iterable[int]) -> dict[int, list[StoredHistogram]]:
    """{attempt: its histograms}. One query."""
    histograms: dict[int, list[StoredHistogram]] = defaultdict(list)
    for row in Histogram.objects.filter(attempt__in=list(attempts)).order_by("attempt_id", "pk"):
        bins = Bins(tuple(row.lows), tuple(row.highs), tuple(row.counts))
        histograms[row.attempt_id].append(
            StoredHistogram(row.name, _sorted_labels(row.labels), bins)
        )
    return histograms


def read_latency_curves(
    attempt: Attempt, measured: Sequence[Measurement] | None = None
) -> list[LatencyCurve]:
    """`measured`: its figures, where somebody has read them."""
    rows = attempt.measurements.all() if measured is None else measured
    stored = [
        StoredFigure(row.name, _sorted_labels(row.labels), row.value)
        for row in rows
        if row.value is not None and row.unit == "s"
    ]
    return build_curves(read_histograms([attempt.pk])[attempt.pk], stored)


def _sorted_labels(labels: dict[str, str]) -> Labels:
    return tuple(sorted(labels.items()))
