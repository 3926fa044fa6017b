# SPDX-License-Identifier: Apache-2.0
"""Output that the line numbers of a run's figures refer to: shared by tools, each of which knows what it read."""

from __future__ import annotations

from collections.abc import Iterable

from agents.contracts import Metric


def lines_of(output: str, metrics: Iterable[Metric]) -> list[Metric]:
    """The same, their lines being those of that output."""
    return [
        Metric(
            metric.name, metric.value, metric.unit, metric.labels, metric.note, metric.line, output
        )
        if metric.line
        else metric
        for metric in metrics
    ]
