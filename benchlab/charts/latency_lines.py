# SPDX-License-Identifier: Apache-2.0
"""The CDFs of several lines over each other, at one depth: the I/Os of all repeats together. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from benchlab.analysis.curves import median_of
from benchlab.analysis.latency_bins import Bins, merge_bins
from benchlab.charts import figure, latency_shares
from benchlab.charts.chart_options import OPERATIONS, Choice
from benchlab.charts.curve import run_url
from benchlab.charts.figure import Figure
from benchlab.charts.latency_curves import (
    KIND_WORDS,
    MIN_PERCENTILES,
    LatencyCurve,
    StoredHistogram,
    read_percentiles,
)
from benchlab.charts.latency_shares import STEPS_NOTE, DrawnCurve
from benchlab.charts.queries import Group, Sample, line_labels, line_styles

DIRECTIONS = ("read", "write", "trim")


def has_cdf(names: Collection[str]) -> bool:
    """True when runs that told these figures have a CDF."""
    values = dict.fromkeys(names, 0.0)
    bases = [f"{op}.{kind}" if op else kind for op in ("", *DIRECTIONS) for kind in KIND_WORDS]
    return any(len(read_percentiles(base, values)) >= MIN_PERCENTILES for base in bases)


def cdf_depths(groups: Iterable[Group]) -> list[int]:
    """At which a CDF may be asked for; [] of lines without any."""
    return sorted(
        {sample.outstanding for line in groups for sample in line.samples if sample.outstanding}
    )


def build_cdf_figure(
    title: str,
    groups: Sequence[Group],
    choice: Choice,
    counted: Mapping[int, Sequence[StoredHistogram]],
) -> Figure:
    """`counted`: {attempt: its histograms}. All lines have one kind of latency, or they would not compare: the one that
    is asked for where any has its percentiles."""
    what = f" of {OPERATIONS[choice.operation]}" if choice.operation else ""
    where = f", {choice.depth} outstanding" if choice.depth else ""
    at = [
        [sample for sample in line.samples if sample.outstanding == choice.depth] for line in groups
    ]
    for kind in dict.fromkeys([*filter(None, [choice.kind]), *KIND_WORDS]):
        curves = [
            _pooled_curve(name, samples_of_line, kind, choice, counted)
            for name, samples_of_line in _labelled_samples(groups, at)
        ]
        drawn = [
            DrawnCurve(curve, style, run_url(samples[0].run))
            for curve, style, samples in zip(curves, line_styles(groups), at, strict=True)
            if curve is not None
        ]
        if drawn:
            word = latency_shares.latency_kind_text(drawn_curve.curve for drawn_curve in drawn)
            head = f"{word}{what}: I/Os that took less{where} · {title}"
            return latency_shares.build_cdf_lines(head, drawn, _cdf_subtitle(drawn, at))
    return figure.empty_figure(title, f"No percentiles of latency{what} were told here{where}.")


def _labelled_samples(
    groups: Sequence[Group], at: Sequence[list[Sample]]
) -> Iterable[tuple[str, list[Sample]]]:
    return zip(line_labels(groups), at, strict=True)


def _cdf_subtitle(drawn: Sequence[DrawnCurve], at: Sequence[list[Sample]]) -> str:
    most = max(map(len, at), default=0)
    stepped = [curve.curve.name for curve in drawn if curve.curve.bins is None]
    parts = []
    if len(stepped) < len(drawn):
        repeats = f"The I/Os of up to {most} repeats together" if most > 1 else "One run each"
        parts.append(
            f"{repeats}, counted in bins; a mark is where the bin of p50, p99, p99.9 ends."
        )
    if stepped:
        names = ", ".join(stepped) if len(stepped) < len(drawn) else "Medians of repeats"
        parts.append(f"{names}: {STEPS_NOTE}.")
    return " ".join(parts)


def _pooled_curve(
    name: str,
    samples: Sequence[Sample],
    kind: str,
    choice: Choice,
    counted: Mapping[int, Sequence[StoredHistogram]],
) -> LatencyCurve | None:
    """None: these runs told nothing of it."""
    bins = [
        pooled
        for sample in samples
        for pooled in _matching_bins(counted.get(sample.attempt, ()), kind, choice)
    ]
    # whose percentiles are not the repeats' medians: marks are to lie on the curve
    if bins:
        return LatencyCurve(name, kind, {}, bins[0] if len(bins) == 1 else merge_bins(bins))
    ranks = _median_percentiles(samples, kind, choice)
    return LatencyCurve(name, kind, ranks) if len(ranks) >= MIN_PERCENTILES else None


def _matching_bins(histograms: Iterable[StoredHistogram], kind: str, choice: Choice) -> list[Bins]:
    """Of one direction, or of each: both are I/Os."""
    names = {f"{op}.{kind}" for op in ((choice.operation,) if choice.operation else DIRECTIONS)}
    if not choice.operation:
        names.add(kind)
    return [
        histogram.bins
        for histogram in histograms
        if not histogram.labels and histogram.name in names
    ]


def _median_percentiles(samples: Sequence[Sample], kind: str, choice: Choice) -> dict[float, float]:
    """{percent: median of the repeats} of what all of them told."""
    names = {name for sample in samples for name in sample.values if f"{kind}.p" in name}
    plain = {name[name.index(f"{kind}.p") :]: 0.0 for name in names}
    percentiles = {}
    for percent in read_percentiles(kind, plain):
        values = [choice.read_value(f"{kind}.p{percent:g}", sample.values) for sample in samples]
        stated = [value for value in values if value is not None]
        if stated and len(stated) == len(values):
            percentiles[percent] = median_of(stated)
    return percentiles
