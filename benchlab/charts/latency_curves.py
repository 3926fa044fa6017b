# SPDX-License-Identifier: Apache-2.0
"""Distributions of latency as curves: what a tool counted in bins, or else the percentiles that it told. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from benchlab.analysis.latency_bins import Bins

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
