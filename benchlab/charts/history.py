# SPDX-License-Identifier: Apache-2.0
"""Runs of one set-up over time, where their level changed, and which runs stand out: read, drawn, and as a page.

Runs belong together whose fingerprints are equal, or equal in all but one part. A fingerprint is a hash. To ignore
one part, the runs that did the same on the same stack of the same host are read, and for each of their fingerprints
the parts are made again from what is stored (facts, plan, tool's version). A part that one source stated and the
other did not is not equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from urllib.parse import urlencode

import numpy as np
from django.core.exceptions import BadRequest
from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_GET

from benchlab.analysis.changes import (
    ENOUGH_AFTER,
    LEAST_SIDE,
    SAME,
    Change,
    Drift,
    Unusual,
    find_changes,
    find_drift,
    find_unusual,
)
from benchlab.analysis.curves import median_of
from benchlab.analysis.formats import shown_unit
from benchlab.campaigns.models import Run
from benchlab.charts import figure, metric_naming, request_params
from benchlab.charts.device_stacks import attempt_facts, describe_claims
from benchlab.charts.figure import Axis, Figure, Trace, run_links
from benchlab.charts.figure_views import figure_response
from benchlab.charts.palette import device_style
from benchlab.charts.queries import Person
from benchlab.runs import attempt_meta
from benchlab.runs.models import Attempt, Measurement
from benchlab.runs.states import Outcome
from benchlab.web.units import si

# What may be let go, and its name on pages; all else a history holds on to.
FINGERPRINT_PARTS = {
    "kernel": "Kernel",
    "firmware": "Firmware of the disks",
    "tool": "Tool version",
    "scheduler": "I/O scheduler",
}
# runs of a history, the last ones
MAX_HISTORY_RUNS = 1000


@dataclass(frozen=True, slots=True)
class HistoryRun:
    """One run of a history. `build`: the layout it ran on; `ignored_value`: of what was let go, in words."""

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
    """Runs in the order of time; values in the metric's base unit."""

    metric: str
    unit: str
    ignored_part: str = ""
    metrics: tuple[str, ...] = ()
    runs: tuple[HistoryRun, ...] = ()
    changes: tuple[Change, ...] = ()
    drift: Drift | None = None
    unusual: tuple[Unusual, ...] = ()
    # without a value above 0
    runs_without_value: int = 0
    # whose history it is
    attempt: Attempt | None = field(default=None, compare=False)

    @property
    def builds(self) -> int:
        return len({run.build for run in self.runs})

    @property
    def ignored_changes(self) -> list[int]:
        """Indexes of the runs at which the ignored part becomes another, whether anything changed there or not."""
        values = pairwise(run.ignored_value for run in self.runs)
        return [at for at, (before, after) in enumerate(values, start=1) if before != after]

    @property
    def history_changes(self) -> list[HistoryChange]:
        return [
            HistoryChange(
                change,
                self.runs[change.at],
                len(self.runs) - change.at,
                self._ignored_change_near(change.at),
            )
            for change in self.changes
        ]

    @property
    def history_drift(self) -> HistoryDrift | None:
        if self.drift is None:
            return None
        first = self.runs[self.drift.begin]
        return HistoryDrift(self.drift, first, len(self.runs) - self.drift.begin)

    def _ignored_change_near(self, at: int) -> tuple[str, str] | None:
        """Return the change of the ignored part near there (before, after).

        Noise can move the detected change by a run or two.
        """
        near = [other for other in self.ignored_changes if abs(other - at) <= SAME]
        if not near:
            return None
        nearest = min(near, key=lambda other: abs(other - at))
        return self.runs[nearest - 1].ignored_value, self.runs[nearest].ignored_value


@dataclass(frozen=True, slots=True)
class HistoryChange:
    """A change in words. `runs_since`: runs from it on; `ignored_change`: of what was let go, about there."""

    change: Change
    first: HistoryRun
    runs_since: int
    ignored_change: tuple[str, str] | None

    @property
    def verdict(self) -> str:
        return "changed" if self.change.confirmed else "possibly changed"

    @property
    def change_text(self) -> str:
        return _ratio_text(self.change.ratio)

    @property
    def missing_runs(self) -> int:
        """Least number of runs that are missing until it can be confirmed."""
        return max(0, ENOUGH_AFTER - self.runs_since)


@dataclass(frozen=True, slots=True)
class HistoryDrift:
    """A drift in words, over `runs` runs from `first` to the last."""

    drift: Drift
    first: HistoryRun
    runs: int

    @property
    def verdict(self) -> str:
        return "drifts"

    @property
    def change_text(self) -> str:
        return f"{_ratio_text(self.drift.ratio)} over {self.runs} runs"


def _ratio_text(ratio: float) -> str:
    return f"{abs(ratio - 1):.0%} {'higher' if ratio > 1 else 'lower'}".replace("%", " %")


def read_history(user: Person, run: Run, metric: str = "", let_go: str = "") -> History:
    """Return the history that `user` may see, by default of the pages' first metric; empty if nothing succeeded."""
    succeeded = run.attempts.filter(outcome=Outcome.SUCCEEDED).order_by("-number")
    reference = succeeded.select_related("run", "layout", "facts").first()
    if reference is None:
        return History(metric, "1", let_go)
    measured = reference.measurements.filter(labels={}, value__isnull=False).order_by("pk")
    units = dict(measured.values_list("name", "unit"))
    choices = metric_naming.order_choices(list(units), run.tool, bool(run.outstanding))
    metrics = tuple(name for name in choices if name in units)
    chosen = metric or next(iter(metrics), "iops")
    attempts, parts = attempts_like(user, reference, let_go)
    figures: dict[int, float | None] = dict(
        Measurement.objects.filter(attempt__in=attempts, name=chosen, labels={}).values_list(
            "attempt", "value"
        )
    )
    runs = tuple(
        HistoryRun(
            row.run_id,
            vars(row)["at"],
            row.run.campaign_id,
            row.run.campaign.name,
            row.run.repeat,
            row.layout_id,
            value,
            parts.get(row.fingerprint, ""),
        )
        for row in attempts
        if (value := figures.get(row.pk) or 0.0) > 0
    )
    numbers = [past_run.value for past_run in runs]
    builds = [past_run.build for past_run in runs]
    changes = find_changes(numbers, builds)
    return History(
        chosen,
        units.get(chosen, "1"),
        let_go,
        metrics,
        runs,
        tuple(changes),
        find_drift(numbers, builds, changes),
        tuple(find_unusual(numbers, changes)),
        len(attempts) - len(runs),
        reference,
    )


def attempts_like(
    user: Person, reference: Attempt, let_go: str = ""
) -> tuple[Sequence[Attempt], dict[str, str]]:
    """(attempts that `user` may see, oldest first; {fingerprint: the part that was let go, in words}).

    Of each run its last attempt that succeeded; at most MAX_HISTORY_RUNS. `reference` is one whose run and layout are
    loaded. Without its part, those count that are equal in the columns of a fingerprint: the same on the same stack, at
    the same moment, in order.
    """
    if not reference.fingerprint:
        return [], {}
    succeeded = Attempt.objects.visible_to(user).filter(outcome=Outcome.SUCCEEDED)
    if not let_go:
        return _last_attempts(succeeded.filter(fingerprint=reference.fingerprint)), {}
    run, layout = reference.run, reference.layout
    candidates = succeeded.filter(
        degraded=reference.degraded,
        run__host=run.host_id,
        run__tool=run.tool,
        run__stage=run.stage,
        run__options=run.options,
        layout__stack=layout.stack,
        layout__stages=layout.stages,
    )
    equal = _equal_except(let_go, reference, candidates)
    return _last_attempts(candidates.filter(fingerprint__in=list(equal))), equal


def _last_attempts(attempts: QuerySet[Attempt]) -> Sequence[Attempt]:
    newest = attempts.order_by("run_id", "-number").distinct("run_id").values("pk")
    rows = (
        Attempt.objects.filter(pk__in=newest)
        .annotate(at=Coalesce("started_at", "ended_at", "created_at"))
        .select_related("run__campaign")
        .only("fingerprint", "layout_id", "run__campaign__name", "run__repeat")
        .order_by(F("at").desc(), "-pk")[:MAX_HISTORY_RUNS]
    )
    return list(rows)[::-1]


def _equal_except(let_go: str, reference: Attempt, candidates: QuerySet[Attempt]) -> dict[str, str]:
    """{fingerprint: that part in words} of those that are equal in all others."""
    rows = (
        candidates.exclude(fingerprint="")
        .order_by("fingerprint", "-pk")
        .distinct("fingerprint")
        .select_related("layout", "facts")
        .only("fingerprint", "tool_version", "meta", "layout__plan", "facts__facts")
    )
    parts_by_fingerprint = {row.fingerprint: fingerprint_parts(row) for row in (*rows, reference)}
    others = {**parts_by_fingerprint[reference.fingerprint], let_go: ""}
    return {
        digest: parts[let_go]
        for digest, parts in parts_by_fingerprint.items()
        if {**parts, let_go: ""} == others
    }


def fingerprint_parts(attempt: Attempt) -> dict[str, str]:
    """Return the parts of a fingerprint that no column holds, in words; "" if unknown."""
    active = attempt_meta.facts_during_attempt(attempt_facts(attempt), attempt.meta)
    devices = describe_claims(attempt.layout.plan, active)
    return {
        "kernel": str(active.get("kernel", "")),
        "tool": attempt.tool_version,
        "firmware": _text_by_device(devices, "firmware"),
        "scheduler": _text_by_device(devices, "scheduler"),
        "devices": _text_by_device(devices, "model", "size", "sectors"),
        "cpu": f"{active.get('cpus', '')} x {active.get('cpu_model', '')}",
        "memory": str(active.get("memory", "")),
    }


def _text_by_device(devices: Mapping[str, Mapping[str, str]], *properties: str) -> str:
    """One word where all devices have it, else each device's by its identity."""
    texts = {who: " ".join(filter(None, (d[n] for n in properties))) for who, d in devices.items()}
    if len(properties) == 1 and len(set(texts.values())) < 2:
        return "".join(set(texts.values()))
    return ", ".join(f"{who} {text}" for who, text in sorted(texts.items()))


LEVEL_NAME = "median between confirmed and possible changes"
CONFIRMED_NAME, POSSIBLE_NAME, DRIFT_NAME = "change", "possible change", "drift"
UNUSUAL_NAME = "stands out from the runs before it"
IGNORED_CHANGE_NAME = "the ignored property changes here"


def build_history_figure(title: str, history: History) -> Figure:
    """Runs in order, not by the clock: weeks without a run would press those of one night together."""
    word, unit = metric_naming.metric_word(history.metric), shown_unit(history.metric, history.unit)
    if not history.runs:
        return figure.empty_figure(title, f"No run of this set-up measured {word}.")
    top = max(run.value for run in history.runs) * 1.08
    data = [_level_lines(history)]
    for name, confirmed in ((CONFIRMED_NAME, True), (POSSIBLE_NAME, False)):
        changes = [step for step in history.history_changes if step.change.confirmed is confirmed]
        if changes:
            data.append(_change_lines(name, changes, top, confirmed=confirmed))
    if history.drift:
        data.append(_drift_line(history.drift, len(history.runs), top))
    if history.ignored_changes:
        line = {"color": device_style(2).colour, "width": 1.5, "dash": "dashdot"}
        data.append(_vertical_lines(IGNORED_CHANGE_NAME, history.ignored_changes, top * 0.94, line))
    data.append(_run_dots(history, unit))
    if history.unusual:
        data.append(_unusual_rings(history))
    count = len(history.runs)
    layout = figure.base_layout(
        f"{word} over time · {title}",
        f"Dot: one of {count} run{'' if count == 1 else 's'}, a click opens it. Line: median of a stretch.",
        height=460,
        xaxis=_run_axis(history),
        yaxis=figure.value_axis(word, unit),
    )
    layout["legend"]["y"] = -0.24
    return {"data": data, "layout": layout}


def _run_axis(history: History) -> Axis:
    """Runs by number; at some of them stands when they ran."""
    every = max(1, -(-len(history.runs) // 8))
    return {
        "title": {"text": "Runs in the order of time (UTC)"},
        "tickmode": "array",
        "tickvals": list(range(1, len(history.runs) + 1, every)),
        "ticktext": [f"{run.at:%Y-%m-%d}" for run in history.runs[::every]],
        "range": [0, len(history.runs) + 1],
        "showgrid": False,
        "zeroline": False,
        "automargin": True,
    }


def _run_dots(history: History, unit: str) -> Trace:
    look = device_style(0)
    hovers = [
        f"{run.at:%Y-%m-%d %H:%M} UTC<br>{run.campaign_name}, repeat {run.repeat}: "
        f"<b>{si(run.value, unit)}</b>{'<br>' * bool(run.ignored_value)}{run.ignored_value}"
        f"<br>run {run.run} · click opens it"
        for run in history.runs
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "run",
        "showlegend": False,
        "x": list(range(1, len(history.runs) + 1)),
        "y": [run.value for run in history.runs],
        "marker": {"color": look.colour, "symbol": look.marker, "size": 7},
        "customdata": run_links(run.run for run in history.runs),
        "text": hovers,
        "hovertemplate": "%{text}<extra></extra>",
    }


def _level_lines(history: History) -> Trace:
    """The median of each stretch. A stretch that drifts has no level."""
    end = history.drift.begin if history.drift else len(history.runs)
    edges = sorted({0, *(change.at for change in history.changes), end})
    x: list[float | None] = []
    y: list[float | None] = []
    for begin, end in pairwise(edges):
        level = median_of([run.value for run in history.runs[begin:end]])
        x += [begin + 0.6, end + 0.4, None]
        y += [level, level, None]
    line = {"color": device_style(0).faded(0.6), "width": 2}
    levels = {"x": x, "y": y, "showlegend": bool(history.changes)}
    return _line_trace(LEVEL_NAME, line) | levels


def _drift_line(drift: Drift, runs: int, top: float) -> Trace:
    """The drift's line, straight in logarithms, and its name at `top`, where no run hides it."""
    colour = device_style(1).colour
    begin, count = drift.begin + 1, runs - drift.begin
    levels = drift.before * drift.ratio ** np.linspace(0, 1, count)
    return _line_trace(DRIFT_NAME, {"color": colour, "width": 2, "dash": "dash"}) | {
        "x": [*range(begin, runs + 1), None, (begin + runs) / 2],
        "y": [*levels.tolist(), None, top],
        "mode": "lines+text",
        "text": [*[""] * (count + 1), f"drifts {_signed_percent(drift.ratio)}"],
        "textposition": "top center",
        "textfont": {"color": colour, "size": 11},
        "cliponaxis": False,
    }


def _signed_percent(ratio: float) -> str:
    return f"{'+' if ratio > 1 else '−'}{abs(ratio - 1):.0%}".replace("%", " %")


def _change_lines(
    name: str, changes: Sequence[HistoryChange], top: float, *, confirmed: bool
) -> Trace:
    colour = device_style(1).colour
    width, dash = (2, "solid") if confirmed else (1.5, "dot")
    text: list[str] = []
    for step in changes:
        word = "changed" if step.change.confirmed else "possible"
        text += ["", f"{word} {_signed_percent(step.change.ratio)}", ""]
    line = {"color": colour, "width": width, "dash": dash}
    return _vertical_lines(name, (step.change.at for step in changes), top, line) | {
        "mode": "lines+text",
        "text": text,
        "textposition": "top center",
        "textfont": {"color": colour, "size": 11},
        "cliponaxis": False,
    }


def _vertical_lines(
    name: str, places: Iterable[int], top: float, line: Mapping[str, object]
) -> Trace:
    """Lines before the runs with these indexes."""
    x: list[float | None] = []
    y: list[float | None] = []
    for at in places:
        x += [at + 0.5, at + 0.5, None]
        y += [0, top, None]
    return _line_trace(name, line) | {"x": x, "y": y}


def _line_trace(name: str, line: Mapping[str, object]) -> Trace:
    return {"name": name, "type": "scatter", "mode": "lines", "line": line, "hoverinfo": "skip"}


def _unusual_rings(history: History) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": UNUSUAL_NAME,
        "x": [outlier.at + 1 for outlier in history.unusual],
        "y": [history.runs[outlier.at].value for outlier in history.unusual],
        "marker": {
            "symbol": "circle-open",
            "size": 15,
            "color": device_style(1).colour,
            "line": {"width": 1.5},
        },
        "hoverinfo": "skip",
    }


@require_GET
def run_history(request: HttpRequest, pk: int) -> HttpResponse:
    """Every run of this run's set-up. ?metric= chooses what; ?without= lets one part of the fingerprint go."""
    run, history = _requested_history(request, pk)
    query = urlencode({"metric": history.metric, "without": history.ignored_part})
    robust_z = {outlier.at: outlier.z for outlier in history.unusual}
    rows = [(past_run, robust_z.get(at)) for at, past_run in enumerate(history.runs)]
    context = {
        "run": run,
        "history": history,
        "metrics": [(metric, metric_naming.metric_word(metric)) for metric in history.metrics],
        "word": metric_naming.metric_word(history.metric),
        "unit": shown_unit(history.metric, history.unit),
        "parts": FINGERPRINT_PARTS.items(),
        "let_go": FINGERPRINT_PARTS.get(history.ignored_part, ""),
        "newest_first": rows[::-1],
        "figure_url": f"{reverse('run-history-figure', args=[run.pk])}?{query}",
        "enough": 2 * LEAST_SIDE,
        "most": MAX_HISTORY_RUNS,
    }
    return render(request, "charts/history.html", context)


@require_GET
def run_history_figure(request: HttpRequest, pk: int) -> HttpResponse:
    run, history = _requested_history(request, pk)
    return figure_response(build_history_figure(f"{run.topology} · {run.workload}", history))


def _requested_history(request: HttpRequest, pk: int) -> tuple[Run, History]:
    rows = Run.objects.select_related("campaign", "host", "topology", "workload")
    run = get_object_or_404(rows.visible_to(request.user), pk=pk)
    metric = request_params.requested_metric(request.GET)
    if "*" in metric:
        raise BadRequest(f"metric: {metric!r} is a family; name one of its metrics")
    let_go = request.GET.get("without", "")
    if let_go and let_go not in FINGERPRINT_PARTS:
        raise BadRequest(f"without: {let_go[:100]!r} is none of {', '.join(FINGERPRINT_PARTS)}")
    return run, read_history(request.user, run, metric, let_go)
