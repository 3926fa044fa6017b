# SPDX-License-Identifier: Apache-2.0
"""iozone's table of file and record sizes, and the totals of its throughput mode.

A row has a column for each test, blank where the test did not run: only its place below the heading tells which. Where
white space was collapsed, a row of all tests can be read, and no other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from agents.contracts import Metric
from agents.readers import _line_reader as common
from agents.readers._line_reader import NUMBER, LineReader, Lines, command_above, squeezed
from agents.texts.parsed_result import ParsedResult

HEADING = (
    "kb reclen write rewrite read reread read write read rewrite read fwrite frewrite fread freread"
)
# of a heading that was cut to the tests that ran
LEAST_COLUMNS = 3
# the tests in the order of the columns: what each does, as fio's rw where it has a word for it, and its direction
TESTS = {
    "write": "write",
    "rewrite": "write",
    "read": "read",
    "reread": "read",
    "randread": "read",
    "randwrite": "write",
    "backward_read": "read",
    "record_rewrite": "write",
    "stride_read": "read",
    "fwrite": "write",
    "frewrite": "write",
    "fread": "read",
    "freread": "read",
}
# characters by which a figure may stand beside its heading; columns are 8 or 9 wide
SHIFT = 3
ROW = re.compile(r"\d{1,12}(?: \d{1,12}){2,14}")
# iozone's kB are KiB
KIB = 1024
# lines of authors and settings above a table
PREAMBLE_LINES = 60
BEGINS = "Iozone: Performance Test of File I/O"
PREAMBLE = re.compile(
    r"Version \$Rev.*|Compiled for .*|Build: .*|Run began: .*|Command line used: .*|Output is in .*"
    r"|Time Resolution .*|Processor cache .*|File stride .*|random random bkwd record stride"
    r"|random random bkwd record stride .*|Contributors:.*|Include .*|O_DIRECT .*|Auto Mode.*|File size .*"
    r"|Record Size .*|Using .*|Cross over .*|Excel chart .*|[A-Z][\w. -]+(?:, ?[A-Z][\w. -]+)+[,.]?"
)
COMMAND = re.compile(r"Command line used: (\S.*)")
VERSION = re.compile(r"Version \$Revision: (\d[\d.]{0,10}) \$")
OTHER_UNIT = re.compile(r"Output is in (?!k ?bytes/sec)(.{1,40})", re.IGNORECASE)
CHILDREN = re.compile(
    rf"Children see throughput for (\d{{1,6}}) (initial writers|rewriters|readers|re-readers|random readers"
    rf"|random writers|reverse readers|stride readers) = ({NUMBER}) [kK][Bb](?:ytes)?/sec"
)
CHILDREN_TESTS = {
    "initial writers": "write",
    "rewriters": "rewrite",
    "readers": "read",
    "re-readers": "reread",
    "random readers": "randread",
    "random writers": "randwrite",
    "reverse readers": "backward_read",
    "stride readers": "stride_read",
}
EXCEL = re.compile(r'"(?:Writer|Re-writer|Reader|Re-reader|Random [Rr]ead|Random [Ww]rite) report"')
NOTE = "iozone: tests one after the other, each with one request at a time; reread and rewrite go in order, too"
BUFFERED_NOTE = "without -I (O_DIRECT), files smaller than memory are read from the page cache"
UNSYNCED_NOTE = "without -e, what is still in the page cache counts as written"


def read_iozone(lines: Lines) -> Iterator[ParsedResult]:
    """One result for each row of a table, each line of totals, and each part that is not read."""
    heading = -1
    for at, line in enumerate(lines):
        words = squeezed(line)
        if HEADING.startswith(words.lower()) and words.count(" ") >= LEAST_COLUMNS:
            heading = at
            unit = _other_unit(lines, heading)
            if unit:
                why = f"This is iozone's output in {unit}: BenchLab reads kBytes/sec only."
                last = at
                while last + 1 < len(lines) and ROW.fullmatch(squeezed(lines[last + 1])):
                    last += 1
                yield common.named_result("iozone", lines, at, last, why)
                heading = -1
        elif heading >= 0 and words and ROW.fullmatch(words):
            yield _row_result(lines, heading, at)
        elif "Children see" in words and (match := CHILDREN.fullmatch(words)):
            yield _children_result(lines, at, match)
        elif words.startswith('"') and EXCEL.fullmatch(words):
            why = "This is iozone's report for Excel: paste the table above it."
            yield common.named_result("iozone", lines, at, at, why)
        elif words:
            heading = -1


def _preamble(lines: Lines, heading: int) -> tuple[int, list[str]]:
    """Index of the first of the lines of settings above a table, and these lines."""
    first = heading
    for at in range(heading - 1, max(heading - PREAMBLE_LINES, -1), -1):
        words = squeezed(lines[at])
        if words == BEGINS:
            first = at
            break
        if words and not PREAMBLE.fullmatch(words):
            break
        first = at if words else first
    return first, [squeezed(line) for line in lines[first:heading]]


def _other_unit(lines: Lines, heading: int) -> str:
    """Unit of the output, if that is not kBytes/sec."""
    _, settings = _preamble(lines, heading)
    return next((match[1] for words in settings if (match := OTHER_UNIT.fullmatch(words))), "")


def _row_result(lines: Lines, heading: int, at: int) -> ParsedResult:
    cells = _cells(lines[heading], lines[at])
    if not cells:
        why = "white space was collapsed and some tests did not run: it is unknown which"
        return common.named_result("iozone", lines, at, at, why)
    sizes = [int(word) * KIB for word in lines[at].split()[:2]]
    first, settings = _preamble(lines, heading)
    start, command = command_above(lines, first, "iozone")
    options: dict[str, object] = {"size": sizes[0], "block_size": sizes[1], "iodepth": 1}
    options |= _settings(settings, command)
    only_row = not ROW.fullmatch(squeezed(lines[at - 1]))
    used = next((match[1] for words in settings if (match := COMMAND.fullmatch(words))), command)
    return ParsedResult(
        "iozone",
        at + 1,
        at + 1,
        f"iozone {sizes[0] // KIB} kB, records of {sizes[1] // KIB} kB",
        version=next((match[1] for words in settings if (match := VERSION.fullmatch(words))), ""),
        command=used,
        metrics=tuple(
            metric
            for test, printed in cells.items()
            for metric in _bandwidth(test, printed, at + 1, {"rw": test})
        ),
        options=options,
        outstanding=1,
        notes=tuple(_notes(settings, options)),
        head=heading + 1,
        varies="rw",
        # the first row takes what stands above the table
        also=((start + 1, heading + 1),) if only_row else ((heading + 1, heading + 1),),
    )


def _cells(heading: str, row: str) -> dict[str, str]:
    """Printed figures by test; {} if nothing tells which figure belongs to which test."""
    figures = [(match.end(), match[0]) for match in re.finditer(r"\d+", row.expandtabs())]
    ends = [match.end() for match in re.finditer(r"\S+", heading.expandtabs())]
    tests = list(TESTS)[: len(ends) - 2]
    if len(figures) == len(ends):
        return dict(zip(tests, (text for _, text in figures[2:]), strict=True))
    if any(abs(figures[place][0] - ends[place]) > 1 for place in (0, 1)):
        return {}
    # collapsed to single spaces, headings are no columns
    if "   " not in heading.expandtabs().strip():
        return {}
    cells: dict[str, str] = {}
    for end, text in figures[2:]:
        distance, test = min(
            (abs(end - place), test) for place, test in zip(ends[2:], tests, strict=True)
        )
        if distance > SHIFT or test in cells:
            return {}
        cells[test] = text
    return cells


def _bandwidth(test: str, printed: str, line: int, labels: Mapping[str, str]) -> Iterator[Metric]:
    return common.io_metrics(TESTS[test], line, {"bandwidth": float(printed) * KIB}, labels)


def _settings(settings: Sequence[str], command: str) -> dict[str, object]:
    """Options that the lines above a table or the command tell; {} if there are neither."""
    told = (words for words in settings if words.startswith(("Command line used:", "Output is in")))
    if not command and not any(told):
        return {}
    return {
        "direct": "O_DIRECT feature enabled" in settings or common.has_flag(command, "I"),
        "end_fsync": "Include fsync in write timing" in settings or common.has_flag(command, "e"),
    }


def _notes(settings: Sequence[str], options: dict[str, object]) -> Iterator[str]:
    yield NOTE
    if not any(words.lower().startswith("output is in") for words in settings):
        yield "the unit is not in the text: kBytes/sec, as iozone prints by default"
    if options.get("direct") is False:
        yield BUFFERED_NOTE
    if options.get("end_fsync") is False and not options.get("direct"):
        yield UNSYNCED_NOTE


def _children_result(lines: Lines, at: int, match: re.Match[str]) -> ParsedResult:
    test = CHILDREN_TESTS[match[2]]
    return ParsedResult(
        "iozone",
        at + 1,
        at + 1,
        f"iozone {match[1]} {match[2]}",
        metrics=tuple(_bandwidth(test, match[3], at + 1, {})),
        options={"rw": test, "numjobs": int(match[1]), "iodepth": 1},
        outstanding=int(match[1]),
        notes=("iozone -t: the sum of its processes, each with one request at a time",),
    )


DRIVERS = {
    "iozone": LineReader(
        "iozone (its table)", ("reclen", "Children see throughput", 'er report"'), read_iozone
    )
}
