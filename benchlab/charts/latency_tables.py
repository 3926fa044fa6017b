# SPDX-License-Identifier: Apache-2.0
"""Contents of the charts of latencies as sentences, as rows of tables, and as CSV. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from benchlab.analysis.latency_bins import cell_edge, count_cells
from benchlab.charts.latency_curves import LatencyCurve, StoredHistogram
from benchlab.web.spreadsheets import csv_lines
from benchlab.web.units import format_share, si

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
    """From `low` on and below `high` (s); a cell for each curve that was counted."""

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
    """As the histogram's bars: those in which any curve has an I/O."""
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
    """Every bin as it is kept."""
    return csv_lines(CSV_HEAD, _histogram_rows(histograms))


def _histogram_rows(histograms: Iterable[StoredHistogram]) -> Iterator[tuple[object, ...]]:
    for histogram in histograms:
        labels = " ".join(f"{key}={value}" for key, value in histogram.labels)
        for low, high, count in zip(
            histogram.bins.lows, histogram.bins.highs, histogram.bins.counts, strict=True
        ):
            yield histogram.name, labels, low, high, count
