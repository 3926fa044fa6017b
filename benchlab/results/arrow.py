# SPDX-License-Identifier: Apache-2.0
"""Arrow, Parquet and columnar JSON, made batch by batch from CSV lines or stored series, in bounded memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from benchlab.results.columns import Kind
from benchlab.results.reading import gather_parts
from benchlab.runs.strips import parse_float_array

# bytes of CSV
BATCH_BYTES = 4 << 20
# rows
ROW_GROUP_ROWS = 50_000
# bytes of one column of JSON; more lie on the disk
MAX_MEMORY_BYTES = 1 << 20
ARROW_TYPES = {
    Kind.WHOLE: pa.int64(),
    Kind.NUMBER: pa.float64(),
    Kind.TIME: pa.timestamp("us", tz="UTC"),
}


@dataclass(frozen=True, slots=True)
class Field:
    """A column as it goes out; `unit` where all of its values have the same."""

    name: str
    kind: Kind
    unit: str = ""


class Sink:
    """Sink of one of pyarrow's writers, which returns what was written since the last call."""

    def __init__(self) -> None:
        self.closed = False
        self.held: list[bytes] = []

    def write(self, data: Any) -> int:
        self.held.append(bytes(data))
        return len(self.held[-1])

    def flush(self) -> None:
        """Do nothing: there is nothing to flush to."""

    def close(self) -> None:
        self.closed = True

    def drain(self) -> bytes:
        held, self.held = self.held, []
        return b"".join(held)


def schema(fields: Sequence[Field]) -> pa.Schema:
    return pa.schema(
        pa.field(
            f.name,
            ARROW_TYPES.get(f.kind, pa.string()),
            metadata={"unit": f.unit} if f.unit else None,
        )
        for f in fields
    )


def csv_tables(fields: Sequence[Field], lines: Iterator[bytes]) -> Iterator[pa.Table]:
    """Parsed CSV: nothing is NULL, "" an empty text."""
    table_schema = schema(fields)
    # two columns may have the same name
    places = [str(n) for n in range(len(fields))]
    read = pa.csv.ReadOptions(column_names=places, use_threads=False, block_size=2 * BATCH_BYTES)
    parse = pa.csv.ParseOptions(newlines_in_values=True)
    convert = pa.csv.ConvertOptions(
        column_types=dict(zip(places, table_schema.types, strict=True)),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    for part in gather_parts(lines, BATCH_BYTES):
        batch = pa.csv.read_csv(pa.BufferReader(part), read, parse, convert)
        yield pa.Table.from_arrays(batch.columns, schema=table_schema)


def arrow_stream(fields: Sequence[Field], batches: Iterable[pa.Table]) -> Iterator[bytes]:
    """Arrow's IPC stream: schema, then one or more record batches for each table."""
    sink = Sink()
    with pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), schema(fields)) as writer:
        for table in batches:
            writer.write_table(table)
            yield sink.drain()
    yield sink.drain()


def parquet(fields: Sequence[Field], batches: Iterable[pa.Table]) -> Iterator[bytes]:
    sink = Sink()
    with pa.parquet.ParquetWriter(sink, schema(fields)) as writer:
        for group in _row_groups(batches):
            writer.write_table(group, row_group_size=len(group))
            yield sink.drain()
    yield sink.drain()


def _row_groups(batches: Iterable[pa.Table]) -> Iterator[pa.Table]:
    held: list[pa.Table] = []
    for table in batches:
        held.append(table)
        if sum(map(len, held)) >= ROW_GROUP_ROWS:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


# for each column: JSON values with commas between, not in brackets
Texts = list[bytes]


def json_columns(
    fields: Sequence[Field], batches: Iterable[pa.Table]
) -> Iterator[tuple[int, Texts]]:
    """(rows, JSON of each column) of each table."""
    for table in batches:
        if len(table):
            yield len(table), [_json(column) for column in table.columns]


def _json(column: pa.ChunkedArray) -> bytes:
    # few are different: each is made once
    if pa.types.is_string(column.type):
        encoded = column.combine_chunks().dictionary_encode()
        texts = [orjson.dumps(text) for text in encoded.dictionary.to_pylist()]
        texts.append(b"null")
        places = encoded.indices.fill_null(len(texts) - 1).to_pylist()
        return b",".join(map(texts.__getitem__, places))
    if pa.types.is_floating(column.type):
        return json_numbers(column.to_numpy())
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.string()) if column.null_count else column
        return orjson.dumps(column.to_pylist(), option=orjson.OPT_UTC_Z)[1:-1]
    return orjson.dumps(column.to_pylist())[1:-1]


def json_numbers(values: np.ndarray[Any, np.dtype[np.float64]]) -> bytes:
    """Numbers as JSON, without brackets; what is not known is null."""
    return orjson.dumps(np.ascontiguousarray(values), option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]


def columnar_json(fields: Sequence[Field], batches: Iterable[tuple[int, Texts]]) -> Iterator[bytes]:
    """{"rows": 2, "columns": [{"name", "kind", "unit"}], "data": {"run": [1, 2], …}}.

    The columns follow each other, so each is buffered until all rows are read: on disk, if it is long.
    """
    rows = 0
    with ExitStack() as stack:
        spools = [stack.enter_context(SpooledColumn()) for _ in fields]
        for number, texts in batches:
            for spool, text in zip(spools, texts, strict=True):
                spool.append(text)
            rows += number
        descriptions = [
            {"name": f.name, "kind": f.kind.value, "unit": f.unit or None} for f in fields
        ]
        yield b'{"rows":%d,"columns":%s,"data":{' % (rows, orjson.dumps(descriptions))
        for place, (field, spool) in enumerate(zip(fields, spools, strict=True)):
            yield b"%s%s:[" % (b"," if place else b"", orjson.dumps(field.name))
            yield from spool.read_parts()
            yield b"]"
        yield b"}}"


class SpooledColumn:
    """JSON values of one column, in memory until they are many, then in a file that has no name."""

    def __init__(self) -> None:
        self.held: list[bytes] = []
        self.length = 0
        self.file: IO[bytes] | None = None

    def __enter__(self) -> SpooledColumn:
        return self

    def __exit__(self, *error: object) -> None:
        if self.file:
            self.file.close()

    def append(self, text: bytes) -> None:
        self.held.append(text)
        self.length += len(text)
        if self.length > MAX_MEMORY_BYTES:
            if self.file is None:
                self.file = tempfile.TemporaryFile()  # noqa: SIM115 -- closed with us
            else:
                self.file.write(b",")
            self.file.write(b",".join(self.held))
            self.held, self.length = [], 0

    def read_parts(self) -> Iterator[bytes]:
        if self.file:
            self.file.seek(0)
            while part := self.file.read(BATCH_BYTES):
                yield part
            if self.held:
                yield b","
        yield b",".join(self.held)


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
