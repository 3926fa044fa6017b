# SPDX-License-Identifier: Apache-2.0
"""Arrays of float8 as PostgreSQL sends them in binary: as text a day of a hundred series takes ten times as long."""

from __future__ import annotations

from typing import Any

import numpy as np

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
