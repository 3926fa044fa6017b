# SPDX-License-Identifier: Apache-2.0
"""`zpool iostat` in any text: with -v, -l, -p, -H, of any version, also where white space was collapsed."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from agents.contracts import ParseError
from agents.outputs import zpool_iostat as zpool
from agents.readers import _command
from agents.readers._command import Command, Report, Sample
from agents.texts.parsed_result import ParsedResult

LABEL = "zpool iostat"
KEYWORDS = ("capacity", "zpool", re.compile(r"\bpool\s+(?:alloc|used)\s"))
WEIGHTS = {
    f"zpool.{way}.{wait}": (f"zpool.{way}.iops",)
    for way in ("read", "write")
    for wait in ("wait", "disk_wait")
}
KIND = _command.Kind("zpool_iostat", zpool.UNITS, WEIGHTS)

EXACT = re.compile(r"\S+( \d+){6}")
HEADINGS = ("capacity operations bandwidth", "pool alloc free read write read write")


def find_results(text: str, name: str) -> list[ParsedResult]:
    lines = text.replace("\xa0", " ").split("\n")
    results: list[ParsedResult] = []
    told = _command.told_command(name, "zpool iostat")
    at, command, said_at = 0, _command.NONE, 0
    while at < len(lines):
        words = lines[at].split()
        if new_command := _command.find_command(lines[at], "zpool iostat"):
            command, said_at = new_command, at + 1
        elif command.flag("H") and EXACT.fullmatch(" ".join(words)):
            result, at = _block(lines, at, command, said_at, told, headings=HEADINGS)
            results.append(result)
            command, said_at = _command.NONE, 0
            continue
        elif _begins(lines, at):
            result, at = _block(lines, at, command, said_at, told)
            results.append(result)
            command, said_at = _command.NONE, 0
            continue
        elif words and not (
            (len(lines[at]) < 60 and _command.when(lines[at])[0])
            or _command.may_stand_between(lines[at])
        ):
            # of something else
            command, said_at = _command.NONE, 0
        at += 1
    return results


def _begins(lines: Sequence[str], at: int) -> bool:
    """Are these the headings, or the date of -T above them?"""
    if lines[at] and len(lines[at]) < 60 and at + 1 < len(lines) and _command.when(lines[at])[0]:
        at += 1
    below = lines[at + 1].split() if at + 1 < len(lines) else []
    whole = zpool.heads(lines[at]) and below[:1] in (["pool"], ["vdev"])
    return whole or zpool.is_lower_heading(lines[at])


def _block(
    lines: Sequence[str],
    at: int,
    command: Command,
    said_at: int,
    told: Command,
    headings: tuple[str, ...] = (),
) -> tuple[ParsedResult, int]:
    """The block that begins at this index, and the index behind it. `told`: what a person says of one without a
    command.
    """
    end, block_lines, dates = _extent(lines, at, bool(headings))
    first = said_at or at + 1
    numbered = [(at + 1, heading) for heading in headings] + block_lines
    flat = bool(headings) or not any(line[:1].isspace() for _, line in block_lines)
    verbose = not command or command.flag("v")
    try:
        reports = list(zpool.reports(numbered, flat, verbose, decimal_sign=""))
        if not reports:
            raise ParseError("headings of zpool iostat without a row", at + 1, lines[at])
    except ParseError as error:
        last = block_lines[-1][0]
        return ParsedResult(KIND.name, first, last, "zpool iostat", trouble=str(error)), end
    pools = dict.fromkeys(name for report in reports for name in report.rows if "/" not in name)
    title = f"zpool iostat of {', '.join(pools)}"
    clocks = (list(dates), list(dates.values()))
    dated_reports = [_dated_report(report, *clocks) for report in reports]
    result = _command.watch_block(
        KIND, dated_reports, command or told, title, _run_notes(reports, flat and verbose)
    )
    last = max(result.last, max(number for number, _ in block_lines))
    return ParsedResult(
        KIND.name,
        first,
        last,
        title,
        command=command.text,
        metrics=result.metrics,
        series=result.series,
        notes=result.notes,
    ), end


def _extent(
    lines: Sequence[str], at: int, scripted: bool
) -> tuple[int, list[tuple[int, str]], dict[int, float | None]]:
    """Index behind the block, its lines with their numbers, and the seconds of the dates in it."""
    block_lines: list[tuple[int, str]] = []
    dates: dict[int, float | None] = {}
    wide = 7 if scripted else 0
    end = at
    while end < len(lines):
        words = lines[end].split()
        dated, second = _command.when(lines[end]) if len(lines[end]) < 60 else (False, None)
        head = zpool.heads(lines[end])
        below = zpool.is_lower_heading(lines[end])
        below = below or (bool(block_lines) and zpool.heads(block_lines[-1][1]))
        if dated:
            dates[end + 1] = second
        elif words and not (
            head or below or zpool.DASHES.fullmatch(lines[end]) or _looks_like_row(words, wide)
        ):
            break
        elif words:
            wide = len(words) if below else wide
            block_lines.append((end + 1, lines[end]))
        end += 1
    tail = block_lines[-1][1] if block_lines and end == len(lines) and not scripted else ""
    if (
        tail
        and len(tail.split()) < wide
        and not (zpool.DASHES.fullmatch(tail) or zpool.heads(tail))
    ):
        # cut by the end of the text
        block_lines.pop()
    return end, block_lines, dates


def _looks_like_row(words: Sequence[str], wide: int) -> bool:
    """True with as many words as headings, or with enough figures to be a damaged row."""
    figures = sum(word == "-" or word[0].isdigit() for word in words[1:])
    if len(words) == wide:
        return figures > 2
    return 3 < len(words) < wide and figures == len(words) - 1


def _dated_report(
    report: zpool.Report, dated: Sequence[int], clocks: Sequence[float | None]
) -> Report:
    """The report with the clock of the last dated line above it."""
    numbers = [row.number for row in report.rows.values()]
    above = bisect_left(dated, report.at)
    return Report(
        report.at,
        max(numbers),
        {name: Sample(row.number, dict(row.values)) for name, row in report.rows.items()},
        clocks[above - 1] if above else None,
    )


def _run_notes(reports: Sequence[zpool.Report], flat: bool) -> list[str]:
    notes = []
    if any(report.rounded for report in reports):
        notes.append("rounded to three digits by zpool iostat: -p would print exact figures")
    notes += [
        f"line {number} ends within a value ({text}): that value is left out"
        for report in reports
        for number, text in report.cut_values
    ]
    if flat and any("/" in name for report in reports for name in report.rows):
        notes.append(
            "the text lost its indentation: the members of mirrors and raidz vdevs are unknown"
        )
    return notes
