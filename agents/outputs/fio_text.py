# SPDX-License-Identifier: Apache-2.0
"""fio's normal (text) output, 1.1x to 3.4x, as FioJobs, for imports. Raises ParseError, nothing else.

Up to 2.x `bw=47666KB/s` means KiB/s and `io=8192.3MB` means MiB, but with kb_base=1000, which only the count of blocks
tells; from 3.0 the units say so (`BW=56.3MiB/s (59.1MB/s)`, then the other way round). With unit_base=1 rates are bits.
Commas come from a locale: up to 1.1x between thousands of whole numbers (`iops=5,134`), later as the decimal sign of
what fio prints with two decimals (`avg=340,90`); a point is always decimal.
Rates are cut to whole numbers (8.97 I/Os a second are `IOPS=8`), from 3.0 on to three digits (`IOPS=25.3k`): IOPS are
computed again from the count, the bandwidth is only as exact as that. Read the JSON where there is one.
Matching does not depend on line ends: results pasted into a page often lost them.

Lines about the jobs that start have sizes: `bs=4K-4K/4K-4K` up to 2.x, in powers of 1024, of reads/writes/trims;
`bs=(R) 64.0KiB-64.0KiB, (W) …` from 3.0 on, and with kb_base=1000 `(R) 65.5kB-65.5kB`, rounded.
"""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from agents.contracts import ParseError
from agents.outputs import fio_aims
from agents.outputs.fio_model import ALL_CLIENTS, PERCENTILES, FioJob, Latencies, Traffic

HEAD = re.compile(r"\(groupid=(\d+), jobs=(\d+)\): err=\s*(\d+)")
END = re.compile(r"Run status group|Disk stats \(read/write\)")
# with commas between thousands
WHOLE = r"\d[\d.]*(?:,\d+)*"
THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+")
DECIMALS = re.compile(r"\d+,\d{1,2}")
# with a decimal sign
SHARE = r"\d[\d.]*(?:,\d+)?"
OLD = re.compile(
    rf"\b(?P<name>read|write|trim|mixed)\s*: io=\s*(?P<io>{WHOLE})(?P<io_unit>[KMGTP]?)i?B?, "
    rf"bw=\s*(?P<bw>{WHOLE})(?P<bw_unit>[KMGTP]?)i?(?P<per>bit|B?)/s, iops=\s*(?P<iops>{WHOLE})(?P<k>[kKMG]?)\s*, "
    rf"runt=\s*(?P<ms>{WHOLE})msec"
)
NEW = re.compile(
    r"\b(?P<name>read|write|trim|mixed): IOPS=(?P<iops>[\d.]+)(?P<k>[kKMG]?), "
    r"BW=(?P<bw>[\d.]+)(?P<bw_unit>[kKMGTP]?)i?(?P<per>B/s|bit/s|) \([\d.]+[kKMGTP]?(?P<decimal>i?)(?:B/s|bit/s|)\)"
    r"\((?P<io>[\d.]+)(?P<io_unit>[kKMGTP]?)i?B/(?P<ms>\d+)msec\)"
)
RATES = re.compile(f"{OLD.pattern}|{re.sub(r'P<', 'P<new_', NEW.pattern)}")
LATENCY = re.compile(
    r"\b(?P<kind>slat|clat|lat|sync) \((?P<unit>nsec|usec|msec|sec)\s*\)\s*: "
    rf"min=\s*(?P<min>{WHOLE})(?P<min_k>[kKMG]?)\s*, max=\s*(?P<max>{WHOLE})(?P<max_k>[kKMG]?)\s*, "
    rf"avg=\s*(?P<avg>{SHARE}), stdev=\s*(?P<stdev>{SHARE})"
)
LATENCY_BEGINS = re.compile(r"\b(?:slat|clat|lat|sync) \((?:nsec|usec|msec|sec)\s*\)\s*: min=")
RANKS = re.compile(
    r"\b(slat|clat|lat|sync) percentiles \((nsec|usec|msec)\)\s*:((?:[\s|]*[\d.]+th=\[\s*\d+\],?)+)"
)
RANK = re.compile(r"([\d.]+)th=\[\s*(\d+)\]")
LEVELS = re.compile(rf"IO depths\s*:((?:\s*(?:>=)?\d+={SHARE}%,?)+)")
LEVEL = re.compile(rf"(\d+)=({SHARE})%")
CPU = re.compile(rf"cpu\s*: usr=({SHARE})%, sys=({SHARE})%")
ISSUED = re.compile(
    r"issued(?: r/w(?:/d)?| rwts?)?\s*: total=(?:r=)?(\d+)[/,](?:w=)?(\d+)(?:[/,](?:d=)?(\d+))?"
)
FAILED = re.compile(r"errors\s*: total=(\d{1,18}), first_error=")
# "<host> Starting": one of several clients
RUNS = re.compile(r"(?<!> )\bStarting \d+ (?:process|thread)")
VERSION = re.compile(r"(?<!\S)fio-\d{1,3}\.\d{1,3}(?![^\s.-])\S{0,40}")
STEADY_BEGINS = re.compile(r"\bsteadystate\s*: attained=")
PER_SECOND = {"nsec": 1e9, "usec": 1e6, "msec": 1e3, "sec": 1.0}
# "k" is decimal wherever it stands
BINARY = {unit: 1024.0**power for power, unit in enumerate(("", "K", "M", "G", "T", "P"))} | {
    "k": 1e3
}
DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


def parse_jobs(text: str, end: int | None = None) -> tuple[list[FioJob], str]:
    """Jobs, and fio's own warnings. A page with several results is refused: which one is meant?

    `end`: where the last job ends in a text that has no closing summary.
    """
    heads = list(HEAD.finditer(text))
    if not heads:
        raise ParseError("no result of fio: no '(groupid=…, jobs=…): err=' line")
    if len(RUNS.findall(text)) > 1:
        raise ParseError("more than one run of fio in one text; import them one by one")
    # what --client adds up is left out: we add up by ourselves
    heads = heads[:1] + [head for head in heads[1:] if job_name(text, head) != ALL_CLIENTS]
    started = {start.name: start for start in parse_starting_lines(text)}
    last_end = _result_end(text, heads[-1].end()) if end is None else end
    ends = [head.start() for head in heads[1:]] + [last_end]
    read, versions = _Text(text), set(VERSION.findall(text))
    version = versions.pop() if len(versions) == 1 else ""
    jobs = [
        _parse_job(head, read.slice_text(head.end(), end), started, version)
        for head, end in zip(heads, ends, strict=True)
    ]
    notes = (line.strip() for line in text.splitlines() if line.startswith(("fio: ", "note: ")))
    return jobs, "; ".join(notes)[:1000]


def job_name(text: str, head: re.Match[str]) -> str:
    """Name of the job whose result begins there."""
    before = text[max(head.start() - 100, 0) : head.start()].rstrip()
    if before.endswith(f"{ALL_CLIENTS}:"):
        return ALL_CLIENTS
    return before.split()[-1].removesuffix(":") if before else ""


def _result_end(text: str, start: int) -> int:
    """Without its closing summary the text is cut short, and the last job's figures may be."""
    match = END.search(text, start)
    if match is None:
        raise ParseError(
            "truncated: 'Run status group' is missing", text.count("\n") + 1, text[-80:]
        )
    return match.start()


class _Text:
    """A text and its line ends; or a part of it, in which a pattern is looked for."""

    def __init__(
        self, text: str, ends: list[int] | None = None, span: tuple[int, int] | None = None
    ):
        self.text = text
        self.ends = ends or [at for at, char in enumerate(text) if char == "\n"]
        self.begin, self.end = span or (0, len(text))

    def slice_text(self, begin: int, end: int) -> _Text:
        return _Text(self.text, self.ends, (begin, end))

    def search(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        return pattern.search(self.text, self.begin, self.end)

    def all(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        return pattern.finditer(self.text, self.begin, self.end)

    def line_number(self, match: re.Match[str] | None, group: str | int = 0) -> int:
        """Line of the match, from 1; 0 without a match."""
        return bisect.bisect_left(self.ends, match.start(group)) + 1 if match else 0


def _parse_job(
    head: re.Match[str],
    body: _Text,
    started: Mapping[str, Started],
    version: str,
) -> FioJob:
    rates = list(body.all(RATES))
    error = int(head[3][:9])
    if not rates and not error:
        raise ParseError("a job without any I/O figures", body.line_number(head), head[0])
    own = started.get(job_name(body.text, head))
    traffic = _directions(body, rates, own.fixed() if own else {})
    cpu, levels, failed = body.search(CPU), body.search(LEVELS), body.search(FAILED)
    depth = own.iodepth if own else _same_depth(started.values())
    steady, goal = body.search(fio_aims.STEADY_TEXT), body.search(fio_aims.GOAL_TEXT)
    if steady is None and (begins := body.search(STEADY_BEGINS)):
        raise ParseError("a steady state that cannot be read", body.line_number(begins), begins[0])
    aims = {name: steady if name.startswith("steady.") else goal for name in fio_aims.LINES}
    lines = {
        "cpu.user": cpu,
        "cpu.system": cpu,
        "depth.reached": levels,
        "errors": failed or head,
        **aims,
    }
    return FioJob(
        group=int(head[1][:9]),
        errors=int(failed[1]) if failed else int(error != 0),
        traffic=traffic,
        sync=_parse_latency(body, "sync", 0.0),
        # What share reached the depth that was asked for is not known where the depth is not
        levels={int(at[:4]): _share(share) / 100 for at, share in LEVEL.findall(levels[1])}
        if levels and depth is not None
        else {},
        depth=depth,
        cpu_user=_share(cpu[1]) / 100 if cpu else None,
        cpu_system=_share(cpu[2]) / 100 if cpu else None,
        steady=fio_aims.steady_of_text(steady) if steady else None,
        goal=fio_aims.goal_of_text(goal, version, int(head[2][:9]) > 1) if goal else None,
        lines={figure: body.line_number(match) for figure, match in lines.items()}
        | {"": body.line_number(head)},
    )


def parse_body(text: str) -> FioJob:
    """The job of which the text has rates and what is below them, without its head. Raises ParseError."""
    body = _Text(text)
    return FioJob(
        0, 0, _directions(body, list(body.all(RATES)), {}), _parse_latency(body, "sync", 0.0)
    )


def _directions(
    body: _Text, rates: Sequence[re.Match[str]], sizes: Mapping[str, int]
) -> dict[str, Traffic]:
    """What each direction of a job did; `sizes` are those of its blocks in bytes. Raises ParseError."""
    names = {match["name"] or match["new_name"] for match in rates}
    ios = _issued(body, mixed=names == {"mixed"})
    _all_latencies(body)
    starts = [match.start() for match in rates] + [body.end]
    sections = [body.slice_text(a, b) for a, b in pairwise(starts)]
    traffic = dict(
        _traffic(match, part, ios, sizes) for match, part in zip(rates, sections, strict=True)
    )
    if len(traffic) != len(rates):
        raise ParseError("a direction appears twice in one job", body.line_number(rates[0]))
    lost = [name for name, (count, _) in ios.items() if count and name not in traffic]
    if lost and rates:
        message = f"{lost[0]} I/Os were issued, but their figures are missing"
        raise ParseError(message, body.line_number(rates[0]), rates[0][0])
    traffic = {name: part for name, part in traffic.items() if part.bytes or part.ios}
    if set(traffic) > {"mixed"}:
        # unified_rw_reporting=both: the sum of the others
        del traffic["mixed"]
    return traffic


def _all_latencies(body: _Text) -> None:
    """Raises ParseError for one that would be passed over."""
    for begins in body.all(LATENCY_BEGINS):
        if not LATENCY.match(body.text, begins.start(), body.end):
            line = body.text[begins.start() : begins.start() + 120].split("\n")[0]
            raise ParseError(
                "a latency whose figures cannot be read", body.line_number(begins), line
            )


def _same_depth(started: Iterable[Started]) -> int | None:
    """fio names jobs without the number of a copy; a page may have lost the name."""
    same = {start.iodepth for start in started}
    return same.pop() if len(same) == 1 else None


def _issued(body: _Text, *, mixed: bool) -> dict[str, tuple[float, int]]:
    """I/Os by direction, and the line that says so. `mixed`: unified_rw_reporting=1, all are of that one direction."""
    match = body.search(ISSUED)
    if match is None:
        return {}
    counts, line = [_float(count) for count in match.groups("0")], body.line_number(match)
    if mixed:
        return {"mixed": (sum(counts), line)}
    return {name: (count, line) for name, count in zip(WAYS, counts, strict=True)}


def _traffic(
    match: re.Match[str],
    body: _Text,
    ios: dict[str, tuple[float, int]],
    sizes: Mapping[str, int],
) -> tuple[str, Traffic]:
    prefix = "" if match["name"] else "new_"
    name = match[f"{prefix}name"]
    runtime = _comma_number(match[f"{prefix}ms"]) / 1000
    count, counted = ios.get(name, (None, 0))
    iops = _iops(match[f"{prefix}iops"], match[f"{prefix}k"], count, runtime)
    weight = count if count is not None else iops * runtime
    # kb_base=1000: what stands in brackets behind it is in powers of 1024 then
    decimal = match["new_decimal"] or (match["name"] and _in_thousands(match, count, sizes))
    factors = DECIMAL if decimal else BINARY
    per_byte = 8 if (match["per"] or match["new_per"] or "").startswith("bit") else 1
    return name, Traffic(
        iops=iops,
        bandwidth=_comma_number(match[f"{prefix}bw"])
        * factors[match[f"{prefix}bw_unit"]]
        / per_byte,
        bytes=_comma_number(match[f"{prefix}io"]) * factors[match[f"{prefix}io_unit"]],
        ios=count,
        runtime=runtime,
        slat=_parse_latency(body, "slat", weight),
        clat=_parse_latency(body, "clat", weight),
        lat=_parse_latency(body, "lat", weight),
        lines={"": body.line_number(match), "ios": counted},
    )


def _in_thousands(match: re.Match[str], count: float | None, sizes: Mapping[str, int]) -> bool:
    """Up to 2.x: True where the blocks make what was moved with a KB of 1000 bytes, and not with one of 1024."""
    if not count or match["name"] not in sizes:
        return False
    moved, printed = count * sizes[match["name"]], _comma_number(match["io"])
    off = [abs(printed * factors[match["io_unit"]] - moved) for factors in (DECIMAL, BINARY)]
    return off[0] < 0.005 * moved and 3 * off[0] < off[1]


def _iops(printed: str, prefix: str, count: float | None, runtime: float) -> float:
    """I/Os per second by count and time, before fio rounds them; as printed where there is no count."""
    iops = _comma_number(printed) * DECIMAL[prefix]
    if not count or not runtime:
        return iops
    if abs(count / runtime - iops) > 1 + 0.02 * iops:
        raise ParseError(f"{printed}{prefix} iops in {runtime} s do not make {count:.0f} I/Os")
    return count / runtime


def _parse_latency(body: _Text, kind: str, weight: float) -> Latencies | None:
    every = [match for match in body.all(LATENCY) if match["kind"] == kind]
    if not every:
        return None
    if len(every) > 1:
        message = f"{kind} appears twice: a line with rates is missing between"
        raise ParseError(message, body.line_number(every[1]), every[1][0])
    summary = every[0]
    scale = PER_SECOND[summary["unit"]]
    low = _comma_number(summary["min"]) * DECIMAL[summary["min_k"]] / scale
    high = _comma_number(summary["max"]) * DECIMAL[summary["max_k"]] / scale
    mean = _share(summary["avg"]) / scale
    if not low * 0.99 - 1 / scale <= mean <= high * 1.01 + 1 / scale:
        raise ParseError("mean is not between min and max", body.line_number(summary), summary[0])
    ranks = list(_ranks(body, kind))
    if any(a[0] >= b[0] or a[1] > b[1] for a, b in pairwise(ranks)):
        raise ParseError("percentiles that do not rise", ranks[0][2], summary[0])
    return Latencies(
        count=weight or 1.0,
        mean=mean,
        stddev=_share(summary["stdev"]) / scale,
        low=low,
        high=high,
        percentiles={rank: value for rank, value, _ in ranks},
        lines={"": body.line_number(summary)}
        | {
            name: line
            for name, percentile in PERCENTILES.items()
            for rank, _, line in ranks
            if rank == percentile
        },
    )


def _ranks(body: _Text, kind: str) -> Iterator[tuple[float, float, int]]:
    """Rank (%), latency (s), line."""
    for block in body.all(RANKS):
        if block[1] == kind:
            inner = body.slice_text(block.start(3), block.end(3))
            for match in inner.all(RANK):
                yield (
                    _float(match[1]),
                    _float(match[2]) / PER_SECOND[block[2]],
                    body.line_number(match),
                )


def _comma_number(text: str) -> float:
    """A number with or without commas between thousands."""
    if "," in text and not THOUSANDS.fullmatch(text):
        raise ParseError(f"commas that do not separate thousands: {text[:80]!r}")
    return _float(text.replace(",", ""))


def _share(text: str) -> float:
    """A number with a comma or a point as its decimal sign."""
    if "," in text and not DECIMALS.fullmatch(text):
        raise ParseError(f"a comma that may separate thousands or decimals: {text[:80]!r}")
    return _float(text.replace(",", "."))


def _float(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ParseError(f"not a number: {text[:80]!r}") from None
    if value >= 2.0**65:
        raise ParseError(f"not a number of fio's: {text[:80]!r}")
    return value


LINE = re.compile(
    r"(?<!\S)(?P<name>\S{1,200}):\s+\(g=(?P<group>\d{1,6})\):\s+rw=(?P<rw>[a-z]+)[^;,]{0,40},\s+"
    r"(?P<sizes>[^;]{1,200}?),\s+ioengine=(?P<ioengine>[\w-]+),\s+iodepth=(?P<iodepth>\d{1,6})"
)
SIZE = re.compile(r"(\d{1,9})(\.\d{1,9})?([KMG]?)(i?)(B?)(?=[-/,\s]|\Z)", re.IGNORECASE)
# Below the line of a job with numjobs, which does not say how many
COPIES = re.compile(r"\s*\.\.\.\s")
WAYS = ("read", "write", "trim")
POWERS = {"": 0, "k": 1, "m": 2, "g": 3}
# the power of two of the smallest block
SECTOR = 9
# as much may a size be off that was computed
NEARLY = 1e-9


@dataclass(frozen=True, slots=True)
class Started:
    name: str
    group: str
    rw: str
    ioengine: str
    iodepth: int
    # Bytes, as printed: the smallest and the largest block of each direction
    sizes: tuple[int, ...]
    # numjobs
    several: bool

    def fixed(self) -> Mapping[str, int]:
        """Block size of each direction that has but one; of "mixed", where all have the same."""
        pairs = zip(WAYS, self.sizes[::2], self.sizes[1::2], strict=False)
        sizes = {way: low for way, low, high in pairs if low == high}
        same = set(self.sizes)
        return sizes | ({"mixed": same.pop()} if len(same) == 1 else {})


def parse_starting_lines(text: str) -> list[Started]:
    return [
        Started(
            name=match["name"],
            group=match["group"],
            rw=match["rw"],
            ioengine=match["ioengine"],
            iodepth=int(match["iodepth"]),
            sizes=tuple(
                _size_bytes(size) for size in SIZE.finditer(match["sizes"].replace("bs=", ""))
            ),
            several=bool(COPIES.match(text, match.end())),
        )
        for match in LINE.finditer(text)
    ]


def _size_bytes(size: re.Match[str]) -> int:
    whole, rest, unit, binary, byte = size.groups("")
    thousands = unit and byte and not binary
    factor = float((1000 if thousands else 1024) ** POWERS[unit.lower()])
    printed = float(whole + rest) * factor
    if not thousands:
        return int(printed)
    half = factor / 10 ** max(len(rest) - 1, 0) / 2
    return int(roundest(printed - half, printed + half) or printed)


def roundest(least: float, most: float) -> float:
    """The size above `least` bytes and up to `most` that the largest power of two divides.

    0.0 where none is a multiple of 512.
    """
    most *= 1 + NEARLY
    for power in range(int(math.log2(max(most, 1))), SECTOR - 1, -1):
        block = float(1 << power)
        size = most // block * block
        if size > least:
            return size
    return 0.0
