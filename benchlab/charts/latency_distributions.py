# SPDX-License-Identifier: Apache-2.0
"""Distributions of latency: stored histograms and percentiles, as curves, sentences, tables and CSV."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchlab.analysis.latency_bins import Bins, cell_edge, count_cells
from benchlab.runs.models import Attempt, Histogram, Measurement
from benchlab.web.texts import csv_lines
from benchlab.web.units import format_share, si

DIRECTION_WORDS = {
    "": "I/Os",
    "read": "Reads",
    "write": "Writes",
    "trim": "Trims",
    "sync": "Flushes",
}
# The first of them that there is anything of. sysbench's events are I/Os with flushes among them.
KIND_WORDS = {
    "lat": "total latency",
    "clat": "completion latency",
    "event": "time of an event",
    "slat": "submission latency",
}
# of the axis of a CDF's percent
PERCENT_SCALES = {"": "stretched towards 100 %", "even": "even"}
PERCENTILE = re.compile(r"\.p(\d{1,2}(?:\.\d{1,9})?)")
# percentiles, of which fewer are no curve
MIN_PERCENTILES = 2
MARKED_PERCENTILES = {50.0: "p50", 99.0: "p99", 99.9: "p99.9"}

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class StoredHistogram:
    """A stored histogram. `labels`: of a group of jobs; () of all."""

    name: str
    labels: Labels
    bins: Bins


@dataclass(frozen=True, slots=True)
class StoredFigure:
    """A stored figure in seconds."""

    name: str
    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class LatencyCurve:
    """One direction. `ranks`: percent -> s, as the tool's figures have them; without `bins` they are all there is."""

    name: str
    # of KINDS
    kind: str
    ranks: Mapping[float, float] = field(default_factory=dict)
    bins: Bins | None = None

    @property
    def marked_percentiles(self) -> dict[float, float]:
        """{percent: s} of those that a chart marks; where no figure tells one, the end of the bin that it is in."""
        marks = {}
        for percent in MARKED_PERCENTILES:
            if percent in self.ranks:
                marks[percent] = self.ranks[percent]
            elif self.bins is not None:
                marks[percent] = self.bins.percentile_bin(percent)[1]
        return marks


def build_curves(
    counted: Sequence[StoredHistogram], stored: Iterable[StoredFigure]
) -> list[LatencyCurve]:
    """Reads, writes, trims and flushes, each by the first kind of latency that is known; both together only of a tool
    that tells no direction apart. Groups of jobs come one after the other."""
    figures: dict[Labels, dict[str, float]] = {}
    for figure in stored:
        figures.setdefault(figure.labels, {})[figure.name] = figure.value
    labels = dict.fromkeys([*(histogram.labels for histogram in counted), *figures])
    curves: list[LatencyCurve] = []
    for label in sorted(labels):
        bins = {
            histogram.name: histogram.bins for histogram in counted if histogram.labels == label
        }
        values = figures.get(label, {})
        apart = [
            c for d in DIRECTION_WORDS if d and (c := _direction_curve(d, label, bins, values))
        ]
        curves += apart or [c for c in [_direction_curve("", label, bins, values)] if c]
    return curves


def _direction_curve(
    direction: str, labels: Labels, bins: Mapping[str, Bins], values: Mapping[str, float]
) -> LatencyCurve | None:
    """None: nothing is known of it."""
    name = ", ".join([DIRECTION_WORDS[direction], *(f"{key} {value}" for key, value in labels)])
    bases = {kind: f"{direction}.{kind}" if direction else kind for kind in KIND_WORDS}
    for kind, base in bases.items():
        if base in bins:
            return LatencyCurve(name, kind, read_percentiles(base, values), bins[base])
    for kind, base in bases.items():
        if len(ranks := read_percentiles(base, values)) >= MIN_PERCENTILES:
            return LatencyCurve(name, kind, ranks)
    return None


def read_percentiles(base: str, values: Mapping[str, float]) -> dict[float, float]:
    """{percent: s} of "read.clat", rising."""
    percentiles = {
        float(match[1]): value
        for name, value in values.items()
        if name.startswith(f"{base}.p") and (match := PERCENTILE.fullmatch(name[len(base) :]))
    }
    return dict(sorted(percentiles.items()))


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
    """Read an attempt's curves. `measured` are its figures, if they are already read."""
    rows = attempt.measurements.all() if measured is None else measured
    stored = [
        StoredFigure(row.name, _sorted_labels(row.labels), row.value)
        for row in rows
        if row.value is not None and row.unit == "s"
    ]
    return build_curves(read_histograms([attempt.pk])[attempt.pk], stored)


def _sorted_labels(labels: dict[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


CSV_HEAD = ("latency", "labels", "from (s)", "below (s)", "I/Os")
PERCENTILE_WORDS = {50.0: "half", 99.0: "99 %", 99.9: "99.9 %"}


@dataclass(frozen=True, slots=True)
class PercentileRow:
    """One percentile; a cell for each curve, None where it was not told (s)."""

    title: str
    cells: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class BinCell:
    """`share` in percent, of the I/Os that took so long; `below` took less than the row's end, `of` all."""

    count: int
    share: float
    below: int
    total: int

    @property
    def cumulative_share(self) -> str:
        return format_share(self.below / self.total)


@dataclass(frozen=True, slots=True)
class BinRow:
    """The latencies from `low` up to, but not including, `high` (s), with a cell for each curve that has counts."""

    low: float
    high: float
    cells: tuple[BinCell, ...]


def curve_sentence(curve: LatencyCurve) -> str:
    """ "Reads: half within 94.7 µs, 99 % within 2.9 ms"."""
    parts = [
        f"{PERCENTILE_WORDS[percent]} within {si(at, 's')}"
        for percent, at in curve.marked_percentiles.items()
    ]
    return f"{curve.name}: {', '.join(parts)}." if parts else ""


def percentile_rows(curves: Sequence[LatencyCurve]) -> list[PercentileRow]:
    every = sorted({percent for curve in curves for percent in curve.ranks})
    return [PercentileRow(f"p{p:g}", tuple(curve.ranks.get(p) for curve in curves)) for p in every]


def bin_rows(curves: Sequence[LatencyCurve]) -> list[BinRow]:
    """Rows as the histogram's bars: those in which any curve has an I/O."""
    counted = [
        (count_cells(curve.bins), curve.bins.total) for curve in curves if curve.bins is not None
    ]
    below = [0] * len(counted)
    rows = []
    for cell in sorted(set().union(*(hits for hits, _ in counted))):
        below = [so_far + hits[cell] for so_far, (hits, _) in zip(below, counted, strict=True)]
        row_cells = tuple(
            BinCell(hits[cell], 100 * hits[cell] / total, so_far, total)
            for so_far, (hits, total) in zip(below, counted, strict=True)
        )
        rows.append(BinRow(cell_edge(cell), cell_edge(cell + 1), row_cells))
    return rows


def histogram_csv(histograms: Iterable[StoredHistogram]) -> Iterator[str]:
    """Return every bin as stored."""
    return csv_lines(CSV_HEAD, _histogram_rows(histograms))


def _histogram_rows(histograms: Iterable[StoredHistogram]) -> Iterator[tuple[object, ...]]:
    for histogram in histograms:
        labels = " ".join(f"{key}={value}" for key, value in histogram.labels)
        for low, high, count in zip(
            histogram.bins.lows, histogram.bins.highs, histogram.bins.counts, strict=True
        ):
            yield histogram.name, labels, low, high, count
