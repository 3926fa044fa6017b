# SPDX-License-Identifier: Apache-2.0
"""The history of one set-up: what its runs measured over time, where that changed, and which runs stand out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from benchlab.analysis.changes import (
    ENOUGH_AFTER,
    SAME,
    Change,
    Unusual,
    find_changes,
    find_unusual,
)
from benchlab.campaigns.models import Run
from benchlab.charts import naming
from benchlab.charts.queries import Person
from benchlab.charts.set_ups import attempts_like
from benchlab.runs.models import Attempt, Measurement
from benchlab.runs.states import Outcome


@dataclass(frozen=True, slots=True)
class HistoryRun:
    """One run of a history. `build`: the layout it ran on; `part`: of what was let go, in words."""

    run: int
    at: datetime
    campaign: int
    campaign_name: str
    repeat: int
    build: int
    value: float
    ignored_value: str


@dataclass(frozen=True, slots=True)
class History:
    """Runs in the order of time; values in the metric's base unit. `left_out`: runs without a value above 0."""

    metric: str
    unit: str
    ignored_part: str = ""
    metrics: tuple[str, ...] = ()
    runs: tuple[HistoryRun, ...] = ()
    changes: tuple[Change, ...] = ()
    unusual: tuple[Unusual, ...] = ()
    runs_without_value: int = 0
    # that it is the history of
    attempt: Attempt | None = field(default=None, compare=False)

    @property
    def builds(self) -> int:
        return len({run.build for run in self.runs})

    @property
    def history_changes(self) -> list[HistoryChange]:
        return [self._describe_change(change) for change in self.changes]

    def _describe_change(self, change: Change) -> HistoryChange:
        since = len(self.runs) - change.at
        return HistoryChange(
            change, self.runs[change.at], since, self._ignored_change_near(change.at)
        )

    def _ignored_change_near(self, at: int) -> tuple[str, str] | None:
        """Change of what was let go about there (before, after): by noise a change is found a run or two beside where
        it is.
        """
        near = range(max(1, at - SAME), min(len(self.runs), at + SAME + 1))
        for n in sorted(near, key=lambda n: abs(n - at)):
            before, after = self.runs[n - 1].ignored_value, self.runs[n].ignored_value
            if before != after:
                return before, after
        return None


@dataclass(frozen=True, slots=True)
class HistoryChange:
    """A change in words. `since`: runs from it on; `moved`: what was let go, where that changed about there."""

    change: Change
    first: HistoryRun
    runs_since: int
    ignored_change: tuple[str, str] | None

    @property
    def change_percent(self) -> int:
        return round(abs(self.change.ratio - 1) * 100)

    @property
    def direction(self) -> str:
        return "higher" if self.change.ratio > 1 else "lower"

    @property
    def missing_runs(self) -> int:
        """Least number of runs that are missing until it can be confirmed."""
        return max(0, ENOUGH_AFTER - self.runs_since)


def read_history(user: Person, run: Run, metric: str = "", let_go: str = "") -> History:
    """Of what `user` may see; without a metric the one that pages show first. Empty where nothing succeeded."""
    attempt = (
        run.attempts.filter(outcome=Outcome.SUCCEEDED)
        .select_related("run", "layout", "facts")
        .order_by("-number")
        .first()
    )
    if attempt is None:
        return History(metric, "1", let_go)
    units = _metric_units(attempt)
    metrics = [
        name
        for name in naming.order_choices(list(units), run.tool, bool(run.outstanding))
        if name in units
    ]
    chosen = metric or (metrics[0] if metrics else "iops")
    attempts, parts = attempts_like(user, attempt, let_go)
    values = _values_by_attempt([row.pk for row in attempts], chosen)
    runs = tuple(
        _history_run(row, values[row.pk], parts.get(row.fingerprint, ""))
        for row in attempts
        if values.get(row.pk, 0) > 0
    )
    numbers = [past_run.value for past_run in runs]
    steps = find_changes(numbers, [past_run.build for past_run in runs])
    return History(
        chosen,
        units.get(chosen, "1"),
        let_go,
        tuple(metrics),
        runs,
        tuple(steps),
        tuple(find_unusual(numbers, steps)),
        len(attempts) - len(runs),
        attempt,
    )


def _metric_units(attempt: Attempt) -> dict[str, str]:
    rows = attempt.measurements.filter(labels={}, value__isnull=False).order_by("pk")
    return dict(rows.values_list("name", "unit"))


def _values_by_attempt(attempts: Sequence[int], metric: str) -> dict[int, float]:
    rows: Any = Measurement.objects.filter(
        attempt__in=attempts, name=metric, labels={}, value__isnull=False
    )
    return dict(rows.values_list("attempt", "value"))


def _history_run(attempt: Attempt, value: float, part: str) -> HistoryRun:
    run = attempt.run
    return HistoryRun(
        run.pk,
        vars(attempt)["at"],
        run.campaign_id,
        run.campaign.name,
        run.repeat,
        attempt.layout_id,
        value,
        part,
    )
