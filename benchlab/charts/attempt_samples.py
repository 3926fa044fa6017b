# SPDX-License-Identifier: Apache-2.0
"""An attempt's stored samples, and the disks that its layers used."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import psycopg
from psycopg.sql import SQL, Literal

from agents.contracts import AgentError, Window
from agents.drivers import registry
from agents.drivers.protocols import Reader, Tool
from agents.plans import applied_part, chain
from agents.plans.stack import Placed
from benchlab.analysis.buckets import stored_step
from benchlab.analysis.evidence import Layer
from benchlab.charts import device_work, sampled_tracks
from benchlab.charts.device_work import DiskUse
from benchlab.charts.sampled_tracks import Span, Track, narrow_rows
from benchlab.results.reading import raw_connection
from benchlab.runs import strips
from benchlab.runs.attempt_meta import DISKS, READERS
from benchlab.runs.float_arrays import parse_float_array
from benchlab.runs.models import Attempt, Series
from benchlab.runs.strips import MetricRows, SampledSeries
from benchlab.topologies import moments

# a day's is 1.4 MB
SERIES_AT_ONCE = 8


def read_rows(attempt: Attempt, metrics: Collection[str], span: Span) -> list[MetricRows]:
    """Read rows of these metrics for every device. Both ways to read them give the same rows."""
    sampled = [
        *_rows_from_strips(attempt, metrics, span),
        *_rows_from_series(attempt, metrics, span),
    ]
    return [_with_device_names(attempt, rows) for rows in sampled]


def _rows_from_strips(
    attempt: Attempt, metrics: Collection[str], span: Span
) -> Iterator[MetricRows]:
    for clock, times in strips.read_clocks(attempt).items():
        part, every = span.slice_samples(times)
        step = stored_step(every)
        for rows in strips.read_strips(attempt, list(metrics), clock, times, step, part):
            yield replace(rows, buckets=rows.buckets.coarser(every // step))


def _rows_from_series(
    attempt: Attempt, metrics: Collection[str], span: Span
) -> Iterator[MetricRows]:
    """Read the rows that no strip holds."""
    has = {
        (s, m, device) for s, m, devices in strips.covered_metrics(attempt) for device in devices
    }
    rows = Series.objects.filter(attempt=attempt, metric__in=metrics).order_by(
        "sampler", "device", "pk"
    )
    keys = rows.values_list("pk", "sampler", "metric", "device")
    remaining = [pk for pk, *key in keys if tuple(key) not in has]
    for group in strips.group_by_clock(_read_series(remaining)) if remaining else ():
        yield narrow_rows(strips.metric_rows(group), span)


def _read_series(pks: Sequence[int]) -> Iterator[SampledSeries]:
    """Read a few series at a time, in binary: as text a day of a hundred series takes ten times as long."""
    for at in range(0, len(pks), SERIES_AT_ONCE):
        statement = SQL(
            "SELECT sampler, device, metric, unit, array_send(times), array_send(values)"
            " FROM runs_series WHERE id = ANY({}) ORDER BY sampler, device, id"
        ).format(Literal(list(pks[at : at + SERIES_AT_ONCE])))
        with psycopg.Cursor(raw_connection()) as cursor:
            rows = cursor.execute(statement, binary=True).fetchall()
        for sampler, device, metric, unit, times, values in rows:
            yield SampledSeries(
                sampler, device, metric, unit, parse_float_array(times), parse_float_array(values)
            )


def _with_device_names(attempt: Attempt, rows: MetricRows) -> MetricRows:
    placed = _shares_host_clock(attempt)
    names = (_device_name(rows.sampler, rows.metric, device, placed)[0] for device in rows.devices)
    return replace(rows, devices=tuple(names))


def read_tracks(attempt: Attempt) -> list[Track]:
    return list(iterate_tracks(attempt))


def iterate_tracks(attempt: Attempt) -> Iterator[Track]:
    """Yield the tracks one after the other, with only a few series in memory at a time."""
    rows = Series.objects.filter(attempt=attempt).order_by("sampler", "device", "pk")
    placed = _shares_host_clock(attempt)
    for series in _read_series(list(rows.values_list("pk", flat=True))):
        name, apart = _device_name(series.sampler, series.metric, series.device, placed)
        yield Track(name, series.metric, series.unit, series.times, series.values, own_clock=apart)


def _shares_host_clock(attempt: Attempt) -> bool:
    """True if the offset between the tool's times and the host's clock is known."""
    return sum(window.measured for window in read_windows(attempt)) == 1 or READERS in attempt.meta


def _device_name(sampler: str, metric: str, device: str, placed: bool) -> tuple[str, bool]:
    """Return (the device's name, whether its times are on a clock other than the host's)."""
    name = "" if device else _tool_label(sampler, metric)
    apart = bool(name) and not placed
    return f"{name}, by its own clock" if apart else name or device, apart


def _tool_label(sampler: str, metric: str) -> str:
    """Label of the tool whose own figures these are, or they would be taken for the host's; "" where they are the
    host's.
    """
    if sampler in registry.all_samplers() or metric.startswith("cpu."):
        return ""
    drivers: dict[str, Tool[Any] | Reader] = {**registry.all_readers(), **registry.all_tools()}
    driver = drivers.get(sampler)
    return f"{driver.LABEL} itself" if driver else sampler


def read_windows(attempt: Attempt) -> list[Window]:
    """Return the windows of its tool's phases, on the clock of its tracks; [] if unknown."""
    return sampled_tracks.parse_windows(attempt.windows)


def read_placed_layers(attempt: Attempt) -> tuple[Placed, ...] | None:
    """Return the layers of its plan at its moment; None if there is no readable plan, as for imported results."""
    try:
        plan = applied_part.from_json(attempt.layout.plan or {})
    except AgentError:
        return None
    return tuple(plan.layers_after(moments.parse_moment(attempt.run.stage).stage))


def read_layers(attempt: Attempt) -> list[Layer]:
    """Return the layers of the plan, else those that the import names; empty if neither is known."""
    placed = read_placed_layers(attempt)
    if placed is not None:
        return device_work.plan_layers(placed)
    disks = attempt.meta.get(DISKS) or {}
    return device_work.imported_layers(chain.specs(attempt.layout.stack), disks) if disks else []


def read_disk_uses(attempt: Attempt) -> list[DiskUse]:
    return device_work.disk_uses(read_layers(attempt))
