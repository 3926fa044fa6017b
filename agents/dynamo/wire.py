# SPDX-License-Identifier: Apache-2.0
"""Frames of the protocol: 8-byte messages and data messages of one fixed size, little-endian. Runs on the host."""

import struct
from typing import NamedTuple, Optional

# every data message, whatever its payload
DATA_BYTES = 888840
MESSAGE = struct.Struct("<Ii")
DATA_HEADER = struct.Struct("<ii")
SIZES = {"message": MESSAGE.size, "data": DATA_BYTES}
# major << 24 | minor << 8 | sub-minor
VERSION_1_1_0 = 0x01000100
VERSION_MASK = 0xFFFFFF00

LOGIN = 0x10000001
ADD_WORKERS = 0x10000002
REPORT_TARGETS = 0x10000003
START = 0x10000004
BEGIN_IO = 0x10000005
RECORD_OFF = 0x10000006
STOP = 0x10000007
REPORT_RESULTS = 0x10000008
REPORT_UPDATE = 0x10000009
STOP_PREPARE = 0x1000000A
SET_TARGETS = 0x1000000B
SET_ACCESS = 0x1000000C
PREP_DISKS = 0x00100001
RECORD_ON = 0x01000002
RESET = 0x01000003
EXIT = 0x01000004
# data of the console's LOGIN, like WRONG_VERSION
LOGIN_OK = 0x1000000F
WRONG_VERSION = 0x10000010

MANAGER = -8
ALL_WORKERS = -4

NAMES = {
    LOGIN: "LOGIN",
    ADD_WORKERS: "ADD_WORKERS",
    REPORT_TARGETS: "REPORT_TARGETS",
    START: "START",
    BEGIN_IO: "BEGIN_IO",
    RECORD_OFF: "RECORD_OFF",
    STOP: "STOP",
    REPORT_RESULTS: "REPORT_RESULTS",
    REPORT_UPDATE: "REPORT_UPDATE",
    STOP_PREPARE: "STOP_PREPARE",
    SET_TARGETS: "SET_TARGETS",
    SET_ACCESS: "SET_ACCESS",
    PREP_DISKS: "PREP_DISKS",
    RECORD_ON: "RECORD_ON",
    RESET: "RESET",
    EXIT: "EXIT",
}


class DynamoError(Exception):
    """An error of dynamo, its answers or its options; the text names the cause and the remedy.

    `kind`: "protocol", "version", "stranger", "timeout", "closed", "refused", "options", "host", "result" or
    "cancelled".
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Message(NamedTuple):
    """A message of eight bytes: its subject, and a number whose meaning depends on that."""

    purpose: int
    data: int

    @property
    def purpose_name(self) -> str:
        return NAMES.get(self.purpose, f"purpose 0x{self.purpose:08x}")

    def encode(self) -> bytes:
        return MESSAGE.pack(self.purpose, self.data)


def decode_message(raw: bytes) -> Message:
    """Decode a message of exactly 8 bytes. Raises DynamoError."""
    if len(raw) != MESSAGE.size:
        raise DynamoError("protocol", f"a message has 8 bytes, not {len(raw)}")
    return Message(*MESSAGE.unpack(raw))


class Inbox:
    """Received bytes, in pieces of any length, that do not make a whole message yet.

    The stream has no lengths and no tags: the request determines what comes next, so the caller names the kind that
    it expects. Typed contents are in messages.py and results.py.
    """

    def __init__(self) -> None:
        self._held = bytearray()

    def __len__(self) -> int:
        return len(self._held)

    def feed(self, data: bytes) -> None:
        self._held += data

    def take_message(self, kind: str) -> Optional[bytes]:
        """The next message of this kind ("message" or "data"); None while it is incomplete."""
        size = SIZES[kind]
        if len(self._held) < size:
            return None
        whole = bytes(self._held[:size])
        del self._held[:size]
        return whole


def pad_message(payload: bytes, count: int = 0) -> bytes:
    """A whole data message of the payload."""
    whole = DATA_HEADER.pack(DATA_BYTES, count) + payload
    if len(whole) > DATA_BYTES:
        raise DynamoError("protocol", f"a payload of {len(payload)} bytes does not fit")
    return whole.ljust(DATA_BYTES, b"\0")


def decode_string(raw: bytes) -> str:
    """The part of a fixed-width string before its NUL."""
    return raw.split(b"\0", 1)[0].decode("latin-1")


def encode_string(value: str, width: int, what: str) -> bytes:
    """The string in `width` bytes, NUL-terminated. Raises DynamoError when it does not fit."""
    try:
        raw = value.encode("latin-1")
    except UnicodeEncodeError:
        raise DynamoError("options", f"{what}: {value!r} is not latin-1") from None
    if b"\0" in raw or len(raw) >= width:
        raise DynamoError(
            "options",
            f"{what}: {value!r} has {len(raw)} bytes; at most {width - 1}, without NUL",
        )
    return raw.ljust(width, b"\0")


def is_supported_version(version: int, size: int) -> bool:
    """True for the login of a dynamo whose structures are known.

    1.1.0-rc1 sends the same one: see results.detect_stride.
    """
    return (version & VERSION_MASK) == VERSION_1_1_0 and size == DATA_BYTES
