# SPDX-License-Identifier: Apache-2.0
"""Series of a test: the difference of each update to the one before. Pure."""

from __future__ import annotations

from agents.contracts import Series, Unit
from agents.dynamo import figures
from agents.dynamo.account import Measured
from agents.dynamo.figures import Figures


def update_series(test: Measured) -> list[Series]:
    """The series of a test; times are seconds since recording began. [] without updates."""
    whole: list[Figures] = []
    times: list[float] = []
    for update in test.updates:
        parts = [
            figures.target_figures(
                raw, (worker.last - worker.first) / test.rate.used, test.rate.used
            )
            for worker in update.workers
            for raw in worker.targets
            if worker.last > worker.first
        ]
        if parts:
            whole.append(figures.sum_figures(parts))
            times.append(max(update.received) - test.began)
    rows = (
        ("iops", Unit.OPS_PER_SECOND, [figures_then.combined.iops for figures_then in whole]),
        ("read.iops", Unit.OPS_PER_SECOND, [figures_then.reads.iops for figures_then in whole]),
        ("write.iops", Unit.OPS_PER_SECOND, [figures_then.writes.iops for figures_then in whole]),
        (
            "bandwidth",
            Unit.BYTES_PER_SECOND,
            [figures_then.combined.bandwidth for figures_then in whole],
        ),
        ("lat.mean", Unit.SECONDS, [_or_nan(figures_then.combined.mean) for figures_then in whole]),
        ("lat.max", Unit.SECONDS, [figures_then.combined.slowest for figures_then in whole]),
    )
    return [
        Series("", name, unit, tuple(times), tuple(values)) for name, unit, values in rows if times
    ]


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
