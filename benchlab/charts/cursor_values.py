# SPDX-License-Identifier: Apache-2.0
"""Values of every device at one instant of a run, as a part of the run's page: ?at= in seconds, ?sort= by a column."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from django.http import HttpRequest

from benchlab.analysis.buckets import Floats
from benchlab.charts import device_figures, request_params
from benchlab.charts.attempt_samples import read_disk_uses, read_rows
from benchlab.charts.device_figures import CPU_STATES, DEVICE_PANELS
from benchlab.charts.device_work import StackedDevice, order_devices
from benchlab.charts.panels import any_above_zero
from benchlab.charts.sampled_tracks import Span, Track
from benchlab.runs.models import Attempt
from benchlab.runs.strips import MetricRows
from benchlab.web import lists
from benchlab.web.units import short_si

# s: a time that went through an address
TIME_TOLERANCE_S = 1e-6
# (device, start, end of its sample) -> metric -> value
ValuesBySample = dict[tuple[str, float, float], dict[str, float]]


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
    sampled: Iterable[MetricRows], devices: Collection[str], facts: Mapping[str, Any], at: float
) -> Instant | None:
    """Return the values of `devices` at `at`, with the times of the neighbouring samples; None outside all samples."""
    rows = [row for row in sampled if row.metric in DEVICE_PANELS or row.metric in CPU_STATES]
    placed = [
        (row, place) for row in rows if (place := _sample_index(row.buckets.times, at)) is not None
    ]
    values = _values_by_sample(placed, devices)
    if not values:
        return None
    metrics = tuple(metric for metric in DEVICE_PANELS if any_above_zero(rows, metric))
    return Instant(
        tuple(_ordered_samples(values, facts)),
        metrics,
        _cpu_shares(placed),
        *_neighbour_times(placed),
    )


def _values_by_sample(
    placed: Iterable[tuple[MetricRows, int]], devices: Collection[str]
) -> ValuesBySample:
    by_sample: ValuesBySample = {}
    for rows, place in placed:
        if rows.metric not in DEVICE_PANELS:
            continue
        scale = 100.0 if DEVICE_PANELS[rows.metric][1] == "%" else 1.0
        for name, value in _device_values(rows, place):
            if name in devices:
                values = by_sample.setdefault((name, *_sample_span(rows.buckets.times, place)), {})
                if not math.isnan(value):
                    values[rows.metric] = value * scale
    return by_sample


def _cpu_shares(placed: Iterable[tuple[MetricRows, int]]) -> dict[str, float]:
    """Shares in the order of the chart."""
    shares = {
        rows.metric: 100 * value
        for rows, place in placed
        for name, value in _device_values(rows, place)
        if rows.metric in CPU_STATES and not name and not math.isnan(value)
    }
    return {words: shares[metric] for metric, words in CPU_STATES.items() if metric in shares}


def _device_values(rows: MetricRows, place: int) -> Iterator[tuple[str, float]]:
    return zip(rows.devices, rows.buckets.low[:, place].tolist(), strict=True)


def _ordered_samples(by_sample: ValuesBySample, facts: Mapping[str, Any]) -> Iterator[DeviceSample]:
    """Order volumes above their disks, as in the chart's legend."""
    for placed in order_devices({name for name, _, _ in by_sample}, facts):
        for (name, start, end), values in by_sample.items():
            if name == placed.name:
                yield DeviceSample(placed, start, end, values)


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


def _neighbour_times(placed: Sequence[tuple[MetricRows, int]]) -> tuple[float | None, float | None]:
    """Ends of the nearest samples before and behind."""
    times = [(rows.buckets.times, place) for rows, place in placed]
    before = [float(ends[place - 1]) for ends, place in times if place]
    behind = [float(ends[place + 1]) for ends, place in times if place + 1 < len(ends)]
    return max(before, default=None), min(behind, default=None)


# of the part, which is swapped alone
PART_ID = "instant"
PART_TEMPLATE = "charts/_instant.html"
# read as well: the next sample
LOOK_AHEAD_S = 60.0
# by a panel's unit
RATE_UNITS = {"r/s": "op/s", "w/s": "op/s"}
# parameters of the same page
OTHER_PARAMETERS = ("attempt", "window", "members", "at")


def instant_context(request: HttpRequest, attempt: Attempt) -> dict[str, Any]:
    """Build the context. Raises BadRequest if ?at= is no number or ?sort= no column."""
    if not request.GET.get("at"):
        return {}
    at = request_params.finite_seconds(request.GET, "at")
    facts = attempt.facts.facts if attempt.facts else {}
    rows_near = read_rows(
        attempt,
        (*device_figures.DEVICE_PANELS, *device_figures.CPU_STATES),
        Span(at, at + LOOK_AHEAD_S),
    )
    own = {name for use in read_disk_uses(attempt) for name in use.members}
    values = values_at(rows_near, device_figures.active_devices(rows_near) | own, facts, at)
    if values is None:
        return {"at": at}
    listed = lists.filter_in_memory(
        request,
        values.lines,
        _value_columns(values),
        lambda line: [line.device.label],
        place=f"#{PART_ID}",
        filters=OTHER_PARAMETERS,
    )
    rows = [
        (line, [_value_text(metric, line.values.get(metric)) for metric in values.metrics])
        for line in listed.rows
    ]
    links = {
        "earlier": _address_at(request, values.earlier),
        "later": _address_at(request, values.later),
    }
    return {"at": at, "instant": values, "listed": listed, "rows": rows, **links}


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
        title, unit = device_figures.DEVICE_PANELS[metric]
        head = f"{title} ({unit})" if unit in RATE_UNITS else title
        columns[metric] = lists.key_column(head, partial(_metric_value, metric), "num")
    return columns


def _metric_value(metric: str, line: DeviceSample) -> float | None:
    return line.values.get(metric)


def _value_text(metric: str, value: float | None) -> str:
    unit = device_figures.DEVICE_PANELS[metric][1]
    return "–" if value is None else short_si(value, RATE_UNITS.get(unit, unit))
