# SPDX-License-Identifier: Apache-2.0
"""The history of one set-up: what its runs measured over time, where that changed, and which runs stand out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from benchlab.analysis.changes import ENOUGH_AFTER, SAME, Change, Unusual, changes, unusual
from benchlab.campaigns.models import Run
from benchlab.charts import naming
from benchlab.charts.queries import Person
from benchlab.charts.set_ups import runs_like
from benchlab.runs.models import Attempt, Measurement
from benchlab.runs.states import Outcome


@dataclass(frozen=True, slots=True)
class Past:
    """One run of a history. `build`: the layout it ran on; `part`: of what was let go, in words."""

    run: int
    at: datetime
    campaign: int
    campaign_name: str
    repeat: int
    build: int
    value: float
    part: str


@dataclass(frozen=True, slots=True)
class History:
    """Runs in the order of time; values in the metric's base unit. `left_out`: runs without a value above 0."""

    metric: str
    unit: str
    let_go: str = ""
    metrics: tuple[str, ...] = ()
    runs: tuple[Past, ...] = ()
    changes: tuple[Change, ...] = ()
    unusual: tuple[Unusual, ...] = ()
    left_out: int = 0
    # that it is the history of
    attempt: Attempt | None = field(default=None, compare=False)

    @property
    def builds(self) -> int:
        return len({one.build for one in self.runs})

    @property
    def steps(self) -> list[Step]:
        return [self._step(one) for one in self.changes]

    def _step(self, change: Change) -> Step:
        since = len(self.runs) - change.at
        return Step(change, self.runs[change.at], since, self._moved(change.at))

    def _moved(self, at: int) -> tuple[str, str] | None:
        """Change of what was let go about there (before, after): by noise a change is found a run or two beside where
        it is.
        """
        near = range(max(1, at - SAME), min(len(self.runs), at + SAME + 1))
        for n in sorted(near, key=lambda n: abs(n - at)):
            before, after = self.runs[n - 1].part, self.runs[n].part
            if before != after:
                return before, after
        return None


@dataclass(frozen=True, slots=True)
class Step:
    """A change in words. `since`: runs from it on; `moved`: what was let go, where that changed about there."""

    change: Change
    first: Past
    since: int
    moved: tuple[str, str] | None

    @property
    def percent(self) -> int:
        return round(abs(self.change.ratio - 1) * 100)

    @property
    def direction(self) -> str:
        return "higher" if self.change.ratio > 1 else "lower"

    @property
    def missing(self) -> int:
        """Least number of runs that are missing until it can be confirmed."""
        return max(0, ENOUGH_AFTER - self.since)


def history_of(user: Person, run: Run, metric: str = "", let_go: str = "") -> History:
    """Of what `user` may see; without a metric the one that pages show first. Empty where nothing succeeded."""
    attempt = (
        run.attempts.filter(outcome=Outcome.SUCCEEDED)
        .select_related("run", "layout", "facts")
        .order_by("-number")
        .first()
    )
    if attempt is None:
        return History(metric, "1", let_go)
    units = _units(attempt)
    known = [
        one for one in naming.ordered(list(units), run.tool, bool(run.outstanding)) if one in units
    ]
    chosen = metric or (known[0] if known else "iops")
    found, parts = runs_like(user, attempt, let_go)
    values = _values([one.pk for one in found], chosen)
    runs = tuple(
        _past(one, values[one.pk], parts.get(one.fingerprint, ""))
        for one in found
        if values.get(one.pk, 0) > 0
    )
    numbers = [one.value for one in runs]
    steps = changes(numbers, [one.build for one in runs])
    return History(
        chosen,
        units.get(chosen, "1"),
        let_go,
        tuple(known),
        runs,
        tuple(steps),
        tuple(unusual(numbers, steps)),
        len(found) - len(runs),
        attempt,
    )


def _units(attempt: Attempt) -> dict[str, str]:
    rows = attempt.measurements.filter(labels={}, value__isnull=False).order_by("pk")
    return dict(rows.values_list("name", "unit"))


def _values(attempts: Sequence[int], metric: str) -> dict[int, float]:
    rows: Any = Measurement.objects.filter(
        attempt__in=attempts, name=metric, labels={}, value__isnull=False
    )
    return dict(rows.values_list("attempt", "value"))


def _past(attempt: Attempt, value: float, part: str) -> Past:
    run = attempt.run
    return Past(
        run.pk,
        vars(attempt)["at"],
        run.campaign_id,
        run.campaign.name,
        run.repeat,
        attempt.layout_id,
        value,
        part,
    )
