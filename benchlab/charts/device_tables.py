# SPDX-License-Identifier: Apache-2.0
"""Numbers of devices as tables: over a window of a run, and at one instant of it (?at= in seconds, ?sort= a column)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from django.http import HttpRequest

from benchlab.analysis.series import Floats, Summary, summarize
from benchlab.charts import request_params
from benchlab.charts.device_figures import (
    CPU_PANELS,
    CPU_STATES,
    DEVICE_PANELS,
    PERCENTILE_METRICS,
    TABLE_PANELS,
    active_devices,
    active_panels,
)
from benchlab.charts.device_stacks import (
    Facts,
    StackedDevice,
    attempt_facts,
    order_devices,
    read_layout_disks,
)
from benchlab.charts.panels import Panel
from benchlab.charts.sampled_tracks import Span, Track, mean_across_gaps, read_rows, request_counts
from benchlab.runs.models import Attempt
from benchlab.runs.strips import MetricRows
from benchlab.web import lists
from benchlab.web.units import short_si


@dataclass(frozen=True, slots=True)
class DeviceRow:
    # indented by what lies under what; "" for the host's CPU
    device: str
    title: str
    # "%" for shares, already times 100
    unit: str
    summary: Summary


def device_rows(tracks: Iterable[Track], facts: Facts) -> list[DeviceRow]:
    """A row per device and drawn metric, volumes above their disks, then the CPU of the whole host."""
    by_device: dict[str, dict[str, Track]] = {}
    for track in tracks:
        by_device.setdefault(track.device, {})[track.metric] = track
    drawn = {
        name for name, beside in by_device.items() if not TABLE_PANELS.keys().isdisjoint(beside)
    }
    listed = [
        (placed.indented, TABLE_PANELS, by_device[placed.name])
        for placed in order_devices(drawn, facts)
    ]
    listed.append(("", CPU_PANELS, by_device.get("", {})))
    return [
        DeviceRow(device, panels[metric].title, _table_unit(panels[metric], track), summary)
        for device, panels, beside in listed
        for metric, track in beside.items()
        if metric in panels and (summary := _summarize(panels[metric], track, beside))
    ]


def _table_unit(panel: Panel, track: Track) -> str:
    return "%" if panel.unit == "%" else track.unit


def _summarize(panel: Panel, track: Track, beside: Mapping[str, Track]) -> Summary | None:
    """Weigh each value by its requests if all are known, else by its seconds. Percentiles are never averaged."""
    requests = request_counts(track, beside)
    summary = summarize(
        track.array * panel.scale, track.durations if requests is None else requests
    )
    if summary is None:
        return None
    if track.metric in PERCENTILE_METRICS:
        return replace(summary, mean=math.nan)
    mean = mean_across_gaps(track, beside)
    return summary if mean is None else replace(summary, mean=mean)


# s: a time that went through an address
TIME_TOLERANCE_S = 1e-6
# of the part, which is swapped alone
PART_ID = "instant"
PART_TEMPLATE = "charts/_instant.html"
# read as well: the next sample
LOOK_AHEAD_S = 60.0
# by a panel's unit
RATE_UNITS = {"r/s": "op/s", "w/s": "op/s"}
# parameters of the same page
OTHER_PARAMETERS = ("attempt", "window", "members", "at")


@dataclass(frozen=True, slots=True)
class DeviceSample:
    """A device in the sample from `start` to `end`, s since the first one. Shares are in percent."""

    device: StackedDevice
    start: float
    end: float
    # by metric; one that is not known is missing
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Instant:
    """`metrics` are those that the run has panels of; `cpu` are shares of the host's whole time, in percent."""

    lines: tuple[DeviceSample, ...]
    metrics: tuple[str, ...]
    cpu: Mapping[str, float]
    # ends of the samples before and behind it
    earlier: float | None
    later: float | None

    @property
    def sample_spans(self) -> list[tuple[float, float]]:
        """The samples' (start, end): several if not all devices were sampled by one clock."""
        return sorted({(line.start, line.end) for line in self.lines})


def values_at(
    sampled: Iterable[MetricRows], devices: Collection[str], facts: Facts, at: float
) -> Instant | None:
    """Return the values of `devices` at `at`, with the times of the neighbouring samples; None outside all samples."""
    panels = DEVICE_PANELS | CPU_PANELS
    rows_of_panels = [rows for rows in sampled if rows.metric in panels]
    by_sample: dict[tuple[str, float, float], dict[str, float]] = {}
    cpu: dict[str, float] = {}
    before, behind = [], []
    for rows in rows_of_panels:
        times = rows.buckets.times
        place = _sample_index(times, at)
        if place is None:
            continue
        before += times[:place][-1:].tolist()
        behind += times[place + 1 :][:1].tolist()
        for name, value in zip(rows.devices, rows.buckets.low[:, place].tolist(), strict=True):
            if rows.metric in CPU_PANELS:
                values = cpu if not name else {}
            elif name in devices:
                values = by_sample.setdefault((name, *_sample_span(times, place)), {})
            else:
                continue
            if not math.isnan(value):
                values[rows.metric] = value * panels[rows.metric].scale
    if not by_sample:
        return None
    # volumes above their disks, as in the chart's legend
    ordered = order_devices({name for name, _, _ in by_sample}, facts)
    return Instant(
        tuple(
            DeviceSample(device, start, end, values)
            for device in ordered
            for (name, start, end), values in by_sample.items()
            if name == device.name
        ),
        tuple(panel.metric for panel in active_panels(rows_of_panels)),
        {words: cpu[metric] for metric, words in CPU_STATES.items() if metric in cpu},
        max(before, default=None),
        min(behind, default=None),
    )


def _sample_index(times: Floats, at: float) -> int | None:
    """Place of the sample that the instant lies in: a sample's own time is its end."""
    place = int(np.searchsorted(times, at - TIME_TOLERANCE_S))
    if place == len(times) or at < _sample_span(times, place)[0] - TIME_TOLERANCE_S:
        return None
    return place


def _sample_span(times: Floats, place: int) -> tuple[float, float]:
    """(start, end). The first one is taken for as long as a Track takes it."""
    length = float(Track("", "", "", times, ()).durations[place])
    return float(times[place]) - length, float(times[place])


def instant_context(request: HttpRequest, attempt: Attempt) -> dict[str, Any]:
    """Build the context. Raises BadRequest if ?at= is no number or ?sort= no column."""
    if not request.GET.get("at"):
        return {}
    at = request_params.finite_seconds(request.GET, "at")
    rows_near = read_rows(attempt, (*DEVICE_PANELS, *CPU_PANELS), Span(at, at + LOOK_AHEAD_S))
    devices = active_devices(rows_near) | read_layout_disks(attempt)
    instant = values_at(rows_near, devices, attempt_facts(attempt), at)
    if instant is None:
        return {"at": at}
    listed = lists.filter_in_memory(
        request,
        instant.lines,
        _value_columns(instant),
        lambda line: [line.device.label],
        place=f"#{PART_ID}",
        filters=OTHER_PARAMETERS,
    )
    rows = [
        (line, [_value_text(metric, line.values.get(metric)) for metric in instant.metrics])
        for line in listed.rows
    ]
    return {
        "at": at,
        "instant": instant,
        "listed": listed,
        "rows": rows,
        "earlier": _address_at(request, instant.earlier),
        "later": _address_at(request, instant.later),
    }


def _address_at(request: HttpRequest, at: float | None) -> str:
    """Return the URL of the same page at another instant; "" if there is none."""
    if at is None:
        return ""
    query = request.GET.copy()
    query["at"] = str(at)
    return f"{lists.query_address(query)}#{PART_ID}"


def _value_columns(instant: Instant) -> dict[str, lists.SortColumn]:
    columns = {"device": lists.key_column("Device", lambda line: line.device.name)}
    if len(instant.sample_spans) > 1:
        columns["sample"] = lists.key_column("Sample until", lambda line: line.end, "num")
    for metric in instant.metrics:
        panel = DEVICE_PANELS[metric]
        head = f"{panel.title} ({panel.unit})" if panel.unit in RATE_UNITS else panel.title
        columns[metric] = lists.key_column(head, partial(_metric_value, metric), "num")
    return columns


def _metric_value(metric: str, line: DeviceSample) -> float | None:
    return line.values.get(metric)


def _value_text(metric: str, value: float | None) -> str:
    unit = DEVICE_PANELS[metric].unit
    return "–" if value is None else short_si(value, RATE_UNITS.get(unit, unit))
