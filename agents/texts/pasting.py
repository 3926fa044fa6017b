# SPDX-License-Identifier: Apache-2.0
"""Removal of what a mail, a page, a log or a listing put around the lines of an output. Pure.

No line is added, none goes away: what follows counts the same lines as the person does. Marks are taken off only where
several lines in a row have them, so that a lone prompt or a figure at a line's beginning stays what it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import unescape

INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad"
# a key that was taken back
OVERTYPED = re.compile(r"[^\x08\n]\x08")
LEFT_BEHIND = str.maketrans("", "", "\x07\x08\x0e\x0f")
TAGGED = ("<pre", "</pre", "<PRE", "<code", "</code", "<CODE", "[code", "[CODE", "[icode", "[pre")
TAGS = re.compile(
    r"</?(?:pre|code|samp|tt|p|div|span|blockquote|b|i|strong|em|font|br)(?:\s[^<>\n]{0,300})?/?>"
    r"|\[/?(?:code|icode|pre|quote)(?:[= ][^\]\n]{0,100})?\]",
    re.IGNORECASE,
)
QUOTED = re.compile(r"(?:[ \t]{0,2}>)+ ?")
# docker compose: "fio-1  | …"
SERVICE = re.compile(r"([\w.@/-]{1,60}) *\| ?")
STAMPED = re.compile(
    r"\[?(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)\]?"
    r"(?: [\w.-]{1,80} [\w./@-]{1,80}\[\d{1,8}\]:)?(?: |$)"
    # test runners: "20:22:23 DEBUG| [stdout] "
    r"|\d\d:\d\d:\d\d(?:[.,]\d{1,9})? (?:DEBUG|INFO|WARN(?:ING)?|ERROR) ?[|:]?(?: \[std(?:out|err)\])?(?: |$)"
)
NUMBERED = re.compile(r"[ \t]*(\d{1,6})([:.)|\u2502]|\t| |$)")
# Tables whose first column is a number of their own: smartctl -A, mdadm --detail, DiskSpd's threads
OWN_NUMBERS = re.compile(r"\s0x[0-9a-f]{4}\s|\bactive sync\b|\bspare\s+/dev/|^\s*\|\s*\d+ *\|")
SET_POINTS = re.compile(r"^[ \t]*\u2026[ \t]*$", re.MULTILINE)
# Before lines that a tool prints: any other list stays one
BULLET = re.compile(
    r"[ \t]*[-*+\u2022][ \t](?=\d{1,18}\+\d{1,18} |\d{1,19} [Bb]ytes |(?:open_data|fdata|f|open_)sync "
    r"|(?:read|write|READ|WRITE) ?: ?(?:io|bw|IOPS)=|(?:slat|clat|lat) \()"
)
# an escape character that was pasted as the signs that show it
SHOWN_ESCAPE = re.compile(r"(?:\^\[|\u241b)\[[0-9;]{0,20}[mK]")
ENTITY = re.compile(r"&(?:gt|lt|quot|nbsp|#39|#x27|#34|#60|#62|#160);")
# Of Markdown: a line that is all code
CODE_LINE = re.compile(r"^([ \t]*)`([^`\n]{1,2000})`[ \t]*$", re.MULTILINE)
# Of Markdown: a row, and the line below its headings
TABLE_ROW = re.compile(r"[ \t]*\|(.*[^\s|].*)\|[ \t]*")
TABLE_LINE = re.compile(r"[ \t]*\|(?:[ \t]*:?-{2,}:?[ \t]*\|)+[ \t]*")
DOCUMENT_BEGINS = re.compile(r"\s{0,9}\{\s{0,9}\"[\w ]{1,40}\"\s*:")
# characters of a line that a mail broke, at least
BROKEN_LINE = 55
# characters in which the first line's mark would be
HEAD = 400
# lines in a row, at least
TWO, THREE = 2, 3


# index of its first line, and how many characters go of each
Run = tuple[int, list[int]]
Find = Callable[[Sequence[str]], Iterator[Run]]


@dataclass(frozen=True, slots=True)
class StrippedText:
    """`notes` say what was taken off which lines."""

    text: str
    notes: tuple[str, ...] = ()


def strip_marks(text: str) -> StrippedText:
    """The text without such marks."""
    notes: list[str] = []
    for char in INVISIBLE:
        text = text.replace(char, "")
    text = text.replace("\xa0", " ")
    if any(char in text for char in "\x07\x08\x0e\x0f"):
        while OVERTYPED.search(text):
            text = OVERTYPED.sub("", text)
        text = text.translate(LEFT_BEHIND)
    if _is_bare_document(text):
        return StrippedText(text)
    if any(tag in text for tag in TAGGED):
        text = unescape_lines(TAGS.sub("", text)).replace("\xa0", " ")
        notes.append("Tags of a web page (<pre>, [code]) were taken off.")
    elif ENTITY.search(text):
        text = unescape_lines(text).replace("\xa0", " ")
        notes.append("Characters that a web page writes as names (&gt;) were put back.")
    if "[" in text and SHOWN_ESCAPE.search(text):
        text = SHOWN_ESCAPE.sub("", text)
        notes.append("Colours of a terminal, pasted as ^[[0m, were taken off.")
    if "\u2026" in text:
        # fio's line of three points, by a page that sets type
        text = SET_POINTS.sub("...", text)
    if "`" in text:
        text = CODE_LINE.sub(r"\1\2", text)
    for label, may, find in MARKS:
        if may.search(f"\n{text[:HEAD]}") or may.search(text):
            lines = text.split("\n")
            spans = [_cut_marks(lines, *run) for run in find(lines)]
            if spans:
                text = "\n".join(lines)
                notes.append(f"{label} taken off: {_describe_spans(spans)}.")
    if "|" in text and TABLE_LINE.search(text):
        text, spans = _without_tables(text)
        notes += [f"Bars of a table taken off: {_describe_spans(spans)}."] if spans else []
    return StrippedText(text, tuple(notes))


def _is_bare_document(text: str) -> bool:
    """True for JSON from the first character to the last: marks would stand before its brace. It may be large."""
    begin, end = DOCUMENT_BEGINS.match(text), text[-HEAD:].rstrip()
    return bool(begin) and end.endswith("}") and "\n>" not in text


def _without_tables(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text with Markdown's tables as columns, and their first and last lines.

    The headings take the place of the line below them, so that nothing is between them and the rows.
    """
    lines = text.split("\n")
    spans = []
    for at in range(1, len(lines)):
        cells = lines[at].count("|")
        if not TABLE_LINE.fullmatch(lines[at]) or not _is_table_row(lines[at - 1], cells):
            continue
        end = at + 1
        while end < len(lines) and _is_table_row(lines[end], cells):
            lines[end] = _columns(lines[end])
            end += 1
        if end > at + 1:
            lines[at - 1], lines[at] = "", _columns(lines[at - 1])
            spans.append((at, end))
    return "\n".join(lines), spans


def _is_table_row(line: str, cells: int) -> bool:
    return line.count("|") == cells and bool(TABLE_ROW.fullmatch(line))


def _columns(row: str) -> str:
    """The cells of a row, without the marks of code and bold."""
    cells = (cell.strip().strip("`*") for cell in row.strip().strip("|").split("|"))
    return "  ".join(cells)


def unescape_lines(text: str) -> str:
    """`&gt;` and its like, but no line end that was not there."""
    return "\n".join(
        unescape(line).replace("\n", " ") if "&" in line else line for line in text.split("\n")
    )


def _cut_marks(lines: list[str], begin: int, marks: list[int]) -> tuple[int, int]:
    for at, mark in enumerate(marks, begin):
        lines[at] = lines[at][mark:]
    return begin + 1, begin + len(marks)


def _describe_spans(spans: Sequence[tuple[int, int]]) -> str:
    listed = ", ".join(f"lines {first}–{last}" for first, last in spans[:3])
    return listed + (f" and {len(spans) - 3} parts more" if len(spans) > 3 else "")


def _marked_runs(pattern: re.Pattern[str], least: int) -> Find:
    """Finds runs of at least so many lines that begin with it, and alike where it has a group."""

    def find(lines: Sequence[str]) -> Iterator[Run]:
        begin, marks, count, last, same = 0, list[int](), 0, 0, ""
        for at, line in enumerate([*lines, "end"]):
            match = pattern.match(line) if at < len(lines) else None
            name = match[1] if match and pattern.groups else ""
            if match is None and marks and _is_continuation(pattern, lines, at):
                marks.append(0)
                continue
            if marks and (line.strip() if match is None else name != same):
                if count >= least:
                    yield begin, marks[:last]
                marks, count = [], 0
            if match and not marks:
                begin, same = at, name
            if match or marks:
                marks.append(match.end() if match else 0)
                count += match is not None
                last = len(marks) if match else last

    return find


def _is_continuation(pattern: re.Pattern[str], lines: Sequence[str], at: int) -> bool:
    """True for the end of a quoted line that a mail broke, and did not mark."""
    if pattern is not QUOTED or at + 1 >= len(lines):
        return False
    broken = len(lines[at - 1]) >= BROKEN_LINE and len(lines[at]) < BROKEN_LINE
    return broken and bool(QUOTED.match(lines[at - 1]) and QUOTED.match(lines[at + 1]))


def _numbered_runs(lines: Sequence[str]) -> Iterator[Run]:
    """Lines that somebody counted: each number is one more, and words are behind most of them."""
    begin, ends, last = 0, list[int](), -1
    for at, line in enumerate([*lines, "end"]):
        match = NUMBERED.match(line) if at < len(lines) else None
        number = int(match[1]) if match else -1
        if ends and number != last + 1:
            if _is_listing(lines, begin, ends):
                yield begin, ends
            ends = []
        if match:
            begin = begin if ends else at
            ends.append(match.end())
        last = number


def _is_listing(lines: Sequence[str], begin: int, ends: list[int]) -> bool:
    rest = [lines[begin + n][end:] for n, end in enumerate(ends)]
    texts = [text for text in rest if text.strip()]
    if any(map(OWN_NUMBERS.search, texts)):
        return False
    worded = sum(bool(re.search('[A-Za-z"{}]', text)) for text in texts)
    return len(texts) >= THREE and worded * 2 >= len(texts)


# What to say, how such a line begins (behind a line end: quick to find none), and the runs of them
MARKS: Sequence[tuple[str, re.Pattern[str], Find]] = (
    ("Names of services", re.compile(rf"\n{SERVICE.pattern}"), _marked_runs(SERVICE, THREE)),
    ("Times of a log", re.compile(rf"\n{STAMPED.pattern}"), _marked_runs(STAMPED, THREE)),
    ("Marks of quoting (>)", re.compile(rf"\n{QUOTED.pattern}"), _marked_runs(QUOTED, TWO)),
    ("Marks of a list", re.compile(rf"\n{BULLET.pattern}"), _marked_runs(BULLET, TWO)),
    ("Numbers of lines", re.compile(rf"\n{NUMBERED.pattern}"), _numbered_runs),
)
