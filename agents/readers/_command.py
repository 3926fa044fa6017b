# SPDX-License-Identifier: Apache-2.0
"""Command lines as terminal logs show them: behind any prompt, sudo, environment, path; up to a pipe or redirection.

The one place that tells them, for every reader. A line of prose that speaks of a program is no command of it.
The second half makes one result of the reports of a command that watches (iostat, zpool iostat).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from itertools import pairwise
from math import nan

from agents.contracts import Metric, Series, Unit
from agents.texts.parsed_result import ParsedResult

# characters of a line that may be a command
LONGEST = 2000
# What ends a prompt, or another command of the same line: nothing before it is a part of the command.
BEFORE = re.compile(r"[#$%>❯➜λ»✗›;&|(`]|\bthen\b|\bdo\b")
# Such prompts go on behind their sign: "➜  ~ git:(main) iostat -x 1"
ARROW = re.compile(r"^\s*[➜❯λ»›]")
PLACE = re.compile(r"~\S*|/\S*|git:\S*|\S+\)|[\w.-]+")
SET = re.compile(r"[A-Za-z_]\w*=\S*")
# set -x, `time -p`'s kin, a duration
NOTHING = re.compile(r"\+{1,9}|-|!|\d+[smhd]?|\{|-{2}")
# Programs that run another one, and how many words of their own they take beside options.
WRAPPERS = {
    **dict.fromkeys(
        (
            "sudo",
            "doas",
            "env",
            "time",
            "nice",
            "ionice",
            "nohup",
            "exec",
            "command",
            "stdbuf",
            "unbuffer",
            "setsid",
            "watch",
            "builtin",
            "eatmydata",
            "numactl",
            "strace",
            "cgexec",
            "systemd-run",
            "bash",
            "sh",
        ),
        0,
    ),
    **dict.fromkeys(
        (
            "perf",
            "timeout",
            "taskset",
            "chrt",
            "chroot",
            "ssh",
            "su",
            "lxc-attach",
        ),
        1,
    ),
    **dict.fromkeys(
        (
            "docker",
            "podman",
            "kubectl",
        ),
        2,
    ),
}
# Up to a pipe, a redirection, the next command; none of these within quotes.
ENDS = re.compile(r"""(?:"[^"\n]*"|'[^'\n]*'|\\.|[^\\"'|;&<>`\n)]|(?<=\w)\)(?=\w))*""")
# of "2> file"
DESCRIPTOR = re.compile(r"\s[012&]$")
# `watch`: its host and date behind
WATCH = re.compile(r"Every [\d.,]{1,8}s: (.*?)(?:\s{2,}\S.*)?$")
COMMENT = re.compile(r"\s#\s.*$")


@dataclass(frozen=True, slots=True)
class Command:
    """`text` as it was typed, sudo and path with it; `words` begin with the program's own name."""

    text: str = ""
    words: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.words)

    @property
    def arguments(self) -> tuple[str, ...]:
        """Words behind the program's name as the shell passes them on, without their quotes."""
        try:
            return tuple(shlex.split(" ".join(self.words[1:])))
        except ValueError:
            return tuple(word.strip("\"'") for word in self.words[1:])

    def flag(self, letter: str) -> bool:
        """True if it is among the one-letter options, alone or combined: `-y`, `-dxy`."""
        return any(re.fullmatch(rf"-[A-Za-z]*{letter}[A-Za-z]*", word) for word in self.words[1:])


NONE = Command()
# What may be between a command and its output: a password asked for, ssh's and script's words, markdown's fence.
BETWEEN = re.compile(
    r"\[sudo\] .{0,80}|.{0,60}\b(?:[Pp]assword|[Pp]assphrase)\b.{0,60}:|Warning: Permanently added .{0,200}"
    r"|Script started.{0,200}|Sorry, try again\.|(?:`{3,}|~{3,})[\w-]{0,20}"
)


def may_stand_between(line: str) -> bool:
    """True for a line that may stand between a command and its output and belongs to neither."""
    return len(line) < 300 and bool(BETWEEN.fullmatch(line.strip()))


def find_command(line: str, program: str) -> Command:
    """The last command of that program (`zpool iostat` has two words) in a line; NONE where there is none."""
    if program.partition(" ")[0] not in line or len(line) > LONGEST:
        return NONE
    if watched := WATCH.match(line):
        line = watched[1]
    for match in reversed(list(_program_pattern(program).finditer(line))):
        start = _command_start(line, match.start())
        if start is not None:
            return _parse_command(line, start, match)
    return NONE


@cache
def _program_pattern(program: str) -> re.Pattern[str]:
    words = r"\s+".join(map(re.escape, program.split()))
    return re.compile(
        rf"(?<![\w.~+/-])(?P<path>(?:[\w.~+-]*/)*)(?P<name>{words})(?![^\s;|&<>)`\"'])"
    )


def _command_start(line: str, at: int) -> int | None:
    """Start of the command that has its program at `at`; None if what stands before makes it no command."""
    ends = [match.end() for match in BEFORE.finditer(line, 0, at)]
    start = ends[-1] if ends else 0
    words = [(match.start(), match[0]) for match in re.finditer(r"\S+", line[start:at])]
    if ARROW.match(line) and len(ends) < 4:
        while words and words[0][1] not in WRAPPERS and PLACE.fullmatch(words[0][1]):
            words.pop(0)
    while words and NOTHING.fullmatch(words[0][1]):
        words.pop(0)
    if not _wrapped([word.strip("\"'") for _, word in words]):
        return None
    return start + words[0][0] if words else at


def _wrapped(words: list[str]) -> bool:
    """Are these only assignments and programs that run another, with their options?"""
    at = 0
    while at < len(words):
        name = words[at].rpartition("/")[2]
        if SET.fullmatch(words[at]) or not words[at]:
            at += 1
        elif name in WRAPPERS:
            at = _arguments(words, at + 1, WRAPPERS[name])
        else:
            return False
    return True


def _arguments(words: list[str], at: int, own: int) -> int:
    """Behind a wrapper's options, with the value of each, and its own words."""
    while at < len(words) and words[at].rpartition("/")[2] not in WRAPPERS:
        if words[at].startswith("-"):
            following = words[at + 1] if at + 1 < len(words) else "-"
            valued = not following.startswith("-") and not SET.fullmatch(following)
            valued = valued and following.rpartition("/")[2] not in WRAPPERS
            at += 1 + valued
        elif own:
            at, own = at + 1, own - 1
        else:
            break
    return at


def _parse_command(line: str, start: int, match: re.Match[str]) -> Command:
    name = match.start("name")
    ended = ENDS.match(line, name)
    end = ended.end() if ended else len(line)
    quotes = ""
    # it stands in quotes itself: ssh host "iostat -x 1"
    for mark in "\"'":
        if line[max(start - 1, 0) : name].count(mark) % 2:
            closing = line.find(mark, match.end())
            end, quotes = (closing, mark) if closing >= 0 else (end, "")
    body = line[name:end]
    if line[end : end + 1] in ("<", ">"):
        body = DESCRIPTOR.sub("", body)
    body = COMMENT.sub("", body).rstrip()
    before = " ".join(line[start:name].split()) + (" " if line[name - 1 : name].isspace() else "")
    unquoted = before.lstrip("\"'") if not quotes or quotes not in before else before
    text = f"{unquoted.lstrip()}{body}{quotes if quotes in before else ''}"
    return Command(text, tuple(body.split()))


# What a person says of a watcher whose command the text does not show, in the name of its file.
TOLD = re.compile(r"watched-every-(?P<seconds>\d+(?:\.\d+)?)(?P<kept>-kept)?/")


def told_command(name: str, program: str) -> Command:
    """The command by a name of iostat.name_with_reports; NONE by any other."""
    told = TOLD.match(name)
    if not told:
        return NONE
    flags = ("-y",) if told["kept"] else ()
    return Command("", (program, *flags, told["seconds"]))


# by metric; None: there was no such request
Values = dict[str, float | None]

CLOCKS = (
    "%Y-%m-%dT%H:%M:%S%z",
    "%Y-%m-%d %H:%M:%S",
    "%m/%d/%Y %I:%M:%S %p",
    "%m/%d/%Y %H:%M:%S",
    "%m/%d/%y %I:%M:%S %p",
    "%m/%d/%y %H:%M:%S",
    "%d/%m/%Y %H:%M:%S",
    "%d/%m/%y %H:%M:%S",
    "%d.%m.%Y %H:%M:%S",
    "%d.%m.%y %H:%M:%S",
    "%d-%m-%Y %H:%M:%S",
    "%d-%m-%y %H:%M:%S",
)
DATE = re.compile(
    r"(?:Time: )?\d\d?[/.:-]\d\d[/.:-]\d\d\S*(?: \S+){0,2}|\d{4}-\d\d-\d\d[T ]\S+|\d{9,10}"
    r"|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} \d\d? [\d:]{8} (?:\w+ ){0,3}\d{4}"
)
SINCE_BOOT = "the first report is the average since boot, as these commands begin: left out"
MAYBE_SINCE_BOOT = (
    "no command is shown: the first report may be the average since boot, and is left out"
)
SOME_MISSING = "not all reports have all devices: a mean is of those that have it"


@dataclass(frozen=True, slots=True)
class Sample:
    # 0: the report leaves the device out
    line: int
    values: Values


@dataclass(slots=True)
class Report:
    first: int
    last: int
    # by device; "": the host
    rows: dict[str, Sample] = field(default_factory=dict)
    # seconds of some clock
    when: float | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """Properties common to all that one reader finds."""

    name: str
    units: Mapping[str, Unit]
    # of a time per request: the rates of those requests
    weights: Mapping[str, tuple[str, ...]]
    # why a device may be missing in a report
    missing: str = ""


def when(line: str) -> tuple[bool, float | None]:
    """Is the line a date, and which second, where that is certain?"""
    line = " ".join(line.split())
    if not DATE.fullmatch(line):
        return False, None
    if line.isdigit():
        return True, float(line)
    for form in CLOCKS:
        try:
            return True, datetime.strptime(line, form).timestamp() if "%z" in form else _second(
                line, form
            )
        except ValueError:
            continue
    match = re.search(r"(\w{3}) +(\d\d?) ([\d:]{8}) .*?(\d{4})$", line)
    if match and not re.search(r"\b[AP]M\b", line):
        try:
            return True, _second(" ".join(match.groups()), "%b %d %H:%M:%S %Y")
        except ValueError:
            pass
    return True, None


def _second(line: str, form: str) -> float:
    return (datetime.strptime(line, form) - datetime(1970, 1, 1)).total_seconds()


def interval(command: Command) -> float | None:
    """Seconds between reports, by the command line: "-w 1", or its first number; devices may stand around it."""
    own = " ".join(command.words)
    if flag := re.search(r"\s-w ?(\d+(?:\.\d+)?)(?=\s|$)", own):
        return float(flag[1]) or None
    number = re.search(r"(?<!\s-[cgjnop])\s(\d+(?:\.\d+)?)(?=\s|$)", own)
    return (float(number[1]) or None) if number else None


def leaves_boot_out(command: Command) -> bool:
    return command.flag("y")


def leaves_idle_out(command: Command) -> bool:
    """iostat -z; zpool iostat has no such flag."""
    return command.words[:1] == ("iostat",) and command.flag("z")


def watch_block(
    kind: Kind, reports: Sequence[Report], command: Command, title: str, notes: Sequence[str] = ()
) -> ParsedResult:
    """All reports of one run of the command; at least one."""
    all_notes = list(notes)
    measured_reports = list(reports)
    if not leaves_boot_out(command):
        if len(reports) > 1:
            measured_reports = measured_reports[1:]
            all_notes.append(SINCE_BOOT if command else MAYBE_SINCE_BOOT)
        else:
            all_notes.append("the only report: it may be the average since boot")
    if leaves_idle_out(command):
        measured_reports = _with_idle(kind, measured_reports, reports)
        all_notes.append("iostat -z leaves idle devices out: a device that is missing did nothing")
    elif any(
        report.rows.keys() - {""} != measured_reports[0].rows.keys() - {""}
        for report in measured_reports
    ):
        all_notes.append(SOME_MISSING + kind.missing)
    times = _times(reports, measured_reports, command, all_notes)
    devices = dict.fromkeys(name for report in measured_reports for name in report.rows)
    metrics: list[Metric] = []
    series: list[Series] = []
    for device in devices:
        columns = _device_columns(kind, device, measured_reports)
        metrics += _device_metrics(kind, device, columns, measured_reports)
        series += _device_series(kind, device, columns, times)
    return ParsedResult(
        kind.name,
        min(report.first for report in reports),
        max(report.last for report in reports),
        title,
        command=command.text,
        metrics=tuple(metrics),
        series=tuple(series),
        notes=tuple(all_notes),
    )


def _with_idle(
    kind: Kind, measured_reports: Sequence[Report], reports: Sequence[Report]
) -> list[Report]:
    """Reports with zeros for each device that another report shows; if none shows any, the one since boot."""
    named_reports = (
        measured_reports
        if any(name for report in measured_reports for name in report.rows)
        else reports
    )
    rows_by_name = {
        name: row.values for report in named_reports for name, row in report.rows.items() if name
    }
    idle = {
        name: Sample(0, {metric: None if metric in kind.weights else 0.0 for metric in values})
        for name, values in rows_by_name.items()
    }
    return [replace(report, rows={**idle, **report.rows}) for report in measured_reports]


def _times(
    reports: Sequence[Report],
    measured_reports: Sequence[Report],
    command: Command,
    notes: list[str],
) -> tuple[float, ...]:
    """Seconds at which the kept reports were made, since the one before the first of them."""
    clocks = [report.when for report in reports]
    known_clocks = [at for at in clocks if at is not None]
    rising = all(a < b for a, b in pairwise(known_clocks))
    if len(known_clocks) == len(clocks) > 1 and rising:
        before = (
            known_clocks[0]
            if len(measured_reports) < len(known_clocks)
            else 2 * known_clocks[0] - known_clocks[1]
        )
        return tuple(
            at - before for at in known_clocks[len(known_clocks) - len(measured_reports) :]
        )
    step = interval(command)
    if step is None and len(reports) > 1:
        notes.append("the interval between reports is unknown: they are numbered")
    return tuple((number + 1) * (step or 1.0) for number in range(len(measured_reports)))


# by metric, a value for each report
Columns = Mapping[str, Sequence[float | None]]


def _device_columns(kind: Kind, device: str, reports: Sequence[Report]) -> Columns:
    """Columns of the metrics that any report has of the device; None where one lacks it."""
    rows = [report.rows[device].values if device in report.rows else {} for report in reports]
    present: set[str] = set()
    for row in rows:
        if not row.keys() <= present:
            present |= row.keys()
    return {metric: [row.get(metric) for row in rows] for metric in kind.units if metric in present}


def _device_series(
    kind: Kind, device: str, columns: Columns, times: tuple[float, ...]
) -> list[Series]:
    return [
        Series(
            device,
            metric,
            kind.units[metric],
            times,
            tuple([nan if value is None else value for value in column]),
        )
        for metric, column in columns.items()
    ]


def _device_metrics(
    kind: Kind, device: str, columns: Columns, reports: Sequence[Report]
) -> list[Metric]:
    samples = [report.rows[device] for report in reports if device in report.rows]
    labels = {"device": device} if device else {}
    line = next((sample.line for sample in samples if sample.line), reports[0].first)
    all_weights: dict[tuple[str, ...], list[float]] = {}
    metrics = []
    for metric, column in columns.items():
        rates = kind.weights.get(metric, ())
        if rates not in all_weights:
            all_weights[rates] = _weights(columns, rates)
        value = _mean(column, all_weights[rates])
        note = f"mean of {len(samples)} reports" if len(samples) > 1 else ""
        if len(samples) < len(reports):
            note = f"mean of the {len(samples)} of {len(reports)} reports that have it"
        note = "no such requests" if value is None else note
        metrics.append(Metric(metric, value, kind.units[metric], labels, note, line))
    return metrics


def _weights(columns: Columns, rates: Sequence[str]) -> list[float]:
    """The requests in each report, by the sum of these rates; [] where a mean has no weights."""
    parts = [columns[rate] for rate in rates if rate in columns]
    return [sum([part or 0.0 for part in row]) for row in zip(*parts, strict=True)]


def _mean(column: Sequence[float | None], weights: Sequence[float]) -> float | None:
    """A time or size per request is weighed by the requests, as one long report would have done."""
    values = [value for value in column if value is not None]
    if len(values) < 2 or not weights:
        return sum(values) / len(values) if values else None
    known = [weight for value, weight in zip(column, weights, strict=True) if value is not None]
    total = sum(known)
    # so few that their rates are printed as 0
    if not total:
        return sum(values) / len(values)
    return sum([value * weight for value, weight in zip(values, known, strict=True)]) / total
