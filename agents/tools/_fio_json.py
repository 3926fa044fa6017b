"""fio's JSON, from 2.0 to 3.4x, as FioJobs. Raises ParseError, nothing else.

Checked against stat.c of several ages (docs of none say it):
`bw` is KiB/s in all versions, `bw_bytes` B/s came with 3.x. `io_bytes` is KiB before `io_kbytes` existed and bytes
since; the unit is never guessed from a version but proven by bandwidth times runtime. Latencies are microseconds in
`slat`, `clat`, `lat` (2.x) and nanoseconds in `slat_ns`, `clat_ns`, `lat_ns` (3.x). `total_ios` is missing in 2.0.
`bins` (json+) map the middle of a bin to its hits. 2.x repeats the key "0.00" in percentiles; 3.x prints fsync
latencies under `sync`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from agents.contracts import ParseError
from agents.tools._fio_model import FioJob, Latencies, Traffic

DIRECTIONS = ("read", "write", "trim", "mixed")
LARGEST = 2.0**65  # fio counts in 64 bits; anything above is no number of fio's
_TWICE = object()  # a key that came twice with different values: fatal only for whoever reads it


def jobs(text: str) -> tuple[list[FioJob], str]:
    """Jobs, and what fio printed around the document (its warnings), one line."""
    data, notes = _document(text)
    found = data.get("jobs")
    if not isinstance(found, list) or not found:
        raise ParseError("JSON, but not a result of fio: no jobs in it")
    options = data.get("global options", {})
    return [_job(job, options, f"jobs[{index}]") for index, job in enumerate(found)], notes


def _document(text: str) -> tuple[dict[str, Any], str]:
    start = text.find("{")
    if start < 0:
        raise ParseError("no result of fio in it", 1, text.lstrip().split("\n")[0])
    before = text[:start]
    decoder = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant)
    try:
        data, end = decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        culprit = text.split("\n")[error.lineno - 1]
        raise ParseError(f"broken or truncated JSON: {error.msg}", error.lineno, culprit) from None
    except ParseError as error:
        raise ParseError(str(error), *_find(text, error.text)) from None
    except (ValueError, RecursionError) as error:
        raise ParseError(f"JSON that cannot be read: {str(error)[:80]}") from None
    after = text[end:].strip()
    if "{" in after:
        line = text.count("\n", 0, text.index("{", end)) + 1
        raise ParseError("a second result in one file; fio was told --status-interval?", line, "{")
    if after and not after.startswith(("fio: ", "note: ")):
        raise ParseError("text after the result", text.count("\n", 0, end) + 2, after)
    return data, _one_line(before + "\n" + after)


def _one_line(text: str) -> str:
    return "; ".join(
        "".join(filter(str.isprintable, line)).strip() for line in text.splitlines() if line.strip()
    )[:1000]


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        found[key] = _TWICE if key in found and found[key] != value else value
    return found


def _constant(name: str) -> float:
    raise ParseError(f"{name} is not a number", text=name)


def _find(text: str, wanted: str) -> tuple[int, str]:
    lines = text.split("\n")
    return next(((n, line.strip()) for n, line in enumerate(lines, 1) if wanted in line), (0, ""))


def _number(data: Mapping[str, Any], key: str, where: str, default: float | None = None) -> float:
    value = data.get(key, default)
    if value is _TWICE:
        raise ParseError(f"{where}.{key} is there twice, with different values")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ParseError(f"{where}.{key} should be a number, not {str(value)[:80]!r}")
    if not 0 <= value < LARGEST:
        raise ParseError(f"{where}.{key} is out of range: {str(value)[:80]}")
    return float(value)


def _object(data: Mapping[str, Any], key: str, where: str) -> dict[str, Any]:
    value = data.get(key, {})
    if not isinstance(value, dict):
        raise ParseError(f"{where}.{key} should be an object, not {type(value).__name__}")
    return value


def _job(data: Any, options: Any, where: str) -> FioJob:
    if not isinstance(data, dict):
        raise ParseError(f"{where} should be an object, not {type(data).__name__}")
    traffic = {
        name: _traffic(_object(data, name, where), f"{where}.{name}")
        for name in DIRECTIONS
        if _busy(_object(data, name, where), f"{where}.{name}")
    }
    if set(traffic) > {"mixed"}:
        del traffic["mixed"]  # unified_rw_reporting=both: the sum of the others, printed besides
    sync = _object(data, "sync", where)
    error = _number(data, "error", where)
    return FioJob(
        group=int(_number(data, "groupid", where, 0)),
        errors=int(_number(data, "total_err", where, 0)) or int(error != 0),
        traffic=traffic,
        sync=_latencies(_object(sync, "lat_ns", where), 1e9, None, f"{where}.sync.lat_ns"),
        levels=_levels(_object(data, "iodepth_level", where), f"{where}.iodepth_level"),
        depth=_depth(options, data.get("job options")),
        cpu_user=_number(data, "usr_cpu", where, 0) / 100,
        cpu_system=_number(data, "sys_cpu", where, 0) / 100,
    )


def _busy(data: dict[str, Any], where: str) -> bool:
    """A direction that moved nothing has no figures, rather than zeros."""
    return bool(data) and any(_number(data, key, where, 0) for key in ("total_ios", "io_bytes"))


def _traffic(data: dict[str, Any], where: str) -> Traffic:
    runtime = _number(data, "runtime", where) / 1000
    iops = _number(data, "iops", where)
    ios = _number(data, "total_ios", where) if "total_ios" in data else None
    moved, bandwidth = _moved(data, runtime, where)
    if ios is not None and not _close(iops * runtime, ios, runtime):
        raise ParseError(f"{where}: {iops} iops in {runtime} s do not make {ios:.0f} I/Os")
    weight = ios if ios is not None else iops * runtime
    return Traffic(
        iops=iops,
        bandwidth=bandwidth,
        bytes=moved,
        ios=ios,
        runtime=runtime,
        **{kind: _named(data, kind, weight, where) for kind in ("slat", "clat", "lat")},
    )


def _moved(data: dict[str, Any], runtime: float, where: str) -> tuple[float, float]:
    """Bytes moved and B/s. The unit of io_bytes is whichever agrees with the bandwidth that fio printed."""
    moved = _number(data, "io_bytes", where)
    if "bw_bytes" in data:
        bandwidth, step = _number(data, "bw_bytes", where), 1.0
    else:
        bandwidth, step = _number(data, "bw", where) * 1024, 1024.0
    slack = (step + 1) * runtime  # fio cuts the bandwidth to whole bytes, or KiB, per second
    fits = [unit for unit in (1, 1024) if _close(bandwidth * runtime, moved * unit, slack)]
    if "io_kbytes" in data:
        fits = [unit for unit in fits if unit == 1]
    if not fits:
        raise ParseError(f"{where}: {bandwidth:.0f} B/s in {runtime} s do not make {moved:.0f}")
    return moved * fits[-1], bandwidth


def _close(got: float, wanted: float, slack: float) -> bool:
    return abs(got - wanted) <= max(slack, 1.0) + 1e-3 * wanted


def _named(data: dict[str, Any], kind: str, weight: float, where: str) -> Latencies | None:
    if f"{kind}_ns" in data:
        found = _object(data, f"{kind}_ns", where)
        return _latencies(found, 1e9, None, f"{where}.{kind}_ns")
    return _latencies(_object(data, kind, where), 1e6, weight, f"{where}.{kind}")


def _latencies(
    data: dict[str, Any], scale: float, weight: float | None, where: str
) -> Latencies | None:
    """`weight` stands in for N, which 2.x does not print. None where nothing was measured (slat of a sync engine)."""
    if not data:
        return None
    count = _number(data, "N", where, weight)
    high = _number(data, "max", where)
    if not count or (weight is not None and not high):
        return None
    bins = _bins(_object(data, "bins", where), scale, f"{where}.bins")
    if bins and "N" in data and sum(bins.values()) != count:
        raise ParseError(f"{where}: bins hold {sum(bins.values())} samples of {count:.0f}")
    low, mean = _number(data, "min", where), _number(data, "mean", where)
    if not low - 1 <= mean <= high + 1:
        raise ParseError(f"{where}: mean {mean} is not between min {low} and max {high}")
    return Latencies(
        count=count,
        mean=mean / scale,
        stddev=_number(data, "stddev", where) / scale,
        low=low / scale,
        high=high / scale,
        bins=bins,
        percentiles=_ranks(_object(data, "percentile", where), scale, f"{where}.percentile"),
    )


def _key(key: str, where: str) -> float:
    try:
        value = float(key)
    except ValueError:
        value = math.nan
    if not 0 <= value < LARGEST:
        raise ParseError(f"{where}: {key[:80]!r} should be a number")
    return value


def _bins(data: dict[str, Any], scale: float, where: str) -> dict[float, int]:
    return {_key(key, where) / scale: int(_number(data, key, where)) for key in data}


def _ranks(data: dict[str, Any], scale: float, where: str) -> dict[float, float]:
    ranks = {_key(key, where): _number(data, key, where) / scale for key in data}
    return {rank: value for rank, value in ranks.items() if rank}  # 2.x pads with "0.00"


def _levels(data: dict[str, Any], where: str) -> dict[int, float]:
    levels = {
        int(_key(key.removeprefix(">="), where)): _number(data, key, where) / 100 for key in data
    }
    levels.pop(0, None)
    return levels


def _depth(*options: Any) -> int | None:
    """The iodepth that the job ran with: the last of global and job options that names it."""
    depth = None
    for given in options:
        value = given.get("iodepth") if isinstance(given, dict) else None
        if isinstance(value, str) and value.isdecimal() and 0 < int(value[:9]) < 10**8:
            depth = int(value[:9])
    return depth
