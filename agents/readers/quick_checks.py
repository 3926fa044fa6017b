# SPDX-License-Identifier: Apache-2.0
"""Quick checks of a disk: hdparm -t and -T, ioping, pveperf, and the benchmark of GNOME Disks.

Each issues one request at a time, and most measure for a few seconds only. So does etcd: the histogram of its fsyncs,
as Prometheus scrapes it, counts those since the process started.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from agents.contracts import Metric, Unit
from agents.readers import _line_reader as common
from agents.readers._line_reader import NUMBER, LineReader, Lines, command_above, squeezed
from agents.texts.parsed_result import ParsedResult

# Timing buffered disk reads: 1620 MB in  3.00 seconds = 539.75 MB/sec
HDPARM = re.compile(
    rf"Timing (O_DIRECT )?(cached|buffer-cache|buffered disk|disk) reads(?: \(offset (\d{{1,9}}) GB\))?:"
    rf" ({NUMBER}) ?MB in ({NUMBER}) seconds = ({NUMBER}) ([kM])B/sec"
)
HDPARM_DEVICE = re.compile(r"(/dev/[\w./-]{1,80}):")
# hdparm counts in units of 2 MiB and prints them as MB
HDPARM_UNITS = {"k": 2.0**10, "M": 2.0**20}
HDPARM_NOTES = {
    "memory": "hdparm -T reads the page cache again and again: the speed of memory, not of a disk",
    "cache": "hdparm -T --direct reads the same 2 MiB again and again: the link and the disk's own cache",
    "buffered": "hdparm -t reads in order through the page cache, 3 seconds from the disk's beginning",
    "direct": "hdparm -t --direct reads in order past the page cache, 2 MiB at a time, for 3 seconds",
}


def read_hdparm(lines: Lines) -> Iterator[ParsedResult]:
    """One result for each line of a timing."""
    device, context = "", []
    for at, line in enumerate(lines):
        words = squeezed(line)
        if not words:
            continue
        if match := HDPARM_DEVICE.fullmatch(words):
            device, context = match[1], [at]
        elif "HDIO_DRIVE_CMD" in words:
            context.append(at)
        elif words.startswith("Timing ") and (match := HDPARM.fullmatch(words)):
            yield _hdparm_timing(lines, at, match, device, context)
        elif re.match(r"Timing .{0,20}(?:cached|disk) reads\b", words):
            yield common.named_result("hdparm", lines, at, at, "the line is truncated")
        else:
            # the lines below are about something else
            device, context = "", []


def _hdparm_timing(
    lines: Lines, at: int, match: re.Match[str], device: str, context: list[int]
) -> ParsedResult:
    direct, disk = bool(match[1]), "disk" in match[2]
    rate = float(match[6]) * HDPARM_UNITS[match[7]]
    amount, seconds = float(match[4]) * 2**20, float(match[5])
    # seconds have two decimals; the amount is whole
    if abs(amount - rate * seconds) > 0.01 * amount + 0.006 * rate + 2**20:
        return common.named_result(
            "hdparm", lines, at, at, "MB, seconds and rate of the line do not agree"
        )
    what = ("direct" if direct else "buffered") if disk else ("cache" if direct else "memory")
    name = {"memory": "memory.read.bandwidth", "cache": "disk_cache.read.bandwidth"}.get(
        what, "read.bandwidth"
    )
    options: dict[str, object] = {"rw": "read", "direct": direct, "iodepth": 1}
    if match[3]:
        options["offset"] = int(match[3]) * 10**9
    if device:
        options["filename"] = device
    start, command = command_above(lines, context[0] if context else at, "hdparm")
    flags = ("-t" if disk else "-T") + (" --direct" if direct else "")
    also = [(place + 1, place + 1) for place in ([start, *context] if command else context)]
    return ParsedResult(
        "hdparm",
        at + 1,
        at + 1,
        " ".join(filter(None, ["hdparm", flags, device])),
        command=command,
        metrics=(Metric(name, rate, Unit.BYTES_PER_SECOND, line=at + 1),),
        options=options,
        outstanding=1,
        notes=(HDPARM_NOTES[what],),
        also=tuple(also),
    )


SIZE = r"(\d{1,6}(?:\.\d{1,3})?) ([KMGT]i?B|B|[kmgt]b|bytes)"
TIME = rf"({NUMBER}) (ns|us|ms|s|min)"
IOPING_REQUEST = re.compile(
    rf"{SIZE} (<<<|>>>|from|to) \S.{{0,200}}: (?:request|seq)=\d{{1,12}} time=\S.{{0,40}}"
)
IOPING_HEAD = re.compile(r"--- (\S.{0,300}) ioping statistics ---")
IOPING_TOTAL = re.compile(
    rf"({NUMBER})(?: ([kMG]))? requests completed in {TIME},(?: {SIZE} (read|written),)?"
    rf" ({NUMBER})(?: ([kMG]))? iops, {SIZE}/s(?:ec)?"
)
IOPING_TIMES = re.compile(rf"min/avg/max/mdev = {TIME} / {TIME} / {TIME} / {TIME}")
IOPING_OLD_TIMES = re.compile(
    rf"min/avg/max/mdev = ({NUMBER})/({NUMBER})/({NUMBER})/({NUMBER}) (us|ms|s)"
)
TIMES = {**common.SECONDS, "min": 60.0}
# from 0.7 on with IEC prefixes; before with kb and mb, which were binary, too
SIZES = {
    **common.BINARY_SIZES,
    "bytes": 1.0,
    "kb": 2.0**10,
    "mb": 2.0**20,
    "gb": 2.0**30,
    "tb": 2.0**40,
}
IOPING_NOTE = "ioping issues one request at a time: these are times, not what the disk can do"
PAUSES = (
    "it pauses between requests (1 s by default): iops and bandwidth are those of the busy time"
)
# -S sets another size
FILE_NOTE = "on a directory, ioping uses a file of 1 MiB by default, which caches may hold"
UNKNOWN_WAY = "the text does not say whether ioping read or wrote"


def read_ioping(lines: Lines) -> Iterator[ParsedResult]:
    """One result for each block of statistics."""
    for at, line in enumerate(lines):
        if "ioping statistics" not in line or not (head := IOPING_HEAD.fullmatch(squeezed(line))):
            continue
        total_at = _next_filled(lines, at)
        total = IOPING_TOTAL.fullmatch(squeezed(lines[total_at]))
        times_at, times = total_at, None
        for _ in range(3):
            times_at = _next_filled(lines, times_at)
            if "ioping statistics" in lines[times_at]:
                break
            if times := _ioping_times(squeezed(lines[times_at])):
                break
        if total and times:
            yield _ioping_block(lines, at, (total_at, times_at), (head[1], total, times))
        else:
            why = "the statistics are truncated: ioping prints requests, and then min/avg/max/mdev"
            yield common.named_result("ioping", lines, at, total_at if total else at, why)


def _next_filled(lines: Lines, at: int) -> int:
    """Index of the next line that is not empty; that of the last line if there is none."""
    following = at + 1
    while following < len(lines) - 1 and following < at + 3 and not lines[following].strip():
        following += 1
    return min(following, len(lines) - 1)


def _ioping_times(words: str) -> tuple[float, ...] | None:
    """Seconds: shortest, mean and longest time."""
    if match := IOPING_TIMES.fullmatch(words):
        return tuple(float(match[place]) * TIMES[match[place + 1]] for place in (1, 3, 5))
    if match := IOPING_OLD_TIMES.fullmatch(words):
        return tuple(float(match[place]) * TIMES[match[5]] for place in (1, 2, 3))
    return None


def _ioping_block(
    lines: Lines,
    at: int,
    places: tuple[int, int],
    parts: tuple[str, re.Match[str], tuple[float, ...]],
) -> ParsedResult:
    target, total, (shortest, mean, longest) = parts
    total_at, times_at = places
    if not shortest <= mean <= longest:
        why = "the mean time is not between the shortest and the longest"
        return common.named_result("ioping", lines, at, times_at, why)
    first, request = _ioping_requests(lines, at)
    start, command = command_above(lines, first, "ioping")
    way = {"read": "read", "written": "write"}.get(total[7] or "", "")
    if not way and (request or command):
        writes = request[3] in (">>>", "to") if request else common.has_flag(command, "W")
        way = "write" if writes else "read"
    rates = {
        "iops": float(total[8]) * common.COUNTS[total[9] or ""],
        "bandwidth": float(total[10]) * SIZES[total[11]],
    }
    latencies = {"lat.mean": mean, "lat.min": shortest, "lat.max": longest}
    notes = [IOPING_NOTE]
    if not common.has_flag(command, "R"):
        notes.append(PAUSES)
    return ParsedResult(
        "ioping",
        start + 1,
        times_at + 1,
        f"ioping {target}"[:100],
        command=command,
        metrics=(
            *common.io_metrics(way, total_at + 1, rates),
            *common.io_metrics(way, times_at + 1, latencies),
        ),
        options=_ioping_options(target, way, request, command),
        outstanding=1,
        notes=(
            *notes,
            *([] if target.startswith("/dev/") else [FILE_NOTE]),
            *([] if way else [UNKNOWN_WAY]),
        ),
    )


def _ioping_requests(lines: Lines, at: int) -> tuple[int, re.Match[str] | None]:
    """Index of the first of the lines of requests above the statistics, and the last of those requests."""
    first, last = at, None
    for place in range(at - 1, -1, -1):
        words = squeezed(lines[place])
        match = IOPING_REQUEST.fullmatch(words) if "time=" in words else None
        if match is None and words:
            break
        if match:
            first, last = place, last or match
    return first, last


def _ioping_options(
    target: str, way: str, request: re.Match[str] | None, command: str
) -> dict[str, object]:
    options: dict[str, object] = {"iodepth": 1, "filename": target.split(" (")[0]}
    if size := common.size_in_bytes(common.option_value(command, "-s", "-size", "--size")):
        options["block_size"] = size
    elif request:
        options["block_size"] = round(float(request[1]) * SIZES[request[2]])
    if command:
        options["direct"] = common.has_flag(command, "D", "-direct", "--direct")
        sequential = common.has_flag(command, "L", "-linear", "--linear")
        options["rw"] = way if sequential else f"rand{way}"
    return options


# what pveperf prints -> how that is read
PVEPERF_LINE = re.compile(
    r"(CPU BOGOMIPS|REGEX/SECOND|HD SIZE|BUFFERED READS|AVERAGE SEEK TIME|FSYNCS/SECOND|DNS EXT|DNS INT)"
    r": ?(\S.{0,200})"
)
PVEPERF_FIGURES: Mapping[str, tuple[str, re.Pattern[str], float]] = {
    "BUFFERED READS": ("read.bandwidth", re.compile(rf"({NUMBER}) MB/sec"), 2.0**20),
    "AVERAGE SEEK TIME": ("seek.lat.mean", re.compile(rf"({NUMBER}) ms"), 1e-3),
    "FSYNCS/SECOND": ("fsync.ops", re.compile(rf"({NUMBER})"), 1.0),
}
# from its source, bin/pveperf of pve-manager
PVEPERF_NOTES = {
    "fsync.ops": "FSYNCS/SECOND: files of 4 kB written anew, each made durable by fsync before the next",
    "read.bandwidth": "BUFFERED READS: 2 MiB at a time in order, through the page cache, for 3 seconds",
    "seek.lat.mean": "AVERAGE SEEK TIME: 512 bytes at random places, through the page cache, one at a time",
}


def read_pveperf(lines: Lines) -> Iterator[ParsedResult]:
    """One result for each run of pveperf's lines."""
    at = 0
    while at < len(lines):
        if ":" not in lines[at] or not PVEPERF_LINE.fullmatch(squeezed(lines[at])):
            at += 1
            continue
        last, rows = _pveperf_rows(lines, at)
        if rows.keys() & PVEPERF_FIGURES.keys():
            yield _pveperf_run(lines, at, last, rows)
        at = last + 1


def _pveperf_rows(lines: Lines, at: int) -> tuple[int, dict[str, tuple[int, str]]]:
    """Index of the run's last line, and the line index and value by name."""
    rows: dict[str, tuple[int, str]] = {}
    last = at
    while at < len(lines):
        words = squeezed(lines[at])
        match = PVEPERF_LINE.fullmatch(words)
        if (words and match is None) or (match and match[1] in rows):
            break
        if match:
            rows[match[1]], last = (at, match[2]), at
        at += 1
    return last, rows


def _pveperf_run(
    lines: Lines, first: int, last: int, rows: Mapping[str, tuple[int, str]]
) -> ParsedResult:
    metrics: list[Metric] = []
    for name, (figure, pattern, scale) in PVEPERF_FIGURES.items():
        if name not in rows:
            continue
        at, words = rows[name]
        match = pattern.fullmatch(words)
        if match is None:
            return common.named_result("pveperf", lines, first, last, f"{name} has no figure")
        metrics += common.io_metrics("", at + 1, {figure: float(match[1]) * scale})
    start, command = command_above(lines, first, "pveperf")
    options: dict[str, object] = {"iodepth": 1}
    if place := re.search(r"\((\S.{0,100})\)$", rows.get("HD SIZE", (0, ""))[1]):
        options["filename"] = place[1]
    return ParsedResult(
        "pveperf",
        start + 1,
        last + 1,
        " ".join(filter(None, ["pveperf", str(options.get("filename", ""))])),
        command=command,
        metrics=tuple(metrics),
        options=options,
        outstanding=1,
        notes=tuple(PVEPERF_NOTES[metric.name] for metric in metrics),
    )


# Average Read Rate: 512.3 MB/s (100 samples)
GNOME_ROW = re.compile(
    r"(Minimum|Maximum|Average) (Read Rate|Write Rate|Access Time)[: ]*"
    rf"(?:({NUMBER}) (k?B/s|[MG]B/s|msec|ms|usec|µs|us)(?: \((\d{{1,9}}) samples?\))?)?"
)
GNOME_VALUE = re.compile(
    rf"()()({NUMBER}) (k?B/s|[MG]B/s|msec|ms|usec|µs|us)(?: \((\d{{1,9}}) samples?\))?"
)
GNOME_OTHER = re.compile(r"(?:Last Benchmarked|Disk or Device|Sample Size|Device)\b.{0,100}")
GNOME_NOTE = (
    "GNOME Disks: MB are 10^6 bytes, samples spread over the disk and read past the page cache"
)


def read_gnome_disks(lines: Lines) -> Iterator[ParsedResult]:
    """One result for each run of the dialog's lines: reads, writes and access times are its tests."""
    at = 0
    while at < len(lines):
        if not lines[at].strip().startswith(("Average", "Minimum", "Maximum")) or not (
            GNOME_ROW.fullmatch(squeezed(lines[at]))
        ):
            at += 1
            continue
        metrics, samples, last = _gnome_rows(lines, at)
        if metrics:
            yield ParsedResult(
                "gnome_disks",
                at + 1,
                last + 1,
                "GNOME Disks benchmark",
                metrics=tuple(metrics),
                options={"direct": True, "iodepth": 1, **samples},
                outstanding=1,
                notes=(GNOME_NOTE,),
                varies="rw",
            )
        at = last + 1


def _gnome_rows(lines: Lines, at: int) -> tuple[list[Metric], dict[str, object], int]:
    """Figures, number of samples and index of the last line. A value may stand below its name."""
    metrics: dict[str, Metric] = {}
    samples: dict[str, object] = {}
    last = at
    for place in range(at, len(lines)):
        words = squeezed(lines[place])
        name = GNOME_ROW.fullmatch(words)
        if name is None:
            if words and not (GNOME_VALUE.fullmatch(words) or GNOME_OTHER.fullmatch(words)):
                break
            continue
        below = squeezed(lines[place + 1]) if place + 1 < len(lines) else ""
        value, line = (name, place) if name[3] else (GNOME_VALUE.fullmatch(below), place + 1)
        metric = _gnome_metric(name, value, line) if value else None
        begins = name[1] == "Minimum" and any(not key.endswith(".min") for key in metrics)
        if metric is None or metric.name in metrics or begins:
            break
        metrics[metric.name], last = metric, line
        if value and value[5] and "samples" not in samples:
            samples["samples"] = int(value[5])
    return list(metrics.values()), samples, last


def _gnome_metric(name: re.Match[str], value: re.Match[str], line: int) -> Metric | None:
    statistic = {"Average": "mean", "Minimum": "min", "Maximum": "max"}[name[1]]
    amount, unit = float(value[3]), value[4]
    rate = unit.endswith("/s")
    if rate != ("Rate" in name[2]):
        return None
    if not rate:
        seconds = amount * common.SECONDS[unit]
        labels = {"rw": "randread"}
        return Metric(f"read.lat.{statistic}", seconds, Unit.SECONDS, labels, line=line + 1)
    way = name[2].split()[0].lower()
    figure = f"{way}.bandwidth" + ("" if statistic == "mean" else f".{statistic}")
    per_second = amount * common.DECIMAL_SIZES[unit.removesuffix("/s")]
    return Metric(figure, per_second, Unit.BYTES_PER_SECOND, {"rw": way}, line=line + 1)


# etcd_disk_wal_fsync_duration_seconds_bucket{le="0.008"} 743796, before 3.3: etcd_wal_fsync_durations_seconds
ETCD_ROW = re.compile(
    r"(?P<name>etcd_(?:disk_wal_fsync_duration|wal_fsync_durations|disk_backend_commit_duration)_seconds)"
    r"_(?P<part>bucket|sum|count)(?:\{(?P<labels>[^{}]{0,300})\})? "
    rf"(?P<value>{NUMBER}(?:e\+\d{{1,2}})?)(?: \d{{1,15}})?"
)
ETCD_BOUND = re.compile(rf'(?:^|,\s?)le="({NUMBER}|\+Inf)"')
ETCD_CALLS = {True: ("wal", "fsync"), False: ("backend", "commit")}
ETCD_NOTE = (
    "etcd's histogram since the process started: its percentile lies within a bucket, and is interpolated as"
    " Prometheus does"
)


def read_etcd(lines: Lines) -> Iterator[ParsedResult]:
    """One result for each histogram: buckets in a row, of one process and one call."""
    at = 0
    while at < len(lines):
        begin, key, rows = at, "", list[tuple[re.Match[str], int]]()
        while at < len(lines) and (row := ETCD_ROW.fullmatch(squeezed(lines[at]))):
            own = row["name"] + ETCD_BOUND.sub("", row["labels"] or "")
            if rows and (own != key or (row["part"] == "bucket" and _is_first(row, rows))):
                break
            key = own
            rows.append((row, at + 1))
            at += 1
        if rows:
            yield _etcd_result(lines, begin, rows)
        at = max(at, begin + 1)


def _is_first(row: re.Match[str], rows: list[tuple[re.Match[str], int]]) -> bool:
    """True for a bucket behind a larger one: another histogram begins."""
    last = rows[-1][0]
    return last["part"] != "bucket" or _bound(row) <= _bound(last)


def _bound(row: re.Match[str]) -> float:
    """Upper bound of a bucket in s."""
    match = ETCD_BOUND.search(row["labels"] or "")
    return float(match[1].replace("+Inf", "inf")) if match else 0.0


def _etcd_result(lines: Lines, begin: int, rows: list[tuple[re.Match[str], int]]) -> ParsedResult:
    area, call = ETCD_CALLS["wal" in rows[0][0]["name"]]
    title = f"etcd {area} {call}"
    buckets = [
        (_bound(row), float(row["value"]), line) for row, line in rows if row["part"] == "bucket"
    ]
    counts = [count for _, count, _ in buckets]
    if len(buckets) < 3 or buckets[-1][0] != float("inf") or counts != sorted(counts):
        why = 'the histogram is truncated: its buckets rise, and end with le="+Inf"'
        return common.named_result("etcd_metrics", lines, begin, rows[-1][1] - 1, why, title)
    if not counts[-1]:
        why = "the histogram is empty"
        return common.named_result("etcd_metrics", lines, begin, rows[-1][1] - 1, why, title)
    tail, line = _quantile(buckets, 0.99)
    figures = {"sync.lat.p99": (tail, line)}
    totals = {row["part"]: (float(row["value"]), line) for row, line in rows}
    if "sum" in totals:
        figures["sync.lat.mean"] = totals["sum"][0] / counts[-1], totals["sum"][1]
    return ParsedResult(
        "etcd_metrics",
        begin + 1,
        rows[-1][1],
        title,
        metrics=tuple(
            Metric(name, value, Unit.SECONDS, line=number)
            for name, (value, number) in figures.items()
        ),
        options={"rw": "write", "call": call, "samples": int(counts[-1])},
        outstanding=1,
        notes=(ETCD_NOTE,),
    )


def _quantile(buckets: list[tuple[float, float, int]], share: float) -> tuple[float, int]:
    """The percentile in s, interpolated within its bucket as histogram_quantile does, and the bucket's line."""
    rank, below, lower = share * buckets[-1][1], 0.0, 0.0
    for bound, count, line in buckets:
        if count >= rank:
            inside = (rank - below) / max(count - below, 1.0)
            return (lower if bound == float("inf") else lower + (bound - lower) * inside), line
        below, lower = count, bound
    raise AssertionError("the last bucket counts all")


DRIVERS = {
    "hdparm": LineReader("hdparm -t, -T", ("Timing ",), read_hdparm),
    "ioping": LineReader("ioping", ("ioping statistics",), read_ioping),
    "pveperf": LineReader(
        "pveperf", ("FSYNCS/SECOND", "BUFFERED READS", "AVERAGE SEEK TIME"), read_pveperf
    ),
    "gnome_disks": LineReader(
        "GNOME Disks benchmark",
        # an average is in every such dialog
        ("Average ",),
        read_gnome_disks,
    ),
    "etcd_metrics": LineReader(
        "etcd (histograms of its fsyncs)",
        ("_wal_fsync_duration", "_backend_commit_duration"),
        read_etcd,
    ),
}
