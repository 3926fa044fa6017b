# SPDX-License-Identifier: Apache-2.0
"""fio's results in any text: as people read them (1.x to 3.x), JSON, terse lines; several in one, among other lines.

Each block goes through the tool's own parser, so that a number is the same wherever it came from.
"""

from __future__ import annotations

import bisect
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from agents.contracts import Histogram, Metric, ParseError
from agents.outputs import (
    fio_details,
    fio_fragments,
    fio_jobfile,
    fio_json,
    fio_terse,
    fio_text,
)
from agents.outputs.fio_model import DIRECTIONS
from agents.readers import _command, _fio, _fio_options
from agents.readers._fio import Printed
from agents.texts.parsed_result import FRAGMENT, ParsedResult
from agents.tools import fio as tool

LABEL = "fio"
KEYWORDS = ("jobname", "groupid", ";", "msec")
START_PATTERN = re.compile(r'\s*\{\s*"fio version"\s*:')
DOCUMENT = re.compile(r'\{\s*"(?:fio version"\s*:|jobs"\s*:\s*\[\s*\{\s*"jobname"\s*:)')
START = re.compile(
    r"(?<!\S)(?<!> )\S{1,200}: \(g=\d+\): rw=|(?<!> )\bStarting \d+ (?:process|thread)"
)
# A line of somebody's own words: two at least, and nothing that fio prints
PROSE = re.compile(
    r"^(?!Run status|Disk stats|Starting |<)(?=[^\n]*[A-Za-z]{2,}[ ,]+[A-Za-z]{2,})[A-Za-z][^=\[\]|%\n(]{9,500}$",
    re.MULTILINE,
)
TAIL = re.compile(r"\s*(?:READ|WRITE|TRIM|MIXED):|\s*Run status|\s*Disk stats|.{1,80}: ios=|\s*\Z")
# a command over several lines, each behind the shell's second prompt perhaps
CONTINUED = re.compile(r"\\\n\s*(?:> ?)?")
# characters above a result in which its command may be
ABOVE = 2000
VERSION = re.compile(r"\bfio[- ](\d+\.\d[\w.-]*)")
PROCESS = re.compile(r"(\S{1,200}): \(groupid=(\d+), jobs=\d+\): err=[^:\n]{1,20}: pid=(\d+)")
TIME_MS = re.compile(r'"timestamp_ms"\s*:\s*(\d{1,16})')
TIME = re.compile(r'"timestamp"\s*:\s*(\d{1,13})')
LINE = re.compile(r"\(line (\d+)")
# characters of a document whose end is taken to be the text's
BIG = 8 << 20
# characters
STEP = 1 << 20
# results in one text
MANY = 1000
# first parts of the names of figures over all directions
TOTALS = frozenset({"iops", "bandwidth", "lat", "clat"})
WHITE = str.maketrans({"\u00a0": " ", "\u202f": " ", "\r": " ", "\t": " "})


def find_results(text: str, name: str) -> list[ParsedResult]:
    documents = list(islice(_documents(text), MANY))
    if _is_whole(text, documents):
        return [documents[0].block]
    terse, texts = fio_terse.RATES_OF.search(text), "(groupid=" in text or "msec" in text
    plain = text.translate(WHITE) if terse or texts else ""
    lines = list(islice(_terse_blocks(plain), MANY)) if terse else []
    covered_lines = sorted(
        (printed.first, printed.last)
        for printed in (*(printed.block for printed in documents), *lines)
    )
    all_texts = list(islice(_texts(plain), MANY))
    others = [printed for printed in all_texts if _is_separate(printed.block, covered_lines)]
    results = _fio.once(_fio.last_totals(documents), _fio.last_totals(others))
    results, single = _fio.without_jobs(results, lines)
    results = _fio.once(results, _fio.with_doubts(single))
    results += _fragments(plain, [*results, *(printed.block for printed in all_texts)])
    return sorted(results, key=lambda result: result.first)


def _is_whole(text: str, documents: Sequence[Printed]) -> bool:
    """True if the text is one document and nothing else, so that no other format need be looked for."""
    if len(documents) != 1 or documents[0].block.trouble or not START_PATTERN.match(text):
        return False
    end = len(text)
    while text[end - 1].isspace():
        end -= 1
    return documents[0].block.last == text.count("\n", 0, end) + 1 and text[end - 1] == "}"


def _fragments(text: str, results: Sequence[ParsedResult]) -> Iterator[ParsedResult]:
    """Lines with rates or sums that are of no result."""
    if "msec" not in text:
        return
    parts = (part for result in results for part in ((result.first, result.last), *result.also))
    covered_lines = sorted(parts)
    lines = text.split("\n")
    blocks = [(block, _parse_rates) for block in fio_fragments.rate_blocks(lines)]
    blocks += [(block, _parse_summary) for block in fio_fragments.summary_blocks(lines)]
    for (first, last), parse in islice(blocks, MANY):
        result = ParsedResult("fio", first + 1, last + 1, "fio", tool="fio", notes=(FRAGMENT,))
        if not _is_separate(result, covered_lines):
            continue
        try:
            metrics, notes = parse(lines[first : last + 1])
        except ParseError as error:
            yield replace(result, trouble=str(error).partition(" (line ")[0], notes=())
            continue
        yield replace(
            result,
            title=", ".join(way for way in DIRECTIONS if way in map(_first_part, metrics)) or "fio",
            metrics=tuple(_shift_line(metric, max(metric.line, 1) + first) for metric in metrics),
            notes=(FRAGMENT, *notes),
        )


def _parse_rates(lines: Sequence[str]) -> tuple[list[Metric], tuple[str, ...]]:
    fragment = fio_fragments.parse_rates("\n".join(lines))
    metrics = [metric for metric in _fragment_metrics(fragment) if metric.name != "errors"]
    return metrics, fragment.notes


def _parse_summary(lines: Sequence[str]) -> tuple[list[Metric], tuple[str, ...]]:
    return fio_fragments.summary_metrics(lines), ()


def _fragment_metrics(fragment: fio_fragments.Fragment) -> list[Metric]:
    """Figures of the fragment; sums over the directions only where none can be missing."""
    metrics = tool.jobs_to_metrics((fragment.jobs, ""), tool.Options())
    return [
        metric for metric in metrics if fragment.has_totals or _first_part(metric) not in TOTALS
    ]


def _first_part(metric: Metric) -> str:
    return metric.name.partition(".")[0]


def _is_separate(result: ParsedResult, covered_lines: list[tuple[int, int]]) -> bool:
    at = bisect.bisect_right(covered_lines, (result.last, result.last))
    near = covered_lines[max(at - 2, 0) : at + 1]
    return not any(first <= result.last and result.first <= last for first, last in near)


@dataclass(frozen=True, slots=True)
class _Read:
    """Content of a result's own text, its lines from 1."""

    options: _fio_options.ReportedOptions
    metrics: Sequence[Metric] = ()
    trouble: str = ""
    histograms: Sequence[Histogram] = ()
    notes: Sequence[str] = ()
    details: Sequence[Metric] = ()


class _Lines:
    """Counts the line ends before a place; places must not go back."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.count = text, 0, 0

    def lines_before(self, place: int) -> int:
        self.count += self.text.count("\n", self.at, place)
        self.at = place
        return self.count

    def last(self, start: int, end: int) -> int:
        """The number of the last line with anything in it of the part that begins where `before` looked last."""
        text = self.text
        while end > start and text[end - 1].isspace():
            end -= 1
        return self.count + text.count("\n", start, end) + 1


def _documents(text: str) -> Iterator[Printed]:
    """JSON: from its brace to the one that closes it."""
    at, lines = 0, _Lines(text)
    begins = DOCUMENT.search(text)
    while begins:
        start = begins.start()
        following = DOCUMENT.search(text, begins.end())
        end, read = _document(text, start, following.start() if following else len(text))
        beginning = text[start : min(end, start + 1000)]
        at_ms, at_s = TIME_MS.search(beginning), TIME.search(beginning)
        when = int(at_ms[1]) / 1000 if at_ms else float(at_s[1]) if at_s else None
        run = read.options.run if when else ""
        yield Printed(
            _result_block(text, start, end, read, lines), run, when, 0.0 if at_ms else 1.0
        )
        at = max(end, begins.end())
        again = following is not None and following.start() < at
        begins = DOCUMENT.search(text, at) if again else following


def _document(text: str, start: int, limit: int) -> tuple[int, _Read]:
    """Content of the object that begins there, and the place behind it. Nearly always its end is where the last brace
    is, or the first in fio's own first column; whether that is so its reading tells, and it is read but once.
    """
    ends = (text.find("\n}", start, limit) + 2, text.rfind("}", start, limit) + 1)
    failed: dict[int, _Read] = {}
    for end in sorted({end for end in ends if end > start}):
        read = _parse_figures(_text_bytes(text, start, end))
        if not read.trouble:
            return end, read
        failed[end] = read
    end = _closing(text, start, limit)
    return end, failed.get(end) or _parse_figures(_text_bytes(text, start, end))


def _text_bytes(text: str, start: int, end: int) -> bytes:
    """A part of it, not held twice: it may be nearly all."""
    encoded = io.BytesIO()
    for at in range(start, end, STEP):
        encoded.write(text[at : min(at + STEP, end)].encode(errors="replace"))
    return encoded.getvalue()


def _parse_figures(raw: bytes) -> _Read:
    heads = fio_json.Heads()
    try:
        read = fio_json.parse_jobs(raw, heads)
        metrics, histograms = tool.with_histograms(read, tool.Options())
        reported_options = _fio_options.of_document(heads)
        if refusal := fio_jobfile.without_storage(_fio_options.engines_of_document(heads)):
            return _Read(reported_options, trouble=refusal)
        return _Read(reported_options, metrics, histograms=histograms, details=heads.details())
    except ParseError as error:
        reported_options = _fio_options.of_broken(raw if len(raw) <= BIG else b"")
        return _Read(reported_options, trouble=str(error))


def _closing(text: str, start: int, limit: int) -> int:
    """Behind the object; where it is broken or too long to look, before the next one or at the end of the text."""
    if limit - start <= BIG:
        try:
            return json.JSONDecoder().raw_decode(text, start)[1]
        except (ValueError, RecursionError):
            return limit
    return text.rfind("}", start, limit) + 1 or limit


def _terse_blocks(text: str) -> Iterator[ParsedResult]:
    """Terse: each line by itself, since jobs side by side and runs one after another look the same."""
    lines, job_files = _Lines(text), _fio_options.find_job_files(text)
    for head in fio_terse.HEAD.finditer(text):
        start = head.end() - len(head[0].lstrip())
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line = text[start:end]
        name = fio_terse.job_name(line)
        command = _command_before(text, max(start - ABOVE, 0), start)
        reported_options = replace(
            _fio_options.of_name(name, command.arguments, _above(job_files, start)),
            version=fio_terse.terse_fio_version(line).removeprefix("fio-"),
            command=command.text,
        )
        yield _result_block(text, start, end, _parsed(line, reported_options), lines)


def _texts(text: str) -> Iterator[Printed]:
    lines, behind = _Lines(text), 0
    job_files = _fio_options.find_job_files(text) if "(groupid=" in text else []
    for start, end in _find_results(text):
        block = text[start:end]
        version = VERSION.search(block)
        command = _command_before(text, max(start - ABOVE, behind), start)
        behind = end
        reported_options = replace(
            _fio_options.of_text(block, command.arguments, _above(job_files, start)),
            version=version[1] if version else "",
            command=command.text,
        )
        run = repr(PROCESS.findall(block))
        read = _parsed(block, reported_options)
        yield Printed(_result_block(text, start, end, read, lines), run if run != "[]" else "")


def _command_before(text: str, begin: int, end: int) -> _command.Command:
    """The last command between the result before and this one."""
    begin = text.rfind("\n", 0, begin) + 1
    lines = CONTINUED.sub(" ", text[begin:end]).split("\n")
    commands = (_command.find_command(line, "fio") for line in reversed(lines))
    return next(filter(None, commands), _command.NONE)


def _above(job_files: Sequence[_fio_options.JobFile], start: int) -> Sequence[_fio_options.JobFile]:
    return [file for file in job_files if file.end <= start]


def _find_results(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each result: starting lines, jobs, then the summary of all groups."""
    if "(groupid=" not in text:
        # nothing that ends where a result begins: START is slow to find none
        return
    marks = [("start", match) for match in START.finditer(text)]
    marks += [("head", match) for match in fio_text.HEAD.finditer(text)]
    marks += [("end", match) for match in fio_text.END.finditer(text)]
    marks += [("prose", match) for match in PROSE.finditer(text)]
    several = f"{fio_text.ALL_CLIENTS}: (groupid" in text
    begin, last, heads, ended = -1, -1, 0, False
    for what, match in sorted(marks, key=lambda mark: mark[1].start()):
        if what == "prose":
            # what follows is another excerpt, unless this stands within the results of several clients
            if heads and not ended and not several:
                yield begin, _summary_end(text, last)
                begin, heads = -1, 0
            continue
        if what != "end" and ((ended and not several) or (what == "start" and heads)):
            if heads:
                yield begin, _summary_end(text, last)
            begin, heads, ended = -1, 0, False
        if what == "end":
            ended, last = True, match.end()
            continue
        if begin < 0:
            begin = match.start() if what == "start" else _name_of(text, match.start())
        heads, last = heads + (what == "head"), match.end()
    if heads:
        yield begin, _summary_end(text, last)


def _name_of(text: str, at: int) -> int:
    """Start of the name of the job whose result is there."""
    return max(text.rfind("\n", 0, at) + 1, text.rfind(" ", 0, max(at - 1, 0)) + 1)


def _summary_end(text: str, at: int) -> int:
    """Behind the lines that still belong to the summary; a job of --client has none."""
    end = text.find("\n", at)
    while 0 <= end < len(text):
        following = text.find("\n", end + 1)
        line = text[end + 1 : following if following >= 0 else len(text)]
        inside = TAIL.match(line) or re.match(r"\s+\S", line)
        if not line.strip() or not (inside or fio_fragments.BODY.match(line)):
            break
        end = following
    return len(text) if end < 0 else end


def _parsed(block: str, reported_options: _fio_options.ReportedOptions) -> _Read:
    if refusal := fio_jobfile.without_storage(_fio_options.engines_of_text(block)):
        return _Read(reported_options, trouble=refusal)
    try:
        if fio_text.HEAD.search(block) and not fio_text.END.search(block):
            return _parse_cut_jobs(block, reported_options)
        metrics = tool.parse({"stdout": block.encode(errors="replace")}, tool.Options())
        return _Read(reported_options, metrics, details=fio_details.text_details(block))
    except ParseError as error:
        return _Read(reported_options, trouble=str(error))


def _parse_cut_jobs(block: str, reported_options: _fio_options.ReportedOptions) -> _Read:
    """A result that lacks its closing summary. Raises ParseError."""
    fragment = fio_fragments.parse_cut_jobs(block)
    metrics = _fragment_metrics(fragment)
    notes, details = (FRAGMENT, *fragment.notes), fio_details.text_details(block)
    return _Read(reported_options, metrics, notes=notes, details=details)


def _shift_line(metric: Metric, line: int) -> Metric:
    return Metric(
        metric.name, metric.value, metric.unit, metric.labels, metric.note, line, "stdout"
    )


def _named_options(reported: _fio_options.ReportedOptions) -> dict[str, object]:
    return {**reported.options, **({"name": reported.title} if reported.title else {})}


def _group_parts(
    reported: _fio_options.ReportedOptions, metrics: Sequence[Metric]
) -> dict[str, dict[str, object]]:
    """Known parts of each group, by its number; {} where there is but one, or one of which nothing is known."""
    numbers = {metric.labels.get("group") for metric in metrics}
    if not numbers <= reported.groups.keys():
        return {}
    return {
        number: {
            "title": group.title,
            "options": _named_options(group),
            "options_complete": group.complete,
            "outstanding": group.outstanding,
        }
        for number, group in reported.groups.items()
        if number in numbers
    }


def _result_block(text: str, start: int, end: int, read: _Read, lines: _Lines) -> ParsedResult:
    offset = lines.lines_before(start)
    metrics = tuple(_shift_line(metric, max(metric.line, 1) + offset) for metric in read.metrics)
    trouble = LINE.sub(lambda match: f"(line {int(match[1]) + offset}", read.trouble)
    reported_options = read.options
    parts = _group_parts(reported_options, metrics)
    notes = [reported_options.note, *read.notes, *(metric.note for metric in metrics)]
    return ParsedResult(
        kind="fio",
        first=offset + 1,
        last=lines.last(start, end),
        title=reported_options.title or "fio",
        tool="fio",
        version=reported_options.version,
        command=reported_options.command,
        metrics=metrics,
        details=tuple(_shift_line(metric, max(metric.line, 1) + offset) for metric in read.details),
        histograms=tuple(read.histograms),
        options={} if trouble else _named_options(reported_options),
        options_complete=reported_options.complete and not trouble,
        outstanding=None if trouble else reported_options.outstanding,
        notes=tuple(dict.fromkeys(note for note in notes if note)) if not trouble else (),
        trouble=trouble,
        varies="group" if parts else "",
        parts=parts,
    )
