# SPDX-License-Identifier: Apache-2.0
"""Series as they lie in the database, arrays of float8: told apart from the slower way by text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from benchlab.results.arrow import Field, Texts, json_numbers, schema
from benchlab.runs.float_arrays import parse_float_array


def series_tables(fields: Sequence[Field], rows: Iterable[tuple[Any, ...]]) -> Iterator[pa.Table]:
    """One table per series, its fields in the order asked for."""
    table_schema = schema(fields)
    seconds = np.empty(0)
    for *columns, times, values in rows:
        seconds = seconds if times is None else parse_float_array(times)
        arrays = {"time": seconds, "value": parse_float_array(values)}
        rest = iter(columns)
        yield pa.Table.from_arrays(
            [
                pa.array(arrays[f.name])
                if f.name in arrays
                else pa.repeat(
                    pa.scalar(next(rest)).cast(table_schema.field(f.name).type), len(arrays["time"])
                )
                for f in fields
            ],
            schema=table_schema,
        )


def series_json(
    fields: Sequence[Field], rows: Iterable[tuple[Any, ...]]
) -> Iterator[tuple[int, Texts]]:
    """(values, JSON of each column) of each series. Devices share their times: those are written once."""
    times_text, length = b"", 0
    for *columns, times, values in rows:
        if times is not None:
            seconds = parse_float_array(times)
            times_text, length = json_numbers(seconds), len(seconds)
        if not length:
            continue
        arrays = {"time": times_text, "value": json_numbers(parse_float_array(values))}
        rest = iter(columns)
        yield (
            length,
            [
                arrays[f.name] if f.name in arrays else _repeat_value(next(rest), length)
                for f in fields
            ],
        )


def _repeat_value(value: object, times: int) -> bytes:
    return (orjson.dumps(value) + b",") * (times - 1) + orjson.dumps(value)
