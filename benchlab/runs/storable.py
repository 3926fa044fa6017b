# SPDX-License-Identifier: Apache-2.0
"""Figures as the database takes them: what a host's tool called them is cleaned, what cannot be is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import nan

from agents.contracts import Histogram, Metric, ParseError, Series
from agents.plaintext import visible

# characters, as runs.models has them
NAME_MAX, DEVICE_MAX, LABEL_MAX = 100, 255, 1000
NOTE_MAX = 8000
# In base units no figure is beyond these, and what divides or squares two of them stays a number.
LEAST, GREATEST = 1e-30, 1e30


def storable_metrics(metrics: Iterable[Metric]) -> list[Metric]:
    """Metrics with plain labels and notes, and without values that nothing can have.

    Raises ParseError for a name too long, or one that comes twice.
    """
    clean = [
        replace(
            m, name=visible(m.name), labels=_clean_labels(m.labels), note=visible(m.note, NOTE_MAX)
        )
        for m in map(_possible_metric, metrics)
    ]
    for metric in clean:
        _check_length(metric.name, NAME_MAX, "figure")
    _check_unique(((metric.name, *sorted(metric.labels.items())) for metric in clean), "figure")
    return clean


def storable_histograms(histograms: Iterable[Histogram]) -> list[Histogram]:
    """Histograms with plain labels, without those that counted nothing."""
    clean = [
        replace(histogram, name=visible(histogram.name), labels=_clean_labels(histogram.labels))
        for histogram in histograms
        if histogram.counts
    ]
    for histogram in clean:
        _check_length(histogram.name, NAME_MAX, "histogram")
    _check_unique(
        ((histogram.name, *sorted(histogram.labels.items())) for histogram in clean), "histogram"
    )
    return clean


def storable_series(named_series: Iterable[tuple[str, Series]]) -> list[tuple[str, Series]]:
    """Cleaned pairs of sampler and series."""
    clean = [
        (kind, replace(series, device=visible(series.device), values=_finite_values(series.values)))
        for kind, series in named_series
    ]
    for _, series in clean:
        _check_length(series.device, DEVICE_MAX, "device")
    _check_unique(((kind, series.device, series.metric) for kind, series in clean), "series")
    return clean


def _possible_metric(metric: Metric) -> Metric:
    value = metric.value
    if value is None or value == 0 or LEAST <= abs(value) <= GREATEST:
        return metric
    message = f"{value:g} {metric.unit.value} was printed, which nothing can have"
    return replace(metric, value=None, note=f"{message}. {metric.note}".removesuffix(". "))


def _finite_values(values: Sequence[float]) -> tuple[float, ...]:
    """Replace values that no device has by NaN."""
    if all(abs(value) <= GREATEST for value in values):
        return tuple(values)
    return tuple(value if abs(value) <= GREATEST else nan for value in values)


def _clean_labels(labels: Mapping[str, str]) -> dict[str, str]:
    return {visible(name, LABEL_MAX): visible(value, LABEL_MAX) for name, value in labels.items()}


def _check_length(name: str, most: int, what: str) -> None:
    if len(name) > most:
        raise ParseError(f"the name of a {what} is {len(name)} characters long: {name[:60]!r}")


def _check_unique(keys: Iterable[Hashable], what: str) -> None:
    key, times = next(iter(Counter(keys).most_common(1)), ("", 1))
    if times > 1:
        raise ParseError(f"the same {what} comes {times} times: {str(key)[:200]}")
