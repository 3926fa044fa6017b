# SPDX-License-Identifier: Apache-2.0
"""Reports of CrystalDiskMark (which runs DiskSpd) and KDiskMark (which runs fio): a line for each test."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agents.readers import _line_reader as common
from agents.readers._line_reader import NUMBER, LineReader, Lines, squeezed
from agents.texts.parsed_result import ParsedResult

PRODUCT = re.compile(
    r"(CrystalDiskMark|KDiskMark) (?:\(?(\d[\w.-]{0,20})\)?)?.{0,60}(?:hiyohiyo|https?:.*)"
)
SECTION = re.compile(r"\[(Read|Write|Mix)\](?: Read (\d{1,3})%/Write \d{1,3}%)?")
FIGURES = rf"({NUMBER}) MB/s(?: \[ ?({NUMBER}) IOPS\])?(?: < ?({NUMBER}) us>)?"
# CrystalDiskMark 7 and later "SEQ 1MiB (Q= 8, T= 1):"; KDiskMark "Sequential 1 MiB (Q= 8, T= 1):"
SECTION_ROW = re.compile(
    rf"(SEQ|RND|Sequential|Random) ?(\d{{1,5}})( ?)(KiB|MiB) \(Q= ?(\d{{1,4}}), ?T= ?(\d{{1,3}})\): ?{FIGURES}"
)
# CrystalDiskMark 2 to 6: "Random Read 4KiB (Q= 32,T= 1) : 384.970 MB/s [ 93986.8 IOPS]"
WORDED_ROW = re.compile(
    r"(Sequential|Random) (Read|Write)(?: (\d{1,5})(KB|KiB|MiB))?"
    rf"(?: \((?:QD=|Q= ?)?(\d{{1,4}})?(?:, ?)?(?:T= ?(\d{{1,3}}))?\))? ?: ?{FIGURES}"
)
# A table that somebody made of it: columns of reads and writes, rows such as "Seq Q32T1", "4K", "RND4K Q32T16"
TABLE_HEAD = re.compile(
    r"(?:Test |Mode )?(Read|Write) \(?MB/s\)? (?!\1)(Read|Write) \(?MB/s\)?", re.IGNORECASE
)
TABLE_ROW = re.compile(
    r"(?=[a-z]|\d{1,5} ?[km])(Seq|Rnd|Random|Sequential)? ?(\d{1,5} ?(?:KiB|MiB|KB|MB|K|M))?"
    rf"(?: ?\(?QD?=? ?(\d{{1,4}}),? ?(?:T=? ?(\d{{1,3}}))?\)?)? ({NUMBER}) ({NUMBER})",
    re.IGNORECASE,
)
TABLE_NOTE = "a table made of CrystalDiskMark's figures: its MB are 10^6 bytes, and IOPS are computed from them"
BLOCK_UNITS = {"KB": 1 << 10, "KiB": 1 << 10, "MiB": 1 << 20}
TEST_SIZE = re.compile(r"Test ?: (\d{1,6}) ?(MB|MiB|GB|GiB)\b.*")
AROUND = re.compile(
    r"-{20,}|\* (?:MB/s|KB) ?= .*|Crystal Dew World ?:.*|Flexible I/O Tester.*"
    r"|(?:Profile|Test|Mode|Time|Date|OS|Comment|Target) ?:.*"
)
MARK_NOTES = {
    "crystaldiskmark": "CrystalDiskMark: MB are 10^6 bytes; rate and time are each the best of its passes",
    "kdiskmark": "KDiskMark: means of its passes of fio, past the page cache unless that was turned off",
}
KIB_NOTE = (
    "KDiskMark prints KiB/s / 1000 as MB/s: bandwidth is from its IOPS and block size, 2.4 % more"
)


@dataclass(frozen=True)
class Report:
    """Lines that apply to the tests of a report. Indexes count from 0; -1: no such line."""

    product_at: int = -1
    product: str = ""
    version: str = ""
    section_at: int = -1
    section: str = ""
    read_percent: int = 0
    # B; 0: unknown
    size: int = 0


def _mark_results(kind: str, lines: Lines) -> Iterator[ParsedResult]:
    """One result for each test of a report by that program."""
    report = Report()
    around: list[tuple[int, int]] = []
    results: list[ParsedResult] = []
    for at, line in enumerate(lines):
        words = squeezed(line)
        if not words:
            continue
        if PRODUCT.fullmatch(words):
            yield from _with_report(results, report, ())
            results = []
        if test := _mark_test(kind, lines, at, words, report):
            results.append(replace(test, also=tuple(around)))
            around = []
            continue
        following = _report_at(report, at, words)
        if following is None and not (report.product == kind and "MB/s" in words):
            # something else begins
            yield from _with_report(results, report, around)
            report, around, results = Report(), [], []
            continue
        report = following or report
        around.append((at + 1, at + 1))
    yield from _with_report(results, report, around)


def _with_report(
    results: Sequence[ParsedResult], report: Report, below: Sequence[tuple[int, int]]
) -> Iterator[ParsedResult]:
    """The tests of a report with what its last lines say of all of them."""
    for result in results:
        size = {"size": report.size} if report.size and not result.trouble else {}
        also = (*result.also, *below) if result is results[-1] else result.also
        yield replace(result, options={**result.options, **size}, also=also)


def _report_at(report: Report, at: int, words: str) -> Report | None:
    """The settings that apply below a line that is no test; None if the line belongs to no report."""
    if product := PRODUCT.fullmatch(words):
        return Report(at, product[1].lower(), product[2] or "")
    if section := SECTION.fullmatch(words):
        percent = int(section[2] or 0)
        return replace(report, section_at=at, section=section[1], read_percent=percent)
    if size := TEST_SIZE.fullmatch(words):
        return replace(report, size=int(size[1]) << (30 if size[2].startswith("G") else 20))
    return report if AROUND.fullmatch(words) else None


def _mark_test(kind: str, lines: Lines, at: int, words: str, report: Report) -> ParsedResult | None:
    """The result of a line, if it is a test of the program; None if not, or if the test did not run."""
    if "MB/s" not in words:
        return None
    if row := SECTION_ROW.fullmatch(words):
        # the blank between number and unit is KDiskMark's
        owner = "kdiskmark" if row[3] and row[1] in ("Sequential", "Random") else "crystaldiskmark"
        return _section_test(kind, lines, at, row, report) if owner == kind else None
    if kind == "crystaldiskmark" and (row := WORDED_ROW.fullmatch(words)):
        # "Sequential Read : 505.825 MB/s" alone may be anybody's
        alone = report.product_at < 0 and not (row[5] or row[6])
        return (
            None if alone or report.product == "kdiskmark" else _worded_test(lines, at, row, report)
        )
    return None


def _section_test(
    kind: str, lines: Lines, at: int, row: re.Match[str], report: Report
) -> ParsedResult | None:
    random = row[1] in ("RND", "Random")
    block = int(row[2]) * BLOCK_UNITS[row[4]]
    if report.section_at < 0:
        why = "reads or writes? The line [Read] or [Write] above it is missing"
        return common.named_result(kind, lines, at, at, why)
    way = {"Read": "read", "Write": "write", "Mix": ""}[report.section]
    options: dict[str, object] = {
        "rw": ("rand" if random else "") + (way or "rw"),
        "block_size": block,
        "iodepth": int(row[5]),
        "numjobs": int(row[6]),
    }
    if not way:
        options["rwmixread"] = report.read_percent
    return _test_result(kind, lines, at, (way, row.groups()[6:]), options, report)


def _worded_test(lines: Lines, at: int, row: re.Match[str], report: Report) -> ParsedResult | None:
    way = row[2].lower()
    options: dict[str, object] = {"rw": ("rand" if row[1] == "Random" else "") + way}
    if row[3]:
        options["block_size"] = int(row[3]) * BLOCK_UNITS[row[4]]
    if row[5] or row[6]:
        options |= {"iodepth": int(row[5] or 1), "numjobs": int(row[6] or 1)}
    return _test_result("crystaldiskmark", lines, at, (way, row.groups()[6:]), options, report)


def _test_result(
    kind: str,
    lines: Lines,
    at: int,
    figures: tuple[str, Sequence[str | None]],
    options: Mapping[str, object],
    report: Report,
) -> ParsedResult | None:
    way, (rate_text, iops_text, latency_text) = figures
    rate, iops = float(rate_text or 0) * 1e6, float(iops_text) if iops_text else None
    if not rate and not iops:
        # the test was not run
        return None
    notes = [MARK_NOTES[kind]]
    block = options.get("block_size")
    if isinstance(block, int) and iops is not None and not _fits(rate, iops * block):
        if kind != "kdiskmark" or not _fits(rate * 1.024, iops * block):
            why = "MB/s, IOPS and block size of the line do not agree"
            return common.named_result(kind, lines, at, at, why)
        rate = iops * block
        notes.append(KIB_NOTE)
    # KDiskMark's is fio's completion latency
    time_name = "clat.mean" if kind == "kdiskmark" else "lat.mean"
    latency = float(latency_text) / 1e6 if latency_text and float(latency_text) else None
    worded = report.section_at < 0
    return ParsedResult(
        kind,
        at + 1,
        at + 1,
        squeezed(lines[at]).split(":")[0].strip() + (f" {way}" if not worded and way else ""),
        version=report.version,
        metrics=tuple(
            common.io_metrics(way, at + 1, {"bandwidth": rate, "iops": iops, time_name: latency})
        ),
        options=options if kind == "kdiskmark" else {**options, "direct": True},
        outstanding=common.total_outstanding(options),
        notes=tuple(notes),
        head=max(report.product_at if worded else report.section_at, -1) + 1,
    )


def _fits(rate: float, other: float) -> bool:
    """True if two rates agree as far as three decimals of MB and one of IOPS tell."""
    return abs(rate - other) <= 0.004 * max(rate, other) + 1500


def read_crystaldiskmark(lines: Lines) -> Iterator[ParsedResult]:
    yield from _mark_results("crystaldiskmark", lines)
    yield from _table_results(lines)


def _table_results(lines: Lines) -> Iterator[ParsedResult]:
    """One result for each row of a table of reads and writes, in a text that names CrystalDiskMark."""
    if not any("crystaldiskmark" in line.lower() for line in lines):
        return
    ways: list[str] = []
    for at, line in enumerate(lines):
        words = squeezed(line)
        if head := TABLE_HEAD.fullmatch(words):
            ways = [head[1].lower(), head[2].lower()]
        elif ways and (row := TABLE_ROW.fullmatch(words)):
            yield _table_row(at, row, ways)
        elif words:
            ways = []


def _table_row(at: int, row: re.Match[str], ways: Sequence[str]) -> ParsedResult:
    """Reads and writes of a row, which are tests of their own."""
    block = common.size_in_bytes((row[2] or "").replace(" ", ""))
    small = block is not None and block < 128 << 10
    random = small and (row[1] or "r")[0].lower() == "r"
    options: dict[str, object] = {"iodepth": int(row[3] or 1), "numjobs": int(row[4] or 1)}
    if block:
        options["block_size"] = block
    metrics = [
        metric
        for way, text in zip(ways, row.groups()[4:], strict=True)
        for metric in common.io_metrics(
            way,
            at + 1,
            {
                "bandwidth": float(text) * 1e6,
                "iops": float(text) * 1e6 / block if small and block else None,
            },
            {"rw": ("rand" if random else "") + way},
        )
    ]
    return ParsedResult(
        "crystaldiskmark",
        at + 1,
        at + 1,
        f"CrystalDiskMark {squeezed(row[0])[: -len(row[5]) - len(row[6]) - 2].strip()}",
        metrics=tuple(metrics),
        options={**options, "direct": True},
        outstanding=common.total_outstanding(options),
        notes=(TABLE_NOTE,),
        varies="rw",
    )


def read_kdiskmark(lines: Lines) -> Iterator[ParsedResult]:
    return _mark_results("kdiskmark", lines)


DRIVERS = {
    "crystaldiskmark": LineReader(
        "CrystalDiskMark",
        ("(Q", re.compile("crystaldiskmark", re.IGNORECASE)),
        read_crystaldiskmark,
    ),
    "kdiskmark": LineReader("KDiskMark", ("(Q=",), read_kdiskmark),
}
