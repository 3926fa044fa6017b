# SPDX-License-Identifier: Apache-2.0
"""Runs of one set-up over time, where their level changed, and which runs stand out.

Runs belong together whose fingerprints are equal, or equal in all but one part. A fingerprint is a hash. To ignore
one part, the runs that did the same on the same stack of the same host are read, and for each of their fingerprints
the parts are made again from what is stored (facts, plan, tool's version). A part that one source stated and the
other did not is not equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce

from benchlab.analysis.changes import (
    ENOUGH_AFTER,
    SAME,
    Change,
    Unusual,
    find_changes,
    find_unusual,
)
from benchlab.campaigns.models import Run
from benchlab.charts import metric_naming
from benchlab.charts.conditions import describe_device
from benchlab.charts.device_stacks import iterate_claims
from benchlab.charts.queries import Person
from benchlab.hosts.models import FactSnapshot
from benchlab.runs import attempt_meta
from benchlab.runs.models import Attempt, Layout, Measurement
from benchlab.runs.states import Outcome

# What may be let go, and its name on pages; all else a history holds on to.
FINGERPRINT_PARTS = {
    "kernel": "Kernel",
    "firmware": "Firmware of the disks",
    "tool": "Tool version",
    "scheduler": "I/O scheduler",
}
# runs of a history, the last ones
MAX_HISTORY_RUNS = 1000
HISTORY_COLUMNS = (
    "run_id",
    "layout_id",
    "fingerprint",
    "facts_id",
    "tool_version",
    "started_at",
    "ended_at",
    "created_at",
    "run__campaign_id",
    "run__campaign__name",
    "run__repeat",
)


def attempts_like(
    user: Person, reference: Attempt, let_go: str = ""
) -> tuple[Sequence[Attempt], dict[str, str]]:
    """(attempts that `user` may see, oldest first; {fingerprint: the part that was let go, in words}).

    Of each run its last attempt that succeeded; at most MOST runs. `reference` is one whose run and layout are loaded.
    """
    if not reference.fingerprint:
        return [], {}
    if not let_go:
        return _last_attempts(
            _succeeded_attempts(user).filter(fingerprint=reference.fingerprint)
        ), {}
    candidates = _same_work(user, reference)
    equal = _equal_except(let_go, reference, candidates)
    return _last_attempts(candidates.filter(fingerprint__in=list(equal))), equal


def _succeeded_attempts(user: Person) -> QuerySet[Attempt]:
    return Attempt.objects.visible_to(user).filter(outcome=Outcome.SUCCEEDED)


def _same_work(user: Person, reference: Attempt) -> QuerySet[Attempt]:
    """Attempts that are equal in the columns of a fingerprint: the same on the same stack, at the same moment, in
    order.
    """
    run, layout = reference.run, reference.layout
    return _succeeded_attempts(user).filter(
        degraded=reference.degraded,
        run__host=run.host_id,
        run__tool=run.tool,
        run__stage=run.stage,
        run__options=run.options,
        layout__stack=layout.stack,
        layout__stages=layout.stages,
    )


def _last_attempts(attempts: QuerySet[Attempt]) -> Sequence[Attempt]:
    newest = attempts.order_by("run_id", "-number").distinct("run_id").values("pk")
    rows = (
        Attempt.objects.filter(pk__in=newest)
        .annotate(at=Coalesce("started_at", "ended_at", "created_at"))
        .select_related("run__campaign")
        .only(*HISTORY_COLUMNS)
        .order_by(F("at").desc(), "-pk")[:MAX_HISTORY_RUNS]
    )
    return list(rows)[::-1]


def _equal_except(let_go: str, reference: Attempt, candidates: QuerySet[Attempt]) -> dict[str, str]:
    """{fingerprint: that part in words} of those that are equal in all others."""
    each = list(
        candidates.exclude(fingerprint="")
        .order_by("fingerprint", "-pk")
        .distinct("fingerprint")
        .select_related("layout", "facts")
        .only("fingerprint", "tool_version", "meta", "layout__plan", "facts__facts")
    )
    reference_parts = fingerprint_parts(reference, reference.layout, reference.facts)
    parts_by_fingerprint = {
        attempt.fingerprint: fingerprint_parts(attempt, attempt.layout, attempt.facts)
        for attempt in each
    }
    parts_by_fingerprint[reference.fingerprint] = reference_parts
    return {
        digest: parts[let_go]
        for digest, parts in parts_by_fingerprint.items()
        if all(parts[name] == reference_parts[name] for name in reference_parts if name != let_go)
    }


def fingerprint_parts(
    attempt: Attempt, layout: Layout, facts: FactSnapshot | None
) -> dict[str, str]:
    """Return the parts of a fingerprint that no column holds, in words; "" if unknown."""
    active = attempt_meta.facts_during_attempt(facts.facts if facts else {}, attempt.meta)
    devices = {
        identity: describe_device(active, claim) for identity, claim in iterate_claims(layout.plan)
    }
    return {
        "kernel": str(active.get("kernel", "")),
        "tool": attempt.tool_version,
        "firmware": _text_by_device(devices, ("firmware",)),
        "scheduler": _text_by_device(devices, ("scheduler",)),
        "devices": _text_by_device(devices, ("model", "size", "sectors")),
        "cpu": f"{active.get('cpus', '')} x {active.get('cpu_model', '')}",
        "memory": str(active.get("memory", "")),
    }


def _text_by_device(devices: Mapping[str, Mapping[str, str]], names: Iterable[str]) -> str:
    """One word where all devices have it, else each device's by its identity."""
    properties = tuple(names)
    texts = {who: " ".join(filter(None, (d[n] for n in properties))) for who, d in devices.items()}
    if len(properties) == 1 and len(set(texts.values())) < 2:
        return "".join(set(texts.values()))
    return ", ".join(f"{who} {text}" for who, text in sorted(texts.items()))


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
    # whose history it is
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
        """Return the change of the ignored part near there (before, after).

        Noise can move the detected change by a run or two.
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
    """Return the history that `user` may see, by default of the pages' first metric; empty if nothing succeeded."""
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
        for name in metric_naming.order_choices(list(units), run.tool, bool(run.outstanding))
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
