# SPDX-License-Identifier: Apache-2.0
"""Data messages except results: manager info, targets, access specifications. Runs on the host."""

import struct
from typing import Iterable, List, NamedTuple, Tuple, Union

from agents.dynamo.wire import (
    DATA_BYTES,
    DATA_HEADER,
    DynamoError,
    decode_string,
    encode_string,
    pad_message,
)

# a directory, with the test file iobw.tst in it
LOGICAL = 0x8A000000
# a raw block device
PHYSICAL = 0x8C000000
# The original console sets this flag in what it sends.
ACTIVE = 0x40000000
TCP_MASK = 0x80088000
TARGET_BYTES, MAX_TARGETS = 434, 2048
MAX_LINES, LINE_BYTES = 100, 32
SPEC_BYTES = 3332
_LOGIN = struct.Struct("<Hid")
_HEAD = struct.Struct("<iiiI")
_DISK = struct.Struct("<20x4iQQ")
_TAIL = struct.Struct("<3iQiQ")
_LINE = struct.Struct("<5i3I")
_INFO_BYTES = 146


class ManagerInfo(NamedTuple):
    """A login: dynamo's identity and port. Its own `ticks` per second are often wrong."""

    size: int
    version: str
    name: str
    address: str
    port: int
    processors: int
    ticks: float


def decode_manager_info(raw: bytes) -> ManagerInfo:
    _check_length(raw, 358, "login")
    size, _ = DATA_HEADER.unpack_from(raw, 0)
    port, processors, ticks = _LOGIN.unpack_from(raw, 344)
    names = decode_string(raw[8:88]), decode_string(raw[88:216]), decode_string(raw[216:344])
    return ManagerInfo(size, names[0], names[1], names[2], port, processors, ticks)


class Disk(NamedTuple):
    """A disk; sizes count sectors of `sector_size`. dynamo determines `ready` and `sector_size` itself."""

    has_partitions: int = 0
    not_mounted: int = 0
    ready: int = 0
    sector_size: int = 512
    maximum_size: int = 0
    starting_sector: int = 0


class Tcp(NamedTuple):
    """A network target, which we only read."""

    local_port: int
    remote_address: str
    remote_port: int


class Opaque(NamedTuple):
    """Details of a kind that nobody uses any more (VI)."""

    raw: bytes


class Target(NamedTuple):
    """Target of a worker. `queue_depth` is the number of outstanding I/Os of this worker on this target."""

    name: str
    type: int
    details: Union[Disk, Tcp, Opaque]
    queue_depth: int = 0
    data_pattern: int = 0
    trans_per_conn: int = 0
    # the seed
    random: int = 0
    use_fixed_seed: int = 0
    fixed_seed_value: int = 0
    test_connection_rate: int = 0
    read_only: int = 0
    reserved: int = 0

    @property
    def is_raw(self) -> bool:
        return (self.type & PHYSICAL) == PHYSICAL

    @property
    def is_disk(self) -> bool:
        return self.is_raw or (self.type & LOGICAL) == LOGICAL

    def encode(self) -> bytes:
        if not isinstance(self.details, Disk):
            raise DynamoError("options", f"target {self.name!r}: only disks can be sent")
        head = _HEAD.pack(self.read_only, self.reserved, self.test_connection_rate, self.type)
        tail = _TAIL.pack(*self[3:9])
        info = _DISK.pack(*self.details).ljust(_INFO_BYTES, b"\0")
        return encode_string(self.name, 80, "target name") + b"\0" * 160 + head + info + tail


def decode_targets(raw: bytes) -> Tuple[Target, ...]:
    """The valid targets of a data message; the rest of it is old memory."""
    _check_length(raw, DATA_HEADER.size, "targets")
    _, count = DATA_HEADER.unpack_from(raw, 0)
    if not 0 <= count <= MAX_TARGETS:
        raise DynamoError(
            "protocol", f"a list of {count} targets: the message stream is out of sync"
        )
    _check_length(raw, DATA_HEADER.size + count * TARGET_BYTES, "targets")
    return tuple(_decode_target(raw, DATA_HEADER.size + TARGET_BYTES * i) for i in range(count))


def encode_targets(targets: Iterable[Target]) -> bytes:
    """A whole data message."""
    listed: List[Target] = list(targets)
    if len(listed) > MAX_TARGETS:
        raise DynamoError("options", f"{len(listed)} targets; at most {MAX_TARGETS}")
    return pad_message(b"".join(target.encode() for target in listed), len(listed))


def _decode_target(raw: bytes, at: int) -> Target:
    read_only, reserved, rate, kind = _HEAD.unpack_from(raw, at + 240)
    info = raw[at + 256 : at + 256 + _INFO_BYTES]
    details: Union[Disk, Tcp, Opaque]
    if (kind & LOGICAL) == LOGICAL or (kind & PHYSICAL) == PHYSICAL:
        details = Disk(*_DISK.unpack_from(info, 0))
    elif (kind & TCP_MASK) == TCP_MASK:
        ports = struct.unpack_from("<I", info, 0)[0], struct.unpack_from("<I", info, 84)[0]
        details = Tcp(ports[0], decode_string(info[4:84]), ports[1])
    else:
        details = Opaque(info)
    depth, pattern, transactions, seed, fixed, value = _TAIL.unpack_from(raw, at + 402)
    return Target(
        decode_string(raw[at : at + 80]),
        kind,
        details,
        depth,
        pattern,
        transactions,
        seed,
        fixed,
        value,
        rate,
        read_only,
        reserved,
    )


class AccessLine(NamedTuple):
    """One kind of access, drawn for `of_size` percent of the bursts. Sizes and alignment are bytes, delay is ms."""

    size: int
    of_size: int = 100
    reads: int = 0
    random: int = 0
    delay: int = 0
    burst: int = 1
    # 0: to the sector size
    align: int = 0
    reply: int = 0


class AccessSpec(NamedTuple):
    """A mix of accesses. Without lines it is idle: its worker does nothing and reports nothing."""

    name: str
    lines: Tuple[AccessLine, ...]
    default_assignment: int = 0

    def encode(self) -> bytes:
        """A whole data message."""
        if len(self.lines) > MAX_LINES:
            raise DynamoError("options", f"{len(self.lines)} access lines; at most {MAX_LINES}")
        rows = [
            _LINE.pack(
                line.of_size,
                line.reads,
                line.random,
                line.delay,
                line.burst,
                line.align,
                line.reply,
                line.size,
            )
            for line in self.lines
        ]
        if len(rows) < MAX_LINES:
            # ends the table
            rows.append(struct.pack("<i", -1))
        head = encode_string(self.name, 128, "access specification") + struct.pack(
            "<i", self.default_assignment
        )
        return pad_message((head + b"".join(rows)).ljust(SPEC_BYTES, b"\0"))


def decode_access_spec(raw: bytes) -> AccessSpec:
    _check_length(raw, DATA_HEADER.size + SPEC_BYTES, "access specification")
    lines: List[AccessLine] = []
    for number in range(MAX_LINES):
        row = _LINE.unpack_from(raw, 140 + LINE_BYTES * number)
        if row[0] == -1:
            break
        of_size, reads, random, delay, burst, align, reply, size = row
        lines.append(AccessLine(size, of_size, reads, random, delay, burst, align, reply))
    assignment = struct.unpack_from("<i", raw, 136)[0]
    return AccessSpec(decode_string(raw[8:136]), tuple(lines), assignment)


def _check_length(raw: bytes, least: int, what: str) -> None:
    if not least <= len(raw) <= DATA_BYTES:
        raise DynamoError("protocol", f"{what}: {len(raw)} bytes, which must be at least {least}")
