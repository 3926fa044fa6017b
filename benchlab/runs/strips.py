# SPDX-License-Identifier: Apache-2.0
"""Arrays of samples in the database: rows by COPY, series in binary, and strips that charts of a long run read instead.

A day of a hundred series is 10 million samples, and PostgreSQL reads an array as a whole. So each metric lies here once
more, cut across: all devices of a stretch of time in one row, by sample and as buckets of FINE and COARSE samples with
their smallest and largest. It is made with the series, in the same transaction, and holds nothing that they do not.

An INSERT of a run's hundred series is read word by word, and a day of them as text takes ten times as long as in
binary.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
from django.db import connection
from django.db.models import Model
from psycopg.sql import SQL, Identifier, Literal

from agents.contracts import Series
from benchlab.analysis.series import COARSE, FINE, Buckets, Floats, bucket_samples
from benchlab.runs.models import Attempt, Strip

# samples: shorter series are read as they are
MIN_SAMPLES = 4096
# buckets of one strip
BUCKETS_PER_STRIP = 1024
STRIP_FIELDS = (
    "attempt",
    "clock",
    "sampler",
    "metric",
    "unit",
    "every",
    "first",
    "devices",
    "most",
    "data",
)
# Of each device and bucket; what a strip of more than one sample each holds, one array after the other.
BUCKET_COLUMNS = (
    *((name, "<f8") for name in ("low", "high", "total")),
    *((name, "u1") for name in ("low_at", "high_at", "sample_counts")),
)


@dataclass(frozen=True, slots=True)
class SampledSeries:
    """One series as arrays."""

    sampler: str
    device: str
    metric: str
    unit: str
    times: Floats
    values: Floats


@dataclass(frozen=True, slots=True, eq=False)
class MetricRows:
    """One metric of some devices on one clock. `most`: maxima over the whole of it, whatever part `buckets` cover."""

    sampler: str
    metric: str
    unit: str
    devices: tuple[str, ...]
    most: tuple[float, ...]
    buckets: Buckets


def sampled_series(sampler: str, series: Series) -> SampledSeries:
    """Convert a series from the form in which a sampler or tool reports it."""
    times, values = (
        np.array(numbers, dtype=np.float64) for numbers in (series.times, series.values)
    )
    return SampledSeries(sampler, series.device, series.metric, str(series.unit), times, values)


def store_strips(attempt: Attempt, series: Iterable[SampledSeries]) -> None:
    """Store strips of the series that are long. The attempt must not have any yet."""
    clocks: dict[bytes, int] = {}
    rows: list[tuple[object, ...]] = []
    for group in group_by_clock(item for item in series if len(item.times) >= MIN_SAMPLES):
        raw = np.asarray(group[0].times, "<f8").tobytes()
        if raw not in clocks:
            clocks[raw] = len(clocks)
            rows.append((attempt.pk, clocks[raw], "", "", "", 0, 0, [], [], raw))
        rows += ((attempt.pk, clocks[raw], *row) for row in _strip_rows(group))
    copy_rows(Strip, STRIP_FIELDS, rows)


def group_by_clock(series: Iterable[SampledSeries]) -> list[list[SampledSeries]]:
    """Groups of series with the same sampler, metric and clock, which are rows of one table."""
    groups: dict[tuple[str, str, str, bytes], list[SampledSeries]] = defaultdict(list)
    for item in series:
        groups[item.sampler, item.metric, item.unit, item.times.tobytes()].append(item)
    return list(groups.values())


def metric_rows(group: Sequence[SampledSeries]) -> MetricRows:
    """Rows of a group from `group_by_clock`, by sample."""
    first = group[0]
    buckets = bucket_samples(first.times, np.stack([item.values for item in group]))
    names = tuple(item.device for item in group)
    return MetricRows(first.sampler, first.metric, first.unit, names, _maxima(buckets), buckets)


def _maxima(buckets: Buckets) -> tuple[float, ...]:
    return tuple(np.fmax.reduce(buckets.high, axis=1, initial=np.nan).tolist())


def _strip_rows(group: Sequence[SampledSeries]) -> Iterator[tuple[object, ...]]:
    """Yield rows of STRIP_FIELDS, without attempt and clock."""
    whole = metric_rows(group)
    fine = whole.buckets.coarser(FINE)
    for buckets in (whole.buckets, fine, fine.coarser(COARSE // FINE)):
        for at in range(0, buckets.low.shape[1], BUCKETS_PER_STRIP):
            stretch = slice(at, at + BUCKETS_PER_STRIP)
            first = at * buckets.every
            yield (
                whole.sampler,
                whole.metric,
                whole.unit,
                buckets.every,
                first,
                list(whole.devices),
                list(whole.most),
                _packed(buckets, stretch),
            )


def _packed(buckets: Buckets, stretch: slice) -> bytes:
    if buckets.every == 1:
        return np.ascontiguousarray(buckets.low[:, stretch], "<f8").tobytes()
    return b"".join(
        _within_bucket(getattr(buckets, name)[:, stretch], name, buckets.every)
        .astype(kind)
        .tobytes()
        for name, kind in BUCKET_COLUMNS
    )


def _within_bucket(array: Any, name: str, every: int) -> Any:
    """Positions relative to the first sample of their bucket, which fit in a byte."""
    return array % every if name.endswith("_at") else array


def read_clocks(attempt: Attempt) -> dict[int, Floats]:
    """The times of all samples of each clock; {} of an attempt that has no strips."""
    rows = attempt.strips.filter(every=0).values_list("clock", "data")
    return {clock: np.frombuffer(bytes(data), "<f8") for clock, data in rows}


def covered_metrics(attempt: Attempt) -> list[tuple[str, str, tuple[str, ...]]]:
    """(sampler, metric, devices) of each metric that has strips."""
    rows = attempt.strips.filter(every=COARSE, first=0)
    return [(s, m, tuple(d)) for s, m, d in rows.values_list("sampler", "metric", "devices")]


def read_strips(
    attempt: Attempt, metrics: Sequence[str], clock: int, times: Floats, every: int, part: slice
) -> Iterator[MetricRows]:
    """Yield the samples `part` of a clock, from strips of `every` samples. `part` begins and ends between buckets."""
    where = SQL(
        "SELECT sampler, metric, unit, first, devices, most, data FROM runs_strip WHERE attempt_id = {}"
        " AND every = {} AND clock = {} AND metric = ANY({}) AND first < {} AND first > {}"
        " ORDER BY sampler, metric, unit, devices, first"
    ).format(
        Literal(attempt.pk),
        Literal(every),
        Literal(clock),
        Literal(list(metrics)),
        Literal(part.stop),
        Literal(part.start - BUCKETS_PER_STRIP * every),
    )
    strips_by_metric: dict[tuple[Any, ...], list[tuple[int, bytes]]] = defaultdict(list)
    connection.ensure_connection()
    with psycopg.Cursor(connection.connection) as cursor:
        for sampler, metric, unit, first, devices, most, data in cursor.stream(where, binary=True):
            key = sampler, metric, unit, tuple(devices), tuple(most)
            strips_by_metric[key].append((first, data))
    for (sampler, metric, unit, devices, most), strips in strips_by_metric.items():
        buckets = _unpacked(strips, len(devices), every, part, times)
        yield MetricRows(sampler, metric, unit, devices, most, buckets)


def _unpacked(
    strips: list[tuple[int, bytes]], devices: int, every: int, part: slice, times: Floats
) -> Buckets:
    """Buckets of the requested part, from the strips that hold it."""
    begin = strips[0][0] // every
    columns_of_part = slice(part.start // every - begin, -(-part.stop // every) - begin)
    inside = times[part]
    if every == 1:
        values = [np.frombuffer(data, "<f8").reshape(devices, -1) for _, data in strips]
        return bucket_samples(inside, np.concatenate(values, axis=1)[:, columns_of_part])
    columns: dict[str, list[Any]] = defaultdict(list)
    for _, data in strips:
        cells = len(data) // sum(np.dtype(kind).itemsize for _, kind in BUCKET_COLUMNS)
        at = 0
        for name, kind in BUCKET_COLUMNS:
            columns[name].append(np.frombuffer(data, kind, cells, at).reshape(devices, -1))
            at += cells * np.dtype(kind).itemsize
    whole = {
        name: np.concatenate(many, axis=1)[:, columns_of_part] for name, many in columns.items()
    }
    steps = np.arange(whole["low"].shape[1]) * every
    places = {
        name: many.astype(np.int64) + (steps if name.endswith("_at") else 0)
        for name, many in whole.items()
        if many.dtype == np.uint8
    }
    return Buckets(every, inside, **{**whole, **places})


def copy_rows(
    model: type[Model],
    fields: Sequence[str],
    rows: Iterable[Sequence[object]],
    types: Sequence[str] = (),
) -> None:
    """Store rows of these fields, which no default fills and no database's default. Raises django.db.Error.

    A list without rows is no statement. With the columns' `types` rows are sent in binary: as text a bytea is twice as
    long, and its digits have to be read.
    """
    if isinstance(rows, Sequence) and not rows:
        return
    meta: Any = model._meta
    columns = [Identifier(meta.get_field(name).column) for name in fields]
    statement = SQL("COPY {} ({}) FROM STDIN {}").format(
        Identifier(meta.db_table),
        SQL(", ").join(columns),
        SQL("(FORMAT BINARY)" if types else ""),
    )
    with (
        connection.cursor() as cursor,
        connection.wrap_database_errors,
        cursor.copy(statement) as to,
    ):
        if types:
            to.set_types(types)
        for row in rows:
            to.write_row(row)


def array_literal(numbers: Iterable[float]) -> str:
    """Array as PostgreSQL reads it. psycopg would take ten times as long to write an hour's series number by number."""
    return "{" + ",".join([repr(float(number)) for number in numbers]) + "}"


FloatArray = np.ndarray[Any, np.dtype[np.float64]]
# How PostgreSQL sends float8[]: dimensions, whether there are NULLs, the type; then length and first index of each.
# bytes
HEADER_BYTES, DIMENSION_BYTES = 12, 8
ELEMENT = np.dtype([("length", ">i4"), ("value", ">f8")])


def parse_float_array(encoded: bytes) -> FloatArray:
    """array_send(float8[]); a NULL in it is NaN. Raises ValueError for an array of arrays."""
    dimensions, nulls = np.frombuffer(encoded, ">i4", 2)
    if dimensions == 0:
        return np.empty(0)
    if dimensions != 1:
        raise ValueError("a series is one array, not an array of arrays")
    if nulls:
        return _with_nulls(encoded[HEADER_BYTES + DIMENSION_BYTES :])
    return np.frombuffer(encoded, ELEMENT, offset=HEADER_BYTES + DIMENSION_BYTES)["value"].astype(
        np.float64
    )


def _with_nulls(encoded: bytes) -> FloatArray:
    values, place = [], 0
    while place < len(encoded):
        length = int.from_bytes(encoded[place : place + 4], "big", signed=True)
        value = np.frombuffer(encoded, ">f8", 1, place + 4)[0] if length == 8 else np.nan
        values.append(value)
        place += 4 + max(length, 0)
    return np.array(values, dtype=np.float64)
