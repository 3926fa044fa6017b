# SPDX-License-Identifier: Apache-2.0
"""Parts of fio's normal output, as people cut them out: jobs without their closing summary, lines with rates and what
is below them, the summary alone. What is complete is read, and what is cut is named. Raises ParseError, nothing else.

    read: IOPS=7757, BW=30.3MiB/s (31.8MB/s)(8192KiB/264msec)
   READ: bw=30.3MiB/s (31.8MB/s), 30.3MiB/s-30.3MiB/s (31.8MB/s-31.8MB/s), io=8192KiB (8389kB), run=264-264msec
   READ: io=8192KB, aggrb=31030KB/s, minb=31030KB/s, maxb=31030KB/s, mint=264msec, maxt=264msec

A text may end anywhere, also within a number. So a line counts only where fio's own way to end it is to be seen.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agents.contracts import Metric, ParseError, Unit
from agents.outputs import fio_text
from agents.outputs.fio_model import FioJob

# How lines below a job's head begin, also without their indentation
BODY = re.compile(
    r"\s*(?:(?:read|write|trim|mixed)\s*: (?:io=|IOPS=)|(?:slat|clat|lat|sync) (?:\(|percentiles)|\|\s+\d"
    r"|bw \(|iops\s+:|cpu\s+:|IO depths\s+:|submit\s+:|complete\s+:|issued|latency\s+:|errors\s+:"
    r"|fsync/fdatasync/|steadystate\s+:|zone resets)"
)
# How fio ends those of them from which figures are read
ENDS = {
    "rates": re.compile(r"\s*(?:read|write|trim|mixed)\s*: .*msec\)?(?:; \d+ zone resets)?"),
    "latency": re.compile(r"\s*(?:slat|clat|lat|sync) \(\w+\s*\)\s*: .*stdev=\s*\d+[.,]\d\d"),
    "percentiles": re.compile(r"\s*\|.*\],?"),
    "cpu": re.compile(r"\s*cpu\s+:.*minf=\d+"),
    "depths": re.compile(r"\s*IO depths\s+:.*>=64=\s*[\d.,]+%"),
    "counts": re.compile(r"\s*issued.* short=.*"),
}
BEGINS = {
    "rates": re.compile(r"\s*(?:read|write|trim|mixed)\s*: (?:io=|IOPS=)"),
    "latency": re.compile(r"\s*(?:slat|clat|lat|sync) \("),
    "percentiles": re.compile(r"\s*\|"),
    "cpu": re.compile(r"\s*cpu\s+:"),
    "depths": re.compile(r"\s*IO depths\s+:"),
    "counts": re.compile(r"\s*issued"),
}
DISTRIBUTION = re.compile(r"\s*lat \(\w+\s*\)\s*:\s*(?:>=)?\d+=")
STARTING = re.compile(r"\bStarting (\d{1,6}) (?:process|thread)(?:es|s)?(?: and (\d{1,6}) thread)?")
MIXED = frozenset({"rw", "randrw", "readwrite", "trimwrite", "randtrimwrite"})
NEW_SUMMARY = (
    r"(?P<name>READ|WRITE|TRIM|MIXED): bw=(?P<bw>[\d.]+)(?P<bw_unit>[kKMGTP]?i?)B/s \([^()]{1,30}\), "
    r"(?:[^\s,-]{1,20}-[^\s,]{1,20} \([^()]{1,40}\), )?"
    r"io=(?P<io>[\d.]+)(?P<io_unit>[kKMGTP]?i?)B \([^()]{1,30}\), run=(?P<low>\d+)-(?P<high>\d+)msec"
)
# KB are of 1024 bytes
OLD_SUMMARY = (
    r"(?P<old>READ|WRITE|TRIM|MIXED): io=(?P<old_io>[\d.]+)(?P<old_io_unit>[KMGTP]?)i?B, "
    r"aggrb=(?P<old_bw>[\d.]+)(?P<old_bw_unit>[KMGTP]?)i?B/s, minb=[^\s,]{1,20}, maxb=[^\s,]{1,20}, "
    r"mint=(?P<old_low>\d+)msec, maxt=(?P<old_high>\d+)msec"
)
SUMMARY = re.compile(rf"\s*(?:{NEW_SUMMARY}|{OLD_SUMMARY})\s*")
NO_COUNTS = "the counts of I/Os are cut off: IOPS are as fio rounded them"
ONE_DIRECTION = "whether it did other I/O as well is cut off: there are no totals"


@dataclass(frozen=True, slots=True)
class Fragment:
    """Jobs of a text that is not whole. `has_totals`: no direction of them can be missing."""

    jobs: list[FioJob]
    notes: tuple[str, ...]
    has_totals: bool


def parse_cut_jobs(text: str) -> Fragment:
    """Jobs of a text without its closing summary. Raises ParseError if some of the jobs are missing."""
    text, notes = _complete_lines(text)
    heads = list(fio_text.HEAD.finditer(text))
    started = STARTING.search(text)
    expected = sum(int(count) for count in started.groups("0")) if started else 0
    shown = sum(int(head[2][:9]) for head in heads)
    if expected > shown:
        cut = f"truncated: {shown} of {expected} jobs"
        if not _has_whole_groups(text, heads):
            raise ParseError(cut)
        notes = (*notes, f"{cut}, which are groups of their own")
    bodies = [
        text[head.end() : following.start() if following else len(text)]
        for head, following in zip(heads, [*heads[1:], None], strict=True)
    ]
    has_counts = all(_has_counts(body) for body in bodies)
    if not has_counts and len(heads) > 1:
        raise ParseError("truncated: the last job's figures end early")
    jobs, _ = fio_text.parse_jobs(text, end=len(text))
    directions = {name for job in jobs for name in job.traffic}
    asked = {start.rw for start in fio_text.parse_starting_lines(text)}
    if not has_counts and asked & MIXED and len(directions) == 1 and "mixed" not in directions:
        raise ParseError("truncated: the figures of its other direction are missing")
    sure = has_counts or bool(asked and not asked & MIXED) or len(directions) > 1
    return Fragment(jobs, (*notes, *_count_notes(has_counts, sure)), sure)


def _has_whole_groups(text: str, heads: Sequence[re.Match[str]]) -> bool:
    """True if every job of each group that is shown is there: only groups that ran by themselves are missing."""
    starts = fio_text.parse_starting_lines(text)
    shown = Counter[str]()
    for head in heads:
        shown[head[1]] += int(head[2][:9])
    summed = {head[1] for head in heads if int(head[2][:9]) > 1}
    asked = Counter(start.group for start in starts)
    copies = {start.group for start in starts if start.several}
    return bool(shown) and all(
        group in summed if group in copies else asked[group] == jobs
        for group, jobs in shown.items()
    )


def parse_rates(text: str) -> Fragment:
    """The job of which the text has lines with rates, and maybe what fio prints below them."""
    text, notes = _complete_lines(text)
    if not fio_text.RATES.search(text):
        raise ParseError("truncated: a line with rates that is not whole", 1, text[:120])
    job = fio_text.parse_body(text)
    has_counts = _has_counts(text)
    sure = has_counts or len(job.traffic) > 1
    return Fragment([job], (*notes, *_count_notes(has_counts, sure)), sure)


def _count_notes(has_counts: bool, sure: bool) -> list[str]:
    return [NO_COUNTS] * (not has_counts) + [ONE_DIRECTION] * (not sure)


def _has_counts(body: str) -> bool:
    return any(ENDS["counts"].fullmatch(line) for line in body.split("\n"))


def _complete_lines(text: str) -> tuple[str, tuple[str, ...]]:
    """The text without a last line that ends within a value, and the note that names it."""
    lines = text.rstrip().split("\n")
    last = lines[-1]
    kinds = [kind for kind, begins in BEGINS.items() if begins.match(last)]
    if not kinds or DISTRIBUTION.match(last) or ENDS[kinds[0]].fullmatch(last.rstrip()):
        return text, ()
    return "\n".join(lines[:-1]), (f"ends within a line that is left out: {last.strip()[:60]}",)


def rate_blocks(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """First and last index of each part that begins with rates: directions of one runtime belong together."""
    at = 0
    while at < len(lines):
        first = fio_text.RATES.search(lines[at]) if "msec" in lines[at] else None
        if first is None:
            at += 1
            continue
        end, runtime, directions = at + 1, _runtime(first), {_direction(first)}
        while end < len(lines) and BODY.match(lines[end]):
            if BEGINS["rates"].match(lines[end]):
                rates = fio_text.RATES.search(lines[end])
                if not rates or _runtime(rates) != runtime or _direction(rates) in directions:
                    break
                directions.add(_direction(rates))
            end += 1
        yield at, end - 1
        at = end


def _runtime(rates: re.Match[str]) -> str:
    return rates["ms"] or rates["new_ms"]


def _direction(rates: re.Match[str]) -> str:
    return rates["name"] or rates["new_name"]


def summary_blocks(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """First and last index of each summary of a group, with the heading right above it."""
    at = 0
    while at < len(lines):
        end = at
        directions: set[str] = set()
        while end < len(lines) and (match := SUMMARY.fullmatch(lines[end])):
            if (name := match["name"] or match["old"]) in directions:
                break
            directions.add(name)
            end += 1
        if end > at:
            heading = at > 0 and lines[at - 1].lstrip().startswith("Run status group")
            yield at - heading, end - 1
        at = max(end, at + 1)


def summary_metrics(lines: Sequence[str]) -> list[Metric]:
    """Bandwidth, bytes and runtime of each direction. Raises ParseError where they do not agree."""
    metrics: list[Metric] = []
    runtimes: dict[float, int] = {}
    for number, line in enumerate(lines, 1):
        if not (match := SUMMARY.fullmatch(line)):
            continue
        old = "old_" if match["old"] else ""
        name = (match["name"] or match["old"]).lower()
        units = fio_text.BINARY if old or match["bw_unit"].endswith("i") else fio_text.DECIMAL
        bandwidth, moved = (
            float(match[f"{old}{part}"]) * units[match[f"{old}{part}_unit"].removesuffix("i")]
            for part in ("bw", "io")
        )
        seconds = int(match[f"{old}high"]) / 1000
        if not seconds or abs(moved / seconds - bandwidth) > 0.02 * bandwidth + 1024:
            raise ParseError("bytes, time and bandwidth do not agree", number, line)
        prefix = "" if name == "mixed" else f"{name}."
        metrics.append(Metric(f"{prefix}bandwidth", bandwidth, Unit.BYTES_PER_SECOND, line=number))
        metrics.append(Metric(f"{prefix}bytes", moved, Unit.BYTES, line=number))
        runtimes[seconds] = runtimes.get(seconds, number)
    longest = max(runtimes)
    return [*metrics, Metric("runtime", longest, Unit.SECONDS, line=runtimes[longest])]
