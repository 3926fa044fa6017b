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


def storable_metrics(found: Iterable[Metric]) -> list[Metric]:
    """The same with plain labels and notes, and without values that nothing can have. Raises ParseError for a name too
    long, or one that comes twice."""
    clean = [
        replace(
            m, name=visible(m.name), labels=_clean_labels(m.labels), note=visible(m.note, NOTE_MAX)
        )
        for m in map(_possible_metric, found)
    ]
    for one in clean:
        _check_length(one.name, NAME_MAX, "figure")
    _check_unique(((one.name, *sorted(one.labels.items())) for one in clean), "figure")
    return clean


def storable_histograms(found: Iterable[Histogram]) -> list[Histogram]:
    """Likewise; those that counted nothing are left out."""
    clean = [
        replace(one, name=visible(one.name), labels=_clean_labels(one.labels))
        for one in found
        if one.counts
    ]
    for one in clean:
        _check_length(one.name, NAME_MAX, "histogram")
    _check_unique(((one.name, *sorted(one.labels.items())) for one in clean), "histogram")
    return clean


def storable_series(found: Iterable[tuple[str, Series]]) -> list[tuple[str, Series]]:
    """(sampler, series), likewise."""
    clean = [
        (kind, replace(one, device=visible(one.device), values=_finite_values(one.values)))
        for kind, one in found
    ]
    for _, one in clean:
        _check_length(one.device, DEVICE_MAX, "device")
    _check_unique(((kind, one.device, one.metric) for kind, one in clean), "series")
    return clean


def _possible_metric(one: Metric) -> Metric:
    value = one.value
    if value is None or value == 0 or LEAST <= abs(value) <= GREATEST:
        return one
    said = f"{value:g} {one.unit.value} was printed, which nothing can have"
    return replace(one, value=None, note=f"{said}. {one.note}".removesuffix(". "))


def _finite_values(values: Sequence[float]) -> tuple[float, ...]:
    """NaN for what no device does."""
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
