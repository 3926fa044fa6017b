# SPDX-License-Identifier: Apache-2.0
"""Results as dynamo reports them, in its own units (bytes, counts, clock ticks). Runs on the host."""

import math
import struct
from typing import NamedTuple, Tuple

from agents.dynamo.wire import DynamoError

BINS = 21
MAX_CPUS, MAX_INTERFACES = 64, 64
# bytes of one target's result: 1.1.0, and 1.1.0-rc1, which has no bins
STRIDE, STRIDE_RC1 = (
    296,
    128,
)
MAX_TARGETS = 2048
# the last one, counter_time, is always 0
_COUNTERS = struct.Struct("<6Q2I9Q")
_BINS = struct.Struct("<21q")
_MANAGER = struct.Struct("<qqi")
_CPU = struct.Struct("<6d")
_TCP = struct.Struct("<di")
_INTERFACE = struct.Struct("<3d")
_WORKER = struct.Struct("<QQi")
# A longer I/O is in no bin.
TEN_SECONDS = 10.0


class Cpu(NamedTuple):
    """Load of one CPU in percent over the recorded time. CPU 0 alone has the machine's interrupts per second."""

    total: float
    user: float
    system: float
    dpc: float
    irq: float
    interrupts: float


class Interface(NamedTuple):
    packets: float
    errors_out: float
    errors_in: float


class ManagerResults(NamedTuple):
    """Results of the machine. With more than 64 CPUs, `cpu_count` may be any number; `cpus` has the usable ones."""

    jiffies_first: int
    jiffies_last: int
    cpu_count: int
    cpus: Tuple[Cpu, ...]
    segments_resent: float = 0.0
    interfaces: Tuple[Interface, ...] = ()


def decode_manager_results(raw: bytes) -> ManagerResults:
    if len(raw) < 4648:
        raise DynamoError("protocol", f"manager results: {len(raw)} bytes of 4648")
    first, last, count = _MANAGER.unpack_from(raw, 8)
    # More than 64 CPUs overflow dynamo's table.
    rows = count if 0 < count <= MAX_CPUS else 0
    cpus = tuple(Cpu(*map(_finite, _CPU.unpack_from(raw, 28 + 48 * c))) for c in range(rows))
    resent, interfaces = _TCP.unpack_from(raw, 3100)
    interface_count = min(max(interfaces, 0), MAX_INTERFACES)
    interface_rows = tuple(
        Interface(*map(_finite, _INTERFACE.unpack_from(raw, 3112 + 24 * n)))
        for n in range(interface_count)
    )
    return ManagerResults(first, last, count, cpus, _finite(resent), interface_rows)


def _finite(value: float) -> float:
    # dynamo divides by zero for an interval of no length.
    return value if math.isfinite(value) else 0.0


class RawResult(NamedTuple):
    """Results of one target of one worker. Latencies are clock ticks; `bins` is () for rc1, which has none."""

    bytes_read: int
    bytes_written: int
    read_count: int
    write_count: int
    transaction_count: int
    connection_count: int
    read_errors: int
    write_errors: int
    max_read_latency: int
    read_latency_sum: int
    max_write_latency: int
    write_latency_sum: int
    max_transaction_latency: int
    max_connection_latency: int
    transaction_latency_sum: int
    connection_latency_sum: int
    counter_time: int = 0
    bins: Tuple[int, ...] = ()

    @property
    def ios(self) -> int:
        return self.read_count + self.write_count

    @property
    def max_latency(self) -> int:
        return max(self.max_read_latency, self.max_write_latency)


class WorkerResults(NamedTuple):
    """Results of one active worker: its own time in ticks, and its targets in the order of SET_TARGETS."""

    first: int
    last: int
    targets: Tuple[RawResult, ...]


def decode_worker_results(raw: bytes, expected: int, ticks: float) -> WorkerResults:
    """Decode a worker's results; it has `expected` targets, and dynamo's own rate is `ticks` per second.

    Raises DynamoError when the bytes fit neither layout.
    """
    if len(raw) < 28:
        raise DynamoError("protocol", f"worker results: {len(raw)} bytes")
    first, last, count = _WORKER.unpack_from(raw, 8)
    if count != expected or not 0 <= count <= MAX_TARGETS:
        raise DynamoError(
            "protocol",
            f"results of {count} targets where {expected} were set: the message stream is out of sync",
        )
    stride = detect_stride(raw, count, ticks)
    return WorkerResults(first, last, tuple(_raw_result(raw, i, stride) for i in range(count)))


def detect_stride(raw: bytes, count: int, ticks: float) -> int:
    """Stride (bytes) of these results, which have one of two layouts that dynamo's login does not distinguish.

    Bins count every read and write. In rc1's layout that place holds the next target's counters, so "all bins are
    zero" is not a sufficient test for two targets.
    """
    need = 28 + STRIDE * count
    wide = raw.ljust(need, b"\0")
    if all(_bins_match(_raw_result(wide, i, STRIDE), ticks) for i in range(count)):
        return STRIDE
    narrow = [_raw_result(wide, i, STRIDE_RC1) for i in range(count)]
    if all(_is_plausible(result) for result in narrow):
        return STRIDE_RC1
    raise DynamoError("protocol", "worker results that fit neither 1.1.0 nor 1.1.0-rc1")


def _bins_match(result: RawResult, ticks: float) -> bool:
    total, binned = result.ios, sum(result.bins)
    if min(result.bins) < 0 or not _is_plausible(result):
        return False
    if result.max_latency >= TEN_SECONDS * ticks:
        # Bins can all be empty only if every I/O took that long; otherwise this is rc1, which has none.
        waited = result.read_latency_sum + result.write_latency_sum
        return binned <= total and (binned > 0 or waited >= TEN_SECONDS * ticks * total)
    # I/Os that end while the report is made may be counted on one side only.
    return abs(total - binned) <= max(16, total // 100) and (binned > 0 or total == 0)


def _is_plausible(result: RawResult) -> bool:
    has_read = result.read_count or not (result.bytes_read or result.read_latency_sum)
    wrote = result.write_count or not (result.bytes_written or result.write_latency_sum)
    return bool(has_read and wrote) and result.read_count < 1 << 48 and result.write_count < 1 << 48


def _raw_result(raw: bytes, number: int, stride: int) -> RawResult:
    at = 28 + stride * number
    counters = _COUNTERS.unpack_from(raw, at)
    bins = _BINS.unpack_from(raw, at + STRIDE_RC1) if stride == STRIDE else ()
    return RawResult._make((*counters, bins))
