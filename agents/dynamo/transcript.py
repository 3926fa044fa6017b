# SPDX-License-Identifier: Apache-2.0
"""All messages of a session as one file, which is the artifact: written as they pass, read back whole or not at all.

Runs on the host. The file: MAGIC, then records. Each is a HEAD (kind, channel, nanoseconds, bytes on the wire, bytes
stored, check sum), then what is stored: the message without the zeros at its end. Kinds:

    >  the console sent it        N  a note of the console's, JSON
    <  dynamo sent it             E  the end, JSON: {"outcome": "done" or a DynamoError's kind, "text"}

The channel is L (login) or C (control). Times are those of the console's monotonic clock, from its start. The check sum
(CRC-32) goes on from the record before, so that nothing can be missing, doubled or changed.
"""

import json
import struct
from binascii import crc32
from typing import Callable, Dict, List, NamedTuple, Tuple

from agents.dynamo.wire import DATA_BYTES, MESSAGE, DynamoError

MAGIC = b"benchlab dynamo messages 1\n"
HEAD = struct.Struct("<ccQIII")
_SIZED = struct.Struct("<ccQII")
LOGIN, CONTROL = "L", "C"
COMPLETED = "done"
BLOCK = bytes(1 << 14)
# note of a console beside dynamo: its start, on that host's monotonic clock
STARTED = "monotonic"


class Record(NamedTuple):
    kind: str
    channel: str
    # seconds
    at: float
    stored: bytes
    wire: int

    @property
    def message_bytes(self) -> bytes:
        """The message as sent on the wire."""
        return self.stored.ljust(self.wire, b"\0")


class Transcript(NamedTuple):
    # only ">" and "<"
    records: Tuple[Record, ...]
    notes: Tuple[Tuple[float, Dict[str, object]], ...]
    end: Dict[str, object]


class Writer:
    """Writes a transcript through `write`, which takes bytes; it is complete only after `end`."""

    def __init__(self, write: Callable[[bytes], object], began: float) -> None:
        self._write, self._began = write, began
        self._sum = crc32(MAGIC)
        write(MAGIC)

    def write_message(self, direction: str, channel: str, at: float, raw: bytes) -> None:
        self._write_record(direction, channel, at, strip_zeros(raw), len(raw))

    def write_note(self, at: float, fields: Dict[str, object]) -> None:
        self._write_json("N", at, fields)

    def write_end(self, at: float, outcome: str, text: str = "") -> None:
        self._write_json("E", at, {"outcome": outcome, "text": text})

    def _write_json(self, kind: str, at: float, fields: Dict[str, object]) -> None:
        stored = json.dumps(fields, sort_keys=True).encode()
        self._write_record(kind, "-", at, stored, len(stored))

    def _write_record(self, kind: str, channel: str, at: float, stored: bytes, wire: int) -> None:
        nanoseconds = max(0, round((at - self._began) * 1e9))
        sized = _SIZED.pack(kind.encode(), channel.encode(), nanoseconds, wire, len(stored))
        self._sum = crc32(stored, crc32(sized, self._sum))
        self._write(sized + struct.pack("<I", self._sum) + stored)


def strip_zeros(raw: bytes) -> bytes:
    """The message without the zeros at its end, which are most of it.

    Whole blocks are removed first: byte by byte costs 150 times as much.
    """
    end = len(raw)
    while end >= len(BLOCK) and raw[end - len(BLOCK) : end] == BLOCK:
        end -= len(BLOCK)
    return raw[:end].rstrip(b"\0")


def parse_transcript(data: bytes) -> Transcript:
    """Parse a transcript. Raises DynamoError("result", …) unless every byte of a whole session is there."""
    if not data.startswith(MAGIC):
        raise DynamoError("result", "not messages of a dynamo session, or an unknown format")
    at, check = len(MAGIC), crc32(MAGIC)
    records: List[Record] = []
    while at < len(data) and not (records and records[-1].kind == "E"):
        record, at, check = _parse_record(data, at, check)
        records.append(record)
    if at < len(data):
        raise DynamoError("result", f"{len(data) - at} bytes follow the end of the session")
    if not records or records[-1].kind != "E":
        raise DynamoError("result", f"truncated: the session has no end (after {at} bytes)")
    notes = tuple((r.at, _parse_json(r)) for r in records if r.kind == "N")
    messages = tuple(r for r in records if r.kind in "<>")
    return Transcript(messages, notes, _parse_json(records[-1]))


def _parse_record(data: bytes, at: int, check: int) -> Tuple[Record, int, int]:
    if len(data) - at < HEAD.size:
        raise DynamoError("result", f"truncated in the middle of a message, at byte {at}")
    kind, channel, nanoseconds, wire, size, checksum = HEAD.unpack_from(data, at)
    begins = at + HEAD.size
    if size > DATA_BYTES or size > len(data) - begins:
        raise DynamoError("result", f"truncated in the middle of a message, at byte {at}")
    stored = data[begins : begins + size]
    check = crc32(stored, crc32(data[at : at + _SIZED.size], check))
    if check != checksum:
        raise DynamoError("result", f"damaged: wrong checksum at byte {at}")
    message = kind in (b"<", b">")
    if not (kind in (b"N", b"E") or (message and wire in (MESSAGE.size, DATA_BYTES))):
        raise DynamoError("result", f"an unknown record at byte {at}")
    record = Record(kind.decode(), channel.decode("latin-1"), nanoseconds / 1e9, stored, wire)
    return record, begins + size, check


def _parse_json(record: Record) -> Dict[str, object]:
    try:
        fields = json.loads(record.stored.decode())
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise DynamoError("result", "a note that is not a JSON object")
    return fields
