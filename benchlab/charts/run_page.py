# SPDX-License-Identifier: Apache-2.0
"""The page of one run: its settings, its results, and the source of every number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from django.core.exceptions import BadRequest
from django.db.models import Prefetch
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET
from django_htmx.middleware import HtmxDetails

from agents.drivers import registry
from benchlab.analysis.curves import Little, little
from benchlab.analysis.formats import shown_unit
from benchlab.analysis.steady import Course, State
from benchlab.campaigns.models import Campaign, Run
from benchlab.charts import (
    cards,
    device_figures,
    device_tables,
    device_work,
    latency_distributions,
    metric_naming,
    numbered_lines,
    panels,
    sampled_tracks,
)
from benchlab.charts.attempt_figures import current_tracks
from benchlab.charts.device_stacks import (
    attempt_facts,
    read_disk_uses,
    read_layers,
    read_layout_disks,
)
from benchlab.charts.device_tables import device_rows
from benchlab.charts.latency_distributions import PERCENT_SCALES
from benchlab.charts.queries import kernel_work_text
from benchlab.charts.sampled_tracks import Part, Track, read_tracks, read_windows
from benchlab.findings import stored_runs
from benchlab.runs import attempt_meta, verdict
from benchlab.runs.models import Artifact, Attempt, Measurement
from benchlab.runs.states import AttemptPhase
from benchlab.web.units import format_size, si

# Total latency as on the charts; the tool's percentiles are most often those of completion latency.
LATENCIES = ("lat.mean", "lat.p50", "lat.p99", "lat.p99.9", "clat.p50", "clat.p99", "clat.p99.9")
KEY_TITLES = {
    "iops": "IOPS",
    "bandwidth": "Throughput",
    **{name: metric_naming.latency_word(name) for name in LATENCIES},
}


def epoch_text(at: float) -> str:
    """Seconds of the epoch as a person reads them, to the millisecond."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}.{int(at % 1 * 1000):03} UTC"


# What runner.sh noted (agents.jobs.job.Meta), in the order of the page.
META_ROWS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "console": ("dynamo's console", str),
    "state": ("Ended as", str),
    "started_at": ("Started, host's clock", epoch_text),
    "ended_at": ("Ended, host's clock", epoch_text),
    "user": ("Ran as", lambda user: "root" if user == "0" else f"user {user}, whom no account has"),
    "why_root": ("Why root", str),
    "queues": ("I/O schedulers in force", attempt_meta.describe_queues),
    "caches": ("Page cache dropped", str),
    "cached_before": ("Page cache before", format_size),
    "cached_after": ("Page cache after", format_size),
    "sample_bytes": ("Samples", format_size),
    "boot_id": ("Boot", str),
}


class HtmxRequest(HttpRequest):
    htmx: HtmxDetails


@dataclass(frozen=True, slots=True)
class ExplainedAttempt:
    """An attempt with its reason in words."""

    attempt: Attempt
    reason: verdict.ReasonText | None


@require_GET
def run_detail(request: HttpRequest, pk: int) -> HttpResponse:
    """?attempt= shows another attempt than the last, ?at= every device at one instant."""
    run = get_object_or_404(
        Run.objects.visible_to(request.user).select_related(
            "campaign__team", "host", "topology", "workload"
        ),
        pk=pk,
    )
    tried = [
        ExplainedAttempt(a, verdict.explain_reason(a.reason) if a.reason else None)
        for a in _run_attempts(run)
    ]
    current = _requested_attempt(request, tried)
    context: dict[str, Any] = {"run": run, "tried": tried, "shown": current}
    if current is not None:
        context |= device_tables.instant_context(request, current.attempt)
        if cast(HtmxRequest, request).htmx.target == device_tables.PART_ID:
            return render(request, device_tables.PART_TEMPLATE, context)
        context |= attempt_context(run, current.attempt, _requested_number(request, "window"))
    return _run_response(request, context)


def _run_response(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    """An open attempt's page asks for its outcome, and for charts of caches that are there by now (?part=live-caches),
    again and again; once it is over, the whole page is made anew."""
    if not cast(HtmxRequest, request).htmx:
        return render(request, "runs/run.html", context)
    part = "live-caches" if request.GET.get("part") == "live-caches" else "outcome"
    answer = render(request, f"runs/run.html#{part}", context)
    if context["shown"] is None or context["shown"].attempt.phase == AttemptPhase.DONE:
        answer["HX-Refresh"] = "true"
    return answer


def _run_attempts(run: Run) -> list[Attempt]:
    artifacts = Artifact.objects.defer("content").order_by("name")
    return list(
        run.attempts.select_related("layout", "facts")
        .prefetch_related(Prefetch("artifacts", queryset=artifacts), "measurements")
        .order_by("-number")
    )


def _requested_attempt(
    request: HttpRequest, tried: list[ExplainedAttempt]
) -> ExplainedAttempt | None:
    if "attempt" not in request.GET:
        return tried[0] if tried else None
    number = _requested_number(request, "attempt")
    for candidate in tried:
        if candidate.attempt.number == number:
            return candidate
    raise Http404(f"This run has no attempt {request.GET['attempt']}.")


def _requested_number(request: HttpRequest, name: str) -> int:
    number = request.GET.get(name, "0")
    if not number.isascii() or not number.isdigit() or len(number) > 9:
        raise BadRequest(f"{name}: {number[:100]!r} is no number")
    return int(number)


def attempt_context(run: Run, attempt: Attempt, window: int = 0) -> dict[str, Any]:
    """Everything that a page shows of one attempt; the numbers of its devices in one window, 0: in all. Http404."""
    measured = list(attempt.measurements.all())
    live = attempt.phase in (AttemptPhase.STARTING, AttemptPhase.RUNNING)
    tracks, windows = read_tracks(attempt), read_windows(attempt)
    try:
        part = sampled_tracks.select_part(tracks, windows, window)
    except IndexError:
        raise Http404(f"This attempt has no window {window}.") from None
    course = Course.from_json(attempt.course) if attempt.course else None
    return {
        "live": live,
        "refresh_s": 1 if live and registry.live_files(run.tool) else 3,
        "can_retry": attempt.phase == AttemptPhase.DONE and not run.campaign.source,
        "numbers": _key_numbers(measured),
        "course": course,
        "course_text": _course_sentence(course) if course else "",
        "measurements": measured,
        "little": _littles_law(run, measured),
        "devices": device_rows(part.tracks, attempt_facts(attempt)),
        "sampled": bool(tracks),
        "bundled": _has_disk_band(attempt, tracks),
        "shaded": _heat_metrics(attempt, tracks),
        "part": part,
        "windows": sampled_tracks.measured_windows(windows),
        # Late, for a page that runs asks for its other parts every few seconds.
        "caches": lambda: device_figures.available_charts(
            tracks if attempt.outcome else current_tracks(attempt)
        ),
        **_device_work_context(attempt, measured, sampled_tracks.measured_parts(tracks, windows)),
        "latency": _latency_context(attempt, measured),
        "transitions": attempt.transitions.all(),
        "steps": attempt.layout.steps.all(),
        "artifacts": attempt.artifacts.all(),
        "figures": _figures_with_artifacts(attempt, measured),
        "elsewhere": run.campaign.source != Campaign.Source.MEASURED,
        "meta": _meta_rows(attempt),
        "tool_part": cards.tool_context(attempt, measured),
    }


def _latency_context(attempt: Attempt, measured: list[Measurement]) -> dict[str, Any] | None:
    """Return the distribution of its I/Os' latencies; None if the tool reports only means."""
    curves = latency_distributions.read_latency_curves(attempt, measured)
    if not curves:
        return None
    binned = [curve for curve in curves if curve.bins is not None]
    return {
        "curves": curves,
        "binned": binned,
        "sentences": [
            sentence
            for curve in curves
            if (sentence := latency_distributions.curve_sentence(curve))
        ],
        "ranks": latency_distributions.percentile_rows(curves),
        "bins": latency_distributions.bin_rows(binned),
        "scales": list(PERCENT_SCALES.items()),
    }


def _has_disk_band(attempt: Attempt, tracks: Sequence[Track]) -> bool:
    """True when its chart draws disks as a band."""
    sampled = {track.device for track in tracks}
    return any(
        len(sampled & set(use.members)) > panels.MAX_SEPARATE_DISKS
        for use in read_disk_uses(attempt)
    )


def _heat_metrics(attempt: Attempt, tracks: Sequence[Track]) -> list[tuple[str, str]]:
    """Return (metric, title) of the disks' heat maps over time; [] for a single disk, which its line shows."""
    own = read_layout_disks(attempt)
    sampled = {(track.metric, track.device) for track in tracks if track.device in own}
    if len({device for _, device in sampled}) < 2:
        return []
    has = {metric for metric, _ in sampled}
    return [
        (metric, panel.title)
        for metric, panel in device_figures.DEVICE_PANELS.items()
        if metric in has
    ]


def _figures_with_artifacts(
    attempt: Attempt, measured: list[Measurement]
) -> list[tuple[Measurement, Artifact | None]]:
    """Pair each figure with the artifact whose line contains it, if one does."""
    artifacts = {row.name: row for row in attempt.artifacts.all()}
    return [(row, artifacts.get(row.output) if row.line else None) for row in measured]


def _key_numbers(measured: list[Measurement]) -> list[tuple[str, Measurement]]:
    plain = {row.name: row for row in measured if not row.labels}
    return [(title, plain[name]) for name, title in KEY_TITLES.items() if name in plain]


# Sentences on a rate that is not known to be unsteady.
COURSE_SENTENCES = {
    State.STEADY: "The rate was steady over the run.",
    State.TOO_SHORT: "The run is too short, or varies too much, to tell whether its rate was steady.",
    State.NO_SERIES: "The rate over the run was not recorded.",
}


def _course_sentence(course: Course) -> str:
    """Say how steady the rate was, and what its last third did if that is another figure."""
    if not course.mark:
        return COURSE_SENTENCES[course.state]
    sentence = (
        f"{course.mark[0].upper()}{course.mark[1:]}. The figures are means over the whole run"
    )
    if course.comparable_share is None:
        return f"{sentence}."
    last = si(course.last_third, shown_unit("iops", course.unit))
    return f"{sentence}; the last third did {last}."


def _littles_law(run: Run, measured: list[Measurement]) -> Little | None:
    """Check Little's law; None unless the tool reports both rate and total latency."""
    values = {row.name: row.value for row in measured if not row.labels}
    iops, latency = values.get("iops"), values.get("lat.mean")
    if not run.outstanding or iops is None or latency is None:
        return None
    return little(run.outstanding, [(iops, latency)])


def _meta_rows(attempt: Attempt) -> list[tuple[str, str]]:
    notes = [(META_ROWS[key], attempt.meta.get(key)) for key in META_ROWS]
    rows = [(title, show(value)) for (title, show), value in notes if value is not None]
    return [*rows, *([("Meanwhile", work)] if (work := kernel_work_text(attempt.meta)) else [])]


def _device_work_context(
    attempt: Attempt, measured: list[Measurement], parts: Sequence[Part]
) -> dict[str, Any]:
    layers, only = read_layers(attempt), stored_runs.tool_access(attempt).only_direction
    figures = {row.name: row.value for row in measured if not row.labels and row.value is not None}
    return {
        "work": device_work.disk_work(layers, parts, figures, only),
        "hits": device_work.cache_hits(layers, parts, figures, only),
    }


@require_GET
def artifact_lines(request: HttpRequest, pk: int) -> HttpResponse:
    """The raw output as text with line numbers. ?line= chooses the page; #L12 is its line 12."""
    row = get_object_or_404(
        Artifact.objects.visible_to(request.user).select_related("attempt__run__campaign"), pk=pk
    )
    raw = row.read() if row.is_small else b"\0"
    binary = b"\0" in raw[: 1 << 20]
    page = (
        None
        if binary
        else numbered_lines.read_page(
            raw, numbered_lines.parse_line_number(request.GET.get("line"))
        )
    )
    return render(request, "runs/artifact.html", {"artifact": row, "lines": page})
