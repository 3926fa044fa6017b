# SPDX-License-Identifier: Apache-2.0
"""fio's JSON, from 2.0 to 3.4x, as FioJobs. Raises ParseError, nothing else.

Checked against stat.c of several ages (docs of none say it); fio_aims.py says which version of 3 brought what.
`bw` is KiB/s in all versions, `bw_bytes` B/s. `io_bytes` is KiB before `io_kbytes` existed and bytes since; the unit
is never guessed from a version but proven by bandwidth times runtime. Latencies are microseconds in `slat`, `clat`,
`lat` (2.x) and nanoseconds in `slat_ns`, `clat_ns`, `lat_ns` (3.x), whose count of samples is `N`. `total_ios` is
missing in 2.0.
`bins` (json+) map the middle of a bin to its hits, in earlier 2.x its number. 2.x repeats the key "0.00" in
percentiles; 3.x prints fsync latencies under `sync`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from agents.contracts import Metric, ParseError
from agents.outputs import fio_aims, fio_details, fio_load
from agents.outputs.fio_log import GROUP_BITS, LAYOUTS, middle
from agents.outputs.fio_model import (
    ALL_CLIENTS,
    LARGEST,
    PERCENTILES,
    FioJob,
    Latencies,
    Traffic,
    parse_number,
)

DIRECTIONS = ("read", "write", "trim", "mixed")
PLACES = {
    "iops": ("iops",),
    "bandwidth": ("bw_bytes", "bw"),
    "bytes": ("io_bytes",),
    "ios": ("total_ios",),
    "runtime": ("runtime",),
}
HEAD = ("jobname", "groupid", "job options", "job_runtime", "hostname", "port")
# a second's: 3.x; 2.x prints microseconds
NANOSECONDS = 1e9
# 2.x cuts bytes to KiB, of each client and of all
SLACK = {"total_ios": 0.0, "io_bytes": 1024.0}
# a depth: clients had several, and which had which is not told
UNKNOWN = 0
FIGURES = ("mean", "stddev", "min", "max")
WHOLE = {
    "errors": ("total_err", "error"),
    "cpu.user": ("usr_cpu",),
    "cpu.system": ("sys_cpu",),
    "depth.reached": ("iodepth_level",),
    **fio_aims.LINES,
}

# Objects of numbers of which nobody asks for the line of one.
UNASKED = frozenset(
    {"bins", "latency_ns", "latency_us", "latency_ms"}
    | {f"iodepth_{what}" for what in ("level", "submit", "complete")}
)

_OURS = frozenset(PERCENTILES.values())

Lines = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Spot:
    """Position of a job: the line of each path in a small document, in a large one only that of the job."""

    lines: Lines
    begins: int

    def lines_of(self, where: str, names: Mapping[str, tuple[str, ...]]) -> Lines:
        """The line of each figure: of the first of its keys that is there."""
        lines = {"": self.begins}
        line_of, before = self.lines.get, f"{where}."
        for figure, keys in names.items() if self.lines else ():
            for key in keys:
                if line := line_of(before + key, 0):
                    break
            lines[figure] = line or self.begins
        return lines


@dataclass(slots=True)
class Heads:
    """Facts of the run in a document beside its figures; gathered while those are read, as it may be long."""

    rest: Mapping[str, object] = field(default_factory=dict)
    jobs: list[dict[str, object]] = field(default_factory=list)
    # path and line of each of `jobs`, and the lines of all paths in a small document
    places: list[tuple[str, int]] = field(default_factory=list)
    lines: Lines = field(default_factory=dict)

    def add_job(self, job: object, place: str = "", line: int = 0) -> None:
        if isinstance(job, dict):
            head = {key: job[key] for key in (*HEAD, *fio_details.JOB_KEYS) if key in job}
            parts = {name: part for name in DIRECTIONS if isinstance(part := job.get(name), dict)}
            head |= {
                name: {key: part.get(key) for key in ("runtime", *fio_details.SPREAD_KEYS)}
                for name, part in parts.items()
            }
            self.jobs.append(head)
            self.places.append((place, line))

    def details(self) -> list[Metric]:
        """Figures of the document beside those that are stored; the sum of all clients is left out."""
        jobs = [
            (job, place, line or self.lines.get(place, 0))
            for job, (place, line) in zip(self.jobs, self.places, strict=True)
            if job.get("jobname") != ALL_CLIENTS
        ]
        return fio_details.document_details(jobs, self.rest.get("disk_util"), self.lines)


def parse_jobs(raw: bytes, heads: Heads | None = None) -> tuple[Iterator[FioJob], str]:
    """Jobs one by one (raising ParseError on the way), and what fio printed around them (its warnings), one line.

    `heads` are filled as far as the jobs were taken.
    """
    document = fio_load.load_document(raw)
    lines = _member_lines(raw, document.whole)
    if heads is not None:
        heads.rest, heads.lines = document.rest, lines
        name = "client_stats" if "client_stats" in document.rest else "jobs"
        document = replace(document, jobs=_watched(document.jobs, heads, name))
    return _document_jobs(document, lines), document.notes


def _watched(
    jobs: Iterable[tuple[object, int]], heads: Heads, name: str
) -> Iterator[tuple[object, int]]:
    for index, (job, line) in enumerate(jobs):
        heads.add_job(job, f"{name}[{index}]", line)
        yield job, line


def _member_lines(raw: bytes, document: Mapping[str, object] | None) -> Lines:
    if len(raw) > fio_load.LARGEST:
        return {}
    text = raw.decode()
    lines = fio_load.along(text, document, UNASKED, SOME) if document is not None else None
    return fio_load.lines_by_path(text, UNASKED) if lines is None else lines


def _document_jobs(document: fio_load.Document, lines: Lines) -> Iterator[FioJob]:
    name = "client_stats" if "client_stats" in document.rest else "jobs"
    sums: dict[tuple[str, str], float] = {}
    version = str(document.rest.get("fio version", ""))
    for index, (job, begins) in enumerate(document.jobs):
        where = f"{name}[{index}]"
        if name == "client_stats" and isinstance(job, dict):
            if index and job.get("jobname") == ALL_CLIENTS:
                _all_there(job, sums, where)
                # the sum of those before
                continue
            for key, value in _totals(job, where):
                sums[key] = sums.get(key, 0.0) + value
        options = global_options(document.rest, job)
        yield _parse_job(job, options, version, where, _Spot(lines, begins or lines.get(where, 0)))


def _totals(job: Mapping[str, object], where: str) -> Iterator[tuple[tuple[str, str], float]]:
    for name in DIRECTIONS:
        part = _object(job, name, where)
        for key in SLACK:
            yield (name, key), _member_number(part, key, f"{where}.{name}", 0)


def _all_there(
    job: Mapping[str, object], sums: Mapping[tuple[str, str], float], where: str
) -> None:
    """True if fio's sum equals that of its clients; otherwise a client's result is missing or doubled."""
    for (name, key), value in _totals(job, where):
        printed_sum = sums.get((name, key), 0.0)
        if abs(value - printed_sum) > max(SLACK[key], 1e-9 * value):
            raise ParseError(
                f"{where}.{name}.{key} is {value:.0f} of all clients, but the clients above have {printed_sum:.0f}: "
                "the result of one is missing, or there twice"
            )


def global_options(rest: Mapping[str, object], job: object) -> dict[str, object]:
    """The global options of a job. Since 3.39 each client has its own; before, those of all stand in one object, and
    what is not the same in them has the value TWICE.
    """
    options = rest.get("global options")
    if isinstance(options, list) and isinstance(job, dict):
        own = [job.get("hostname"), job.get("port")]
        every = (client for client in options if isinstance(client, dict))
        options = next(
            (client for client in every if [client.get("hostname"), client.get("port")] == own), {}
        )
    return options if isinstance(options, dict) else {}


def _member_number(
    data: Mapping[str, object], key: str, where: str, default: float | None = None
) -> float:
    value = data.get(key, default)
    if (type(value) is float or type(value) is int) and 0 <= value < LARGEST:
        # nearly always
        return float(value)
    if value is None and key not in data:
        since = fio_aims.field_version(key)
        raise ParseError(f"{where}.{key} is missing, although fio prints it since {since}")
    if value is fio_load.TWICE:
        raise ParseError(f"{where}.{key} appears twice, with different values")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ParseError(f"{where}.{key} should be a number, not {str(value)[:80]!r}")
    if not 0 <= value < LARGEST:
        raise ParseError(f"{where}.{key} is out of range: {str(value)[:80]}")
    return float(value)


def _object(data: Mapping[str, object], key: str, where: str) -> dict[str, object]:
    value = data.get(key, {})
    if not isinstance(value, dict):
        raise ParseError(f"{where}.{key} should be an object, not {type(value).__name__}")
    return value


def _parse_job(data: object, options: object, version: str, where: str, spot: _Spot) -> FioJob:
    if not isinstance(data, dict):
        raise ParseError(f"{where} should be an object, not {type(data).__name__}")
    traffic = {
        name: _traffic(_object(data, name, where), f"{where}.{name}", spot)
        for name in DIRECTIONS
        if _busy(_object(data, name, where), f"{where}.{name}")
    }
    if set(traffic) > {"mixed"}:
        # unified_rw_reporting=both: the sum of the others, printed besides
        del traffic["mixed"]
    sync = _object(data, "sync", where)
    levels = _levels(_object(data, "iodepth_level", where), f"{where}.iodepth_level")
    depth = _depth(options, data.get("job options"))
    error = _member_number(data, "error", where)
    return FioJob(
        group=int(_member_number(data, "groupid", where, 0)),
        errors=int(_member_number(data, "total_err", where, 0)) or int(error != 0),
        traffic=traffic,
        sync=_parse_latencies(
            _object(sync, "lat_ns", where),
            NANOSECONDS,
            _member_number(sync, "total_ios", f"{where}.sync", 0),
            f"{where}.sync.lat_ns",
            spot,
        ),
        levels={} if depth == UNKNOWN else levels,
        depth=None if depth == UNKNOWN else depth,
        cpu_user=_member_number(data, "usr_cpu", where, 0) / 100,
        cpu_system=_member_number(data, "sys_cpu", where, 0) / 100,
        steady=fio_aims.parse_steady_state(
            _object(data, "steadystate", where), f"{where}.steadystate", _member_number
        ),
        goal=fio_aims.goal(
            data, where, _member_number, version, _grouped(options, data.get("job options"))
        ),
        lines=spot.lines_of(where, WHOLE),
    )


def _busy(data: dict[str, object], where: str) -> bool:
    """A direction that moved nothing has no figures, rather than zeros."""
    return bool(data) and any(
        _member_number(data, key, where, 0) for key in ("total_ios", "io_bytes")
    )


def _traffic(data: dict[str, object], where: str, spot: _Spot) -> Traffic:
    runtime = _member_number(data, "runtime", where) / 1000
    iops = _member_number(data, "iops", where)
    ios = _member_number(data, "total_ios", where) if "total_ios" in data else None
    moved, bandwidth = _bytes_and_bandwidth(data, runtime, where)
    if ios is not None and not _nearly_equal(iops * runtime, ios, runtime):
        raise ParseError(f"{where}: {iops} iops in {runtime} s do not make {ios:.0f} I/Os")
    weight = ios if ios is not None else iops * runtime
    return Traffic(
        # up to 2.14 cut to a whole number, of which 9 means up to 10
        iops=ios / runtime if ios and runtime and iops.is_integer() else iops,
        bandwidth=bandwidth,
        bytes=moved,
        ios=ios,
        runtime=runtime,
        lines=spot.lines_of(where, PLACES),
        **{
            kind: _latencies_of_kind(data, kind, weight, where, spot)
            for kind in ("slat", "clat", "lat")
        },
    )


def _bytes_and_bandwidth(
    data: dict[str, object], runtime: float, where: str
) -> tuple[float, float]:
    """Bytes moved and B/s. The unit of io_bytes is whichever agrees with the bandwidth that fio printed."""
    moved = _member_number(data, "io_bytes", where)
    if "bw_bytes" in data:
        bandwidth, step = _member_number(data, "bw_bytes", where), 1.0
    else:
        bandwidth, step = _member_number(data, "bw", where) * 1024, 1024.0
    # fio cuts the bandwidth to whole bytes, or KiB, per second
    slack = (step + 1) * runtime
    fits = [unit for unit in (1, 1024) if _nearly_equal(bandwidth * runtime, moved * unit, slack)]
    if "io_kbytes" in data:
        fits = [unit for unit in fits if unit == 1]
    if not fits:
        raise ParseError(f"{where}: {bandwidth:.0f} B/s in {runtime} s do not make {moved:.0f}")
    moved *= fits[-1]
    return moved, max(bandwidth, moved / runtime) if step > 1 and runtime else bandwidth


def _nearly_equal(got: float, expected: float, slack: float) -> bool:
    return abs(got - expected) <= max(slack, 1.0) + 1e-3 * expected


def _latencies_of_kind(
    data: dict[str, object], kind: str, weight: float, where: str, spot: _Spot
) -> Latencies | None:
    if f"{kind}_ns" in data:
        statistic = _object(data, f"{kind}_ns", where)
        return _parse_latencies(statistic, NANOSECONDS, weight, f"{where}.{kind}_ns", spot)
    return _parse_latencies(_object(data, kind, where), 1e6, weight, f"{where}.{kind}", spot)


def _parse_latencies(
    data: dict[str, object], scale: float, ios: float, where: str, spot: _Spot
) -> Latencies | None:
    """`ios` stand in for N, the count of samples. None where nothing was measured (slat of a sync engine)."""
    if not data:
        return None
    high = _member_number(data, "max", where)
    if "N" not in data and not high:
        return None
    count = _samples(data, scale, ios, where)
    if not count:
        return None
    bins = _parse_bins(_object(data, "bins", where), count, f"{where}.bins")
    low, mean = _member_number(data, "min", where), _member_number(data, "mean", where)
    if not low - 1 <= mean <= high + 1:
        raise ParseError(f"{where}: mean {mean} is not between min {low} and max {high}")
    ranks = _object(data, "percentile", where)
    return Latencies(
        count=count,
        mean=mean / scale,
        stddev=_member_number(data, "stddev", where) / scale,
        low=low / scale,
        high=high / scale,
        bins=bins,
        bins_per_second=scale,
        percentiles=_ranks(ranks, scale, f"{where}.percentile"),
        lines=spot.lines_of(where, _places(tuple(ranks))) if spot.lines else {"": spot.begins},
    )


def _samples(data: dict[str, object], scale: float, ios: float, where: str) -> float:
    """N came with 3.18. Before, 3.x's bins tell it where they are printed; else each I/O is taken for a sample."""
    if "N" in data:
        return _member_number(data, "N", where)
    bins = _object(data, "bins", where) if scale == NANOSECONDS else {}
    return sum(_member_number(bins, key, f"{where}.bins") for key in bins) or ios


@lru_cache(maxsize=64)
def _reported_percentiles(ranks: tuple[str, ...]) -> tuple[str, ...]:
    """The percentiles that are among our figures. Their reader reports those that are no numbers."""
    return tuple(key for key in ranks if _percentile_rank(key) in _OURS)


SOME = {"percentile": _reported_percentiles}


def _percentile_rank(key: str) -> float:
    try:
        return float(key)
    except ValueError:
        return -1.0


@lru_cache(maxsize=64)
def _places(ranks: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
    """The keys of each figure: a percentile stands in its own line, or follows from the bins."""
    keys: dict[str, tuple[str, ...]] = {figure: (figure,) for figure in FIGURES}
    printed = {
        parse_number(key, "percentile"): f"percentile.{key}" for key in _reported_percentiles(ranks)
    }
    for figure, rank in PERCENTILES.items():
        keys[figure] = (*([printed[rank]] if rank in printed else []), "bins", "percentile")
    return keys


def _parse_bins(data: dict[str, Any], count: float, where: str) -> Mapping[str, int]:
    """Hits by bin as fio names it. Looked at in C as far as may be: nearly all of a json+ is this."""
    # Any: that all are numbers is seen by their sum, and no loop of ours tells it the type checker.
    if not data:
        return {}
    bins: dict[str, Any] = _numbered(data, where) if "FIO_IO_U_PLAT_NR" in data else data
    hits = bins.values()
    try:
        total = sum(hits)
        right = type(total) is int and total == count and min(hits) >= 0
    except TypeError:
        right, total = False, 0
    if not right:
        total = int(sum(_member_number(bins, key, where) for key in bins))
        bins = {key: int(value) for key, value in bins.items()}
    if total != count:
        raise ParseError(f"{where}: {total} samples of {count:.0f}")
    return bins


def _numbered(data: Mapping[str, object], where: str) -> dict[str, object]:
    """Earlier 2.x names a bin by its number, prints those without hits too, and says how they are laid out."""
    bits, values, bins = (
        int(_member_number(data, f"FIO_IO_U_PLAT_{n}", where)) for n in ("BITS", "VAL", "NR")
    )
    if bits != GROUP_BITS or values != 1 << GROUP_BITS or bins not in LAYOUTS:
        message = f"{where}: laid out by {bits} bits, {values} values, {bins} bins: not as fio does"
        raise ParseError(message)
    bins_by_name = {}
    for key, hits in data.items():
        if key.isdecimal() and len(key) < 6 and int(key) < bins:
            bins_by_name[repr(middle(int(key)))] = hits
        elif not key.startswith("FIO_IO_U_PLAT_"):
            raise ParseError(f"{where}: {key[:40]!r} is not the number of a bin")
    return {key: hits for key, hits in bins_by_name.items() if hits != 0}


def _ranks(data: dict[str, object], scale: float, where: str) -> dict[float, float]:
    ranks = {parse_number(key, where): _member_number(data, key, where) / scale for key in data}
    # 2.x pads with "0.00"
    return {rank: value for rank, value in ranks.items() if rank}


def _levels(data: dict[str, object], where: str) -> dict[int, float]:
    levels = {
        int(parse_number(key.removeprefix(">="), where)): _member_number(data, key, where) / 100
        for key in data
    }
    levels.pop(0, None)
    return levels


def _grouped(*options: object) -> bool:
    return any(
        isinstance(job_options, dict) and "group_reporting" in job_options
        for job_options in options
    )


def _depth(*options: object) -> int | None:
    """The iodepth that the job ran with: the last of global and job options that names it."""
    depth = None
    for job_options in options:
        value = job_options.get("iodepth") if isinstance(job_options, dict) else None
        if value is fio_load.TWICE:
            depth = UNKNOWN
        elif isinstance(value, str) and value.isdecimal() and 0 < int(value[:9]) < 10**8:
            depth = int(value[:9])
    return depth
