# SPDX-License-Identifier: Apache-2.0
"""Parser of the summary that dd prints: GNU 4 to 9, BusyBox, FreeBSD and its relatives.

Three lines: blocks read, blocks written, and bytes with their time and rate. The rate has two or three digits, so
bandwidth is bytes over seconds; it must agree with the rate, and the bytes with the blocks, or nothing is read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agents.contracts import Metric, ParseError, Unit

RECORDS = re.compile(r"(\d{1,18})\+(\d{1,18}) records (in|out)", re.ASCII)
_AMOUNT = r"(?P<bytes>\d{1,19}) bytes?"
_DECIMAL = r"\d{1,12}(?:[.,]\d{1,12})?"
# "0.0158 seconds, 1.2GB/s": BusyBox puts no space before its unit, and means 1024 by K.
BUSYBOX = re.compile(
    rf"{_AMOUNT} \([^()]{{1,40}}\) copied, (?P<s>{_DECIMAL}) seconds, (?P<rate>{_DECIMAL})(?P<unit>[KMGTPE]?)B/s",
    re.ASCII,
)
GNU = re.compile(
    rf"{_AMOUNT}(?: \([^()]{{1,60}}\))? copied, (?P<s>{_DECIMAL}(?:e[+-]?\d{{1,3}})?) (?:s|seconds), "
    rf"(?:(?P<rate>{_DECIMAL}) (?P<unit>[kKMGTPE]?)B/s|Infinity B/s)",
    re.ASCII,
)
BSD = re.compile(
    rf"{_AMOUNT}(?: \([^()]{{1,60}}\))? transferred in (?P<s>{_DECIMAL}) secs "
    rf"\((?P<rate>\d{{1,19}}) bytes/sec(?: - [^()]{{1,30}})?\)",
    re.ASCII,
)
# Other languages: "1073741824字节（1.1 GB，1.0 GiB）已复制，0.43 秒，2.5 GB/秒"
LOCALIZED = re.compile(
    rf"(?P<bytes>\d{{1,19}}) ?[^\d()（）]{{1,60}}(?:[(（][^()（）]{{1,60}}[)）] ?(?P<verb>[^\d()（）]{{1,60}}))?"
    rf"[,，、] ?(?P<s>{_DECIMAL}(?:e[+-]?\d{{1,3}})?) (?:s|秒|[Ss]ek\w*|seg\w*|с)"
    rf"[,，、] ?(?P<rate>{_DECIMAL}) (?P<unit>[kKMGTPE]?)B/(?:s|秒|с)"
)
LOCALIZED_RECORDS = re.compile(r"[^\d+]{0,20}(\d{1,18})\+(\d{1,18})[^\d+]{2,60}")
COPIED = re.compile(
    r"kopiert|copiés?|copiados?|copiati|已复制|已複製|コピーされました|скопирован|skopiowan"
)
POWERS = " KMGTPE"
# no dd ran for thirty years
LONGEST_S = 1e9
# GNU reads the clock with more digits than it prints, and BusyBox divides in whole steps.
SLACK = 1.2
CURE = "run it again with LC_ALL=C and without status=noxfer"


@dataclass(frozen=True, slots=True)
class Summary:
    """The third line."""

    bytes: int
    seconds: float
    line: int
    note: str = ""

    def rate_over(self, amount: float) -> float | None:
        return amount / self.seconds if self.seconds else None


def parse_run(lines: Sequence[str]) -> list[Metric]:
    """All figures of exactly one run. Raises ParseError."""
    at_in, read = _records(lines, "in")
    at_out, written = _records(lines, "out")
    printed = _summary(lines, at_out)
    _check_blocks(printed, written, lines[printed.line - 1])
    failed = [
        (number, line)
        for number, line in enumerate(lines, 1)
        if line.startswith("dd: ") and "warning" not in line
    ]
    errors = Metric(
        "errors",
        float(len(failed)),
        Unit.RATIO,
        note="; ".join(line for _, line in failed)[:500],
        line=failed[0][0] if failed else printed.line,
    )
    blocks = sum(written)
    per_second = Unit.OPS_PER_SECOND
    return [
        Metric("bytes", float(printed.bytes), Unit.BYTES, line=printed.line),
        Metric("runtime", printed.seconds, Unit.SECONDS, line=printed.line),
        Metric(
            "bandwidth",
            printed.rate_over(printed.bytes),
            Unit.BYTES_PER_SECOND,
            note=printed.note,
            line=printed.line,
        ),
        Metric("iops", printed.rate_over(blocks), per_second, note=printed.note, line=printed.line),
        Metric("records.in", float(sum(read)), Unit.RATIO, note=_partial(read), line=at_in),
        Metric("records.out", float(blocks), Unit.RATIO, note=_partial(written), line=at_out),
        errors,
    ]


def parse_last_line(line: str) -> list[Metric]:
    """Figures of the line that ends a result, without the blocks above it. Raises ParseError."""
    match = summary(line)
    if match is None:
        raise ParseError("not dd's last line", 1, line)
    printed = _checked(match, 1, line)
    rate = printed.rate_over(printed.bytes)
    return [
        Metric("bytes", float(printed.bytes), Unit.BYTES, line=1),
        Metric("runtime", printed.seconds, Unit.SECONDS, line=1),
        Metric("bandwidth", rate, Unit.BYTES_PER_SECOND, note=printed.note, line=1),
    ]


def summary(line: str) -> re.Match[str] | None:
    """The line that ends a result; status=progress prints such lines, too."""
    return BUSYBOX.fullmatch(line) or GNU.fullmatch(line) or BSD.fullmatch(line)


def in_english(lines: Sequence[str]) -> list[str]:
    """The lines with dd's results in English, whatever language they are in: figures and their order are the same."""
    english = list(lines)
    for at, line in enumerate(lines):
        match = LOCALIZED.fullmatch(line) if "B/" in line else None
        figures = match or summary(line)
        if match and COPIED.search(line):
            english[at] = _english_summary(match)
        records = [LOCALIZED_RECORDS.fullmatch(above) for above in lines[max(at - 2, 0) : at]]
        if not figures or len(records) < 2 or not all(records):
            continue
        if match:
            english[at] = _english_summary(match)
        for above, way, record in zip((at - 2, at - 1), ("in", "out"), records, strict=True):
            if record and not RECORDS.fullmatch(lines[above]):
                english[above] = f"{record[1]}+{record[2]} records {way}"
    return english


def _english_summary(match: re.Match[str]) -> str:
    return f"{match['bytes']} bytes copied, {match['s']} s, {match['rate']} {match['unit']}B/s"


def last_shown(line: str) -> str:
    """Text that a terminal still shows of a line that status=progress overwrote by carriage returns."""
    return next((part for part in reversed(line.split("\r")) if part.strip()), "").strip()


def _records(lines: Sequence[str], way: str) -> tuple[int, tuple[int, int]]:
    """The line's number, and the full and the partial blocks."""
    matches = [
        (number, match)
        for number, line in enumerate(lines, 1)
        if (match := RECORDS.fullmatch(line)) and match[3] == way
    ]
    if not matches:
        number, text = next(((n, line) for n, line in enumerate(lines, 1) if line), (0, ""))
        raise ParseError(
            f"no 'records {way}' line, so dd did not finish (or not in English)", number, text
        )
    if len(matches) > 1:
        raise ParseError(f"'records {way}' is printed {len(matches)} times: several runs in one")
    number, match = matches[0]
    return number, (int(match[1]), int(match[2]))


def _summary(lines: Sequence[str], after: int) -> Summary:
    for number, line in enumerate(lines[after:], after + 1):
        if parsed := summary(line):
            return _checked(parsed, number, line)
    raise ParseError(
        f"no summary after 'records out': truncated, or status=noxfer, or a BusyBox built without it; {CURE}",
        after,
        lines[after - 1],
    )


def _checked(match: re.Match[str], number: int, line: str) -> Summary:
    moved, seconds = int(match["bytes"]), _decimal(match["s"])
    if seconds > LONGEST_S:
        raise ParseError("implausibly long", number, line)
    if not seconds:
        return Summary(moved, seconds, number, "too short to be timed")
    if match["rate"] is not None and not _rate_agrees(match, moved, seconds):
        raise ParseError("bytes, seconds and rate do not agree", number, line)
    return Summary(moved, seconds, number)


def _rate_agrees(match: re.Match[str], moved: int, seconds: float) -> bool:
    """True when the rate is bytes over seconds, as far as both were rounded."""
    unit = (match.groupdict().get("unit") or " ").upper()
    scale = (1024.0 if match.re is BUSYBOX else 1000.0) ** POWERS.index(unit)
    rate, step = _decimal(match["rate"]) * scale, _last_digit_unit(match["rate"]) * scale
    # the share of the seconds that rounding may have taken
    lost = _last_digit_unit(match["s"]) / seconds
    # Near its resolution the clock says little: 0.000001 secs may be half of that, or twice.
    blurred = min(lost, 1.0) * max(rate, moved / seconds)
    return abs(moved / seconds - rate) <= SLACK * (step / 2 + blurred) + 1


def _last_digit_unit(number: str) -> float:
    """One unit of the last digit printed."""
    mantissa, _, exponent = number.replace(",", ".").partition("e")
    return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def _decimal(number: str) -> float:
    """A decimal comma comes from the locale; dd prints no thousands separators, and the cross-check would see one."""
    return float(number.replace(",", "."))


def _check_blocks(printed: Summary, written: tuple[int, int], line: str) -> None:
    full, partial = written
    wrong = (
        printed.bytes % full if full and not partial else not full and not partial and printed.bytes
    )
    if wrong:
        raise ParseError(f"{printed.bytes} bytes are not {full} whole blocks", printed.line, line)


def _partial(records: tuple[int, int]) -> str:
    return f"{records[0]} full, {records[1]} partial" if records[1] else ""
