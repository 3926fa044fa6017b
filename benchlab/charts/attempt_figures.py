# SPDX-License-Identifier: Apache-2.0
"""Figures of one attempt, while it runs and afterwards, and a strip of each disk's last seconds.

Paths of strips are texts in a box of STRIP_WIDTH x STRIP_HEIGHT: a template puts them into attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import numpy as np
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404
from django.template.loader import render_to_string
from django.views.decorators.http import require_GET

from agents.contracts import ParseError
from agents.drivers import registry
from agents.jobs import job
from benchlab.analysis.series import Floats
from benchlab.campaigns.models import Campaign
from benchlab.charts import (
    device_comparison,
    device_figures,
    figure,
    latency_distributions,
    latency_figures,
    request_params,
)
from benchlab.charts.device_stacks import (
    Facts,
    attempt_facts,
    devices_above,
    devices_by_name,
    iterate_claims,
    read_disk_uses,
)
from benchlab.charts.figure import Figure
from benchlab.charts.figure_views import (
    attempt_title,
    figure_response,
    shared_bytes,
    shared_response,
    with_attempt_origin,
)
from benchlab.charts.sampled_tracks import (
    Track,
    read_rows,
    read_tracks,
    read_windows,
    rows_from_tracks,
)
from benchlab.runs.models import Attempt, Layout, LiveChunk, Measurement

AttemptFigure = Callable[[Attempt, QueryDict], Figure]


@require_GET
def attempt_figure(
    request: HttpRequest, pk: int, build: Callable[..., Figure], **options: str
) -> HttpResponse:
    """Answer with one of the figures of an attempt below."""
    attempt = _visible_attempt(request, pk)
    return figure_response(with_attempt_origin(build(attempt, request.GET, **options), attempt))


def device_figure(attempt: Attempt, query: QueryDict) -> Figure:
    """Every device over the run. ?every=1 draws the idle ones too, ?members=1 each disk of a layout for itself,
    ?from= &to= &width= a part of it more finely."""
    every, single = bool(query.get("every")), bool(query.get("members"))
    metrics = (*device_figures.DEVICE_PANELS, *device_figures.PERCENTILE_METRICS)
    return device_figures.build_device_figure(
        attempt_title(attempt),
        read_rows(attempt, metrics, request_params.requested_span(query)),
        attempt_facts(attempt),
        read_windows(attempt),
        every=every,
        uses=() if every or single else read_disk_uses(attempt),
    )


def disk_figure(attempt: Attempt, query: QueryDict) -> Figure:
    """Disk x time: ?metric= one of DEVICE_PANELS, ?from= &to= &width= a part of it more finely."""
    panels = device_figures.DEVICE_PANELS
    metric = query.get("metric") or device_comparison.DEFAULT_METRIC
    if metric not in panels:
        raise BadRequest(f"metric: {metric[:100]!r} is none of {', '.join(panels)}")
    sampled = read_rows(attempt, panels, request_params.requested_span(query))
    disks = device_comparison.heat_map_disks(
        sampled, attempt_facts(attempt), read_disk_uses(attempt)
    )
    return device_comparison.build_heat_map(
        attempt_title(attempt), sampled, disks, metric, read_windows(attempt)
    )


def histogram_figure(attempt: Attempt, query: QueryDict) -> Figure:
    """Histogram of I/O times, with shares below each. ?percent=even has an axis that is not stretched towards 100 %."""
    return latency_figures.build_histogram_figure(
        attempt_title(attempt),
        latency_distributions.read_latency_curves(attempt),
        request_params.percent_scale(query),
    )


def cpu_figure(attempt: Attempt, query: QueryDict) -> Figure:
    metrics = (*device_figures.CPU_STATES, *device_figures.CPU_LIMITS)
    sampled = read_rows(attempt, metrics, request_params.requested_span(query))
    return device_figures.build_cpu_figure(attempt_title(attempt), sampled, read_windows(attempt))


def cache_figure(attempt: Attempt, query: QueryDict, which: str) -> Figure:
    return draw_caches(attempt, which, current_tracks(attempt))


def draw_caches(attempt: Attempt, name: str, tracks: Sequence[Track]) -> Figure:
    """One of CACHE_CHARTS: caches, ARC, pools, arrays. Raises Http404 if there is no such chart."""
    chart = device_figures.find_chart(name)
    if chart is None:
        raise Http404(f"There is no chart {name!r}.")
    return device_figures.build_cache_figure(
        attempt_title(attempt), chart, tracks, attempt_facts(attempt), read_windows(attempt)
    )


def current_tracks(attempt: Attempt) -> list[Track]:
    """Return the stored tracks; of a running attempt the latest samples, as far as they can be read."""
    if attempt.outcome:
        return read_tracks(attempt)
    try:
        return live_tracks(attempt)
    except ParseError:
        # the devices' chart shows the error
        return []


@require_GET
def attempt_live(request: HttpRequest, pk: int) -> HttpResponse:
    """Figure of the running attempt so far; of one that is over, the whole.

    ?since= seconds leaves out what is older, ?disks=own all but the layout's own disks and what stands on them.
    """
    rows = Attempt.objects.visible_to(request.user).select_related("run")
    campaign = get_object_or_404(rows.only("run__campaign"), pk=pk).run.campaign_id

    def build_figure() -> Figure:
        attempt = _visible_attempt(request, pk)
        return with_attempt_origin(_live_figure(attempt, request.GET), attempt)

    return shared_response(request, campaign, build_figure)


def _live_figure(attempt: Attempt, query: QueryDict) -> Figure:
    title, facts = attempt_title(attempt), attempt_facts(attempt)
    since = request_params.seconds_parameter(query, "since")
    tracks = read_tracks(attempt) if attempt.outcome else []
    windows = read_windows(attempt) if tracks else []
    if not tracks:
        try:
            tracks = live_tracks(attempt, since)
        except ParseError as error:
            return figure.empty_figure(title, f"The samples cannot be read: {error}")
    if not tracks:
        return figure.empty_figure(title, WAITING_TEXT)
    if query.get("disks") == "own":
        tracks = _layout_tracks(tracks, attempt, facts)
    return device_figures.build_device_figure(title, rows_from_tracks(tracks), facts, windows)


@require_GET
def attempt_strips(request: HttpRequest, pk: int) -> HttpResponse:
    """A part of a live page: what each of the layout's own disks does now. ?disks=all: each of the host's.

    286 once the attempt is over: nobody has to ask again. What was seen last stays until the next one's part comes,
    else the card would be a heading alone between two runs.
    """
    rows = Attempt.objects.visible_to(request.user).select_related("run")
    attempt = get_object_or_404(rows.only("outcome", "run__campaign"), pk=pk)
    if attempt.outcome:
        return HttpResponse(status=286, headers={"HX-Reswap": "none"})

    def render_strips() -> bytes:
        every = request.GET.get("disks") == "all"
        strips = read_strips(_visible_attempt(request, pk), every=every)
        return render_to_string("charts/_disk_strips.html", {"strips": strips}).encode()

    return HttpResponse(shared_bytes(request, attempt.run.campaign_id, render_strips))


def _visible_attempt(request: HttpRequest, pk: int) -> Attempt:
    rows = Attempt.objects.visible_to(request.user).select_related(
        "facts", "layout", "run__campaign", "run__topology", "run__workload"
    )
    return get_object_or_404(rows, pk=pk)


# A page asks every few seconds: it gets the last minutes, not hours of frames parsed again and again.
# bytes
LIVE_TAIL_BYTES = 1024 * 1024
# a frame's first line; lines of the files in it begin with a blank
FRAME_START = b"\n@ "


def live_tracks(attempt: Attempt, since: float = 0.0, most: int | None = None) -> list[Track]:
    """Series of the running attempt after `since` seconds, of the last `most` bytes of frames, or of the last MiB.

    Raises ParseError.
    """
    raw, began = _read_tail(attempt, LIVE_TAIL_BYTES if most is None else most)
    frames = job.frames(raw)
    if len(frames) < 2:
        return []
    shift = frames[0].at - began
    tracks = []
    for sampler in registry.all_samplers().values():
        for series in sampler.frames_to_series(frames):
            times = np.asarray(series.times, dtype=float) + shift
            later = times > since
            values = np.asarray(series.values, dtype=float)[later]
            tracks.append(Track(series.device, series.metric, series.unit, times[later], values))
    return tracks


def _read_tail(attempt: Attempt, most: int) -> tuple[bytes, float]:
    """(whole frames from the end, seconds of the very first frame). Reads no more chunks than it needs."""
    sizes = list(LiveChunk.objects.filter(attempt=attempt).values_list("offset", flat=True))
    if not sizes:
        return b"", 0.0
    newest = sizes[-1]
    first_offset = max((offset for offset in sizes if offset <= newest - most), default=sizes[0])
    chunks = LiveChunk.objects.filter(attempt=attempt, offset__gte=first_offset).order_by("offset")
    raw = b"".join(bytes(data) for data in chunks.values_list("data", flat=True))
    head = raw if first_offset == sizes[0] else bytes(attempt.live.get(offset=sizes[0]).data)
    if first_offset != sizes[0]:
        raw = raw[raw.find(FRAME_START) + 1 :]
    return raw, _first_second(head)


def _first_second(head: bytes) -> float:
    """The time in a stream's first line, "@ NANOSECONDS"; 0 while even that is not there."""
    word = head.partition(b"\n")[0][2:]
    return int(word) / 1e9 if word.isdigit() and len(word) < 20 else 0.0


def _layout_tracks(tracks: list[Track], attempt: Attempt, facts: Facts) -> list[Track]:
    """Return the tracks of the disks that its layout claims and of the devices on them; all if it claims none."""
    names = devices_above(_claimed_nodes(attempt.layout_id), facts)
    return [track for track in tracks if track.device in names] if names else tracks


def _layout_disks(attempt: Attempt, facts: Facts) -> set[str]:
    """Kernel names of the disks that its layout claims."""
    nodes = _claimed_nodes(attempt.layout_id)
    return {d["name"] for d in facts.get("devices", ()) if d.get("path") in nodes}


@lru_cache(maxsize=256)
def _claimed_nodes(layout_id: int) -> frozenset[str]:
    """Return the claimed nodes, cached: a measured layout's stay the same, and its page asks every few seconds."""
    plan = Layout.objects.values_list("plan", flat=True).get(pk=layout_id)
    return frozenset(str(claim["node"]) for _, claim in iterate_claims(plan))


STRIP_WIDTH, STRIP_HEIGHT = 120, 32
SHOWN_SECONDS = 90.0
# Bytes of frames: a page asks every few seconds, and so much has 90 s of some hundred devices.
STRIP_TAIL_BYTES = 256 * 1024
# disks; the chart over time has all
MAX_STRIPS = 24
BANDWIDTHS = ("read.bandwidth", "write.bandwidth")
UTILISATION = "util"
WAITING_TEXT = "Waiting for the first samples."
NOT_SAMPLED_TEXT = "None of these disks was sampled: the chart over time has what was."
UNREADABLE_TEXT = "The samples cannot be read: the chart over time says why."


@dataclass(frozen=True, slots=True)
class Strip:
    """Strip of one disk. `read` and `written` in B/s, `busy` in percent; None: not known of this second."""

    name: str
    # "SSD, PLAIN-1"; empty where nobody knows
    kind: str
    css: str
    line: str
    area: str
    read: float | None
    written: float | None
    busy: float | None


@dataclass(frozen=True, slots=True)
class Strips:
    """`left`: so many disks more than are shown; `top`: the B/s that is as high as a strip; `own`: whether they are
    those that a layout claims; `says`: why there is none."""

    disks: Sequence[Strip] = ()
    hidden_disks: int = 0
    top: float = 0.0
    own: bool = False
    message: str = ""


def read_strips(attempt: Attempt, *, every: bool = False) -> Strips:
    """Read the strips of the layout's disks; of all disks with `every`, or if it claims none (a scratch directory)."""
    facts = attempt_facts(attempt)
    own = set() if every else _layout_disks(attempt, facts)
    try:
        tracks = live_tracks(attempt, most=STRIP_TAIL_BYTES)
    except ParseError:
        return Strips(own=bool(own), message=UNREADABLE_TEXT)
    return build_strips(tracks, facts, own or None)


def build_strips(
    tracks: Sequence[Track], facts: Facts, own: Collection[str] | None = None
) -> Strips:
    """`own`: names of the disks that are shown; None: all that the facts call a disk."""
    devices = devices_by_name(facts)
    moved: dict[str, dict[str, Track]] = {}
    for track in tracks:
        if track.metric in (*BANDWIDTHS, UTILISATION) and len(track.times):
            moved.setdefault(track.device, {})[track.metric] = track
    disks = {name for name in moved if devices.get(name, {}).get("type", "disk") == "disk"}
    shown_disks = disks if own is None else moved.keys() & own
    names = sorted(shown_disks, key=lambda name: (len(name), name))
    end = max((track.times[-1] for name in names for track in moved[name].values()), default=0.0)
    lines = {name: _recent_rates(moved[name], end) for name in names[:MAX_STRIPS]}
    top = max((float(np.nanmax(y)) for _, y in lines.values() if (y == y).any()), default=0.0)
    strips = [
        _draw_strip(name, devices.get(name, {}), moved[name], line, end, top)
        for name, line in lines.items()
    ]
    message = "" if strips else NOT_SAMPLED_TEXT if tracks else WAITING_TEXT
    return Strips(strips, len(names) - len(strips), top, own is not None, message)


def _recent_rates(tracks: Mapping[str, Track], end: float) -> tuple[Floats, Floats]:
    """(times, B/s in all) of the last SECONDS."""
    rates = [tracks[name] for name in BANDWIDTHS if name in tracks]
    if not rates:
        return np.empty(0), np.empty(0)
    times = np.asarray(rates[0].times, dtype=float)
    both = [track.array for track in rates if track.shares_times(rates[0])]
    recent = times > end - SHOWN_SECONDS
    return times[recent], np.sum(both, axis=0)[recent]


def _draw_strip(
    name: str,
    device: Facts,
    tracks: Mapping[str, Track],
    line: tuple[Floats, Floats],
    end: float,
    top: float,
) -> Strip:
    times, values = line
    places = []
    for at, value in zip(times.tolist(), values.tolist(), strict=True):
        if value == value:
            x = STRIP_WIDTH * (1 - (end - at) / SHOWN_SECONDS)
            y = STRIP_HEIGHT - (STRIP_HEIGHT - 2) * (value / (top or 1))
            places.append(f"{x:.1f} {y:.1f}")
    joined = "L".join(places)
    first, last = (places[0].split()[0], places[-1].split()[0]) if places else ("0", "0")
    busy = _last_value(tracks.get(UTILISATION))
    spins = device.get("rotational")
    media = "" if spins is None else "HDD" if spins else "SSD"
    return Strip(
        name=name,
        kind=", ".join(filter(None, (media, str(device.get("model", "")).strip()))),
        css="s1" if device.get("rotational", True) else "s5",
        line=f"M{joined}" if places else "",
        area=f"M{first} {STRIP_HEIGHT}L{joined}L{last} {STRIP_HEIGHT}z" if places else "",
        read=_last_value(tracks.get(BANDWIDTHS[0])),
        written=_last_value(tracks.get(BANDWIDTHS[1])),
        busy=None if busy is None else busy * 100,
    )


def _last_value(track: Track | None) -> float | None:
    if track is None or not len(track.values):
        return None
    value = float(track.values[-1])
    return value if value == value else None


# figures of a device, as watchers name them
WATCHED_NAMES = (
    "read.iops",
    "write.iops",
    "read.bandwidth",
    "write.bandwidth",
    "read.await",
    "write.await",
    "util",
)
MAX_WATCHED_ROWS = 200


@dataclass(frozen=True, slots=True)
class WatchedRun:
    """Means of each device over the reports of a watcher alone. `names` are those of the columns."""

    run: int
    workload: str
    names: Sequence[str]
    # device, and (value, unit) of each name
    rows: Sequence[tuple[str, Sequence[tuple[float | None, str]]]]


def watched_runs(campaign: Campaign) -> list[WatchedRun]:
    """Runs of the campaign of which only devices have figures. One query."""
    figures = Measurement.objects.filter(
        attempt__run__campaign=campaign, name__in=WATCHED_NAMES, labels__has_key="device"
    )
    by_run: dict[tuple[int, str], dict[str, dict[str, tuple[float | None, str]]]] = {}
    columns = ("attempt__run", "attempt__run__workload__name", "labels", "name", "value", "unit")
    for run, workload, labels, name, value, unit in figures.order_by("pk").values_list(*columns):
        devices = by_run.setdefault((run, workload), {})
        devices.setdefault(labels["device"], {})[name] = (value, unit)
    watched = []
    for (run, workload), devices in by_run.items():
        names = [name for name in WATCHED_NAMES if any(name in row for row in devices.values())]
        rows = [
            (device, [row.get(name, (None, "")) for name in names])
            for device, row in islice(devices.items(), MAX_WATCHED_ROWS)
        ]
        watched.append(WatchedRun(run, workload, names, rows))
    return watched
