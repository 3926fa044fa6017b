"""Series as they lie in the database, arrays of float8: told apart from the slower way by text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from benchlab.results.arrow import Field, Texts, numbers, schema

Doubles = np.ndarray[Any, np.dtype[np.float64]]
# How PostgreSQL sends float8[]: dimensions, whether there are NULLs, the type; then length and first index of each.
HEAD, DIMENSION = 12, 8  # bytes
ELEMENT = np.dtype([("length", ">i4"), ("value", ">f8")])


def doubles(sent: bytes) -> Doubles:
    """array_send(float8[]); a NULL in it is NaN. Raises ValueError for an array of arrays."""
    dimensions, nulls = np.frombuffer(sent, ">i4", 2)
    if dimensions == 0:
        return np.empty(0)
    if dimensions != 1:
        raise ValueError("a series is one array, not an array of arrays")
    if nulls:
        return _with_nulls(sent[HEAD + DIMENSION :])
    return np.frombuffer(sent, ELEMENT, offset=HEAD + DIMENSION)["value"].astype(np.float64)


def _with_nulls(sent: bytes) -> Doubles:
    found, place = [], 0
    while place < len(sent):
        length = int.from_bytes(sent[place : place + 4], "big", signed=True)
        value = np.frombuffer(sent, ">f8", 1, place + 4)[0] if length == 8 else np.nan
        found.append(value)
        place += 4 + max(length, 0)
    return np.array(found, dtype=np.float64)


def tables(fields: Sequence[Field], rows: Iterable[tuple[Any, ...]]) -> Iterator[pa.Table]:
    """One table per series, its fields in the order asked for."""
    wanted = schema(fields)
    seconds = np.empty(0)
    for *told, times, values in rows:
        seconds = seconds if times is None else doubles(times)
        arrays = {"time": seconds, "value": doubles(values)}
        rest = iter(told)
        yield pa.Table.from_arrays(
            [
                pa.array(arrays[f.name])
                if f.name in arrays
                else pa.repeat(
                    pa.scalar(next(rest)).cast(wanted.field(f.name).type), len(arrays["time"])
                )
                for f in fields
            ],
            schema=wanted,
        )


def texts(fields: Sequence[Field], rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[int, Texts]]:
    """(values, JSON of each column) of each series. Devices share their times: those are written once."""
    times_text, length = b"", 0
    for *told, times, values in rows:
        if times is not None:
            found = doubles(times)
            times_text, length = numbers(found), len(found)
        if not length:
            continue
        arrays = {"time": times_text, "value": numbers(doubles(values))}
        rest = iter(told)
        yield (
            length,
            [arrays[f.name] if f.name in arrays else _repeated(next(rest), length) for f in fields],
        )


def _repeated(value: object, times: int) -> bytes:
    return (orjson.dumps(value) + b",") * (times - 1) + orjson.dumps(value)
