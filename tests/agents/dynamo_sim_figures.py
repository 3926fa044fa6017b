"""Figures that the simulated dynamo reports."""

from __future__ import annotations

from collections.abc import Mapping

from agents.dynamo import results
from tests.agents.dynamo_encoding import encode_manager_results

TICKS = 1e9
READS = 0.5
IOPS = 1000.0
LATENCY = 0.004  # s, of each I/O


def result(seconds: float, ways: Mapping[str, str]) -> results.RawResult:
    """IOPS of LATENCY each. The real ones go into the bins as dynamo believes its clock to be."""
    ios = round(IOPS * max(seconds, 0.0))
    reads = round(ios * READS)
    size = 8192
    one = round(LATENCY * TICKS * float(ways.get("true", "1")))
    if "too_fast" in ways:
        one //= 1000
    believed = one / (TICKS * float(ways.get("ticks", "1")))
    bins = [0] * results.BINS
    bounds = (50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3)
    bins[next(n for n, bound in enumerate(bounds) if believed < bound)] = ios
    writes = ios - reads
    return results.RawResult(
        reads * size, writes * size, reads, writes, ios, 0, 0, 0, one, one * reads, one, one * writes,
        one, 0, one * ios, 0, 0, () if "rc1" in ways else tuple(bins),
    )  # fmt: skip


def machine(ways: Mapping[str, str]) -> bytes:
    """The manager's results. Of more than 64 CPUs, its own count was seen to become 0."""
    cpu = results.Cpu(25.0, 5.0, 20.0, 0.0, 0.0, 500.0)
    raw = encode_manager_results(results.ManagerResults(100, 200, 2, (cpu,) * 2))
    return raw[:24] + b"\0\0\0\0" + raw[28:] if "many_cpus" in ways else raw
