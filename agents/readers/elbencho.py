# SPDX-License-Identifier: Apache-2.0
"""elbencho's table of results, and its CSV file (`--csvfile`)."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from agents.contracts import Metric
from agents.readers import _line_reader as common
from agents.readers._line_reader import NUMBER, LineReader, Lines, squeezed
from agents.texts.parsed_result import ParsedResult

ELB_HEAD = "OPERATION RESULT TYPE FIRST DONE LAST DONE"
ELB_START = re.compile(r"([A-Z][A-Z0-9]{2,20}) Elapsed (?:time|ms) ?: (\S+) (\S+)")
ELB_ROW = re.compile(
    r"(IOPS|Throughput MiB/s|IOPS (?:read|write)|MiB/s (?:read|write)) ?: (\d{1,12}) (\d{1,12})"
)
ELB_TIME = rf"({NUMBER})(us|ms|s)?"
ELB_LATENCY = re.compile(
    rf"IO(?: (rd|wr))? lat(?:ency)?(?: us)? ?: \[ min={ELB_TIME} avg={ELB_TIME} max={ELB_TIME} \]"
)
ELB_RANKS = re.compile(r"IO(?: (rd|wr))? lat % us ?: \[ ((?:[\d.]{1,10}%<=\d{1,12} ?)+)\]")
ELB_RANK = re.compile(r"([\d.]{1,10})%<=(\d{1,12})")
ELB_OTHER = re.compile(r"[A-Za-z][\w %/.]{0,30}:.*|-{3,}|=[= ]+|NOTE: .*|WARNING: .*|\[.*\]")
MOVING = ("READ", "WRITE")
# lines between a command and its table
REMARKS = ("NOTE: ", "WARNING: ")
ELB_NOTE = (
    "elbencho: figures are those of the last thread to end (LAST DONE), MiB/s without decimals; percentiles are upper"
    " bounds"
)
ELB_SIZES: Mapping[str, tuple[str, ...]] = {
    "block_size": ("-b", "--block"),
    "size": ("-s", "--size"),
}
ELB_COUNTS: Mapping[str, tuple[str, ...]] = {
    "numjobs": ("-t", "--threads"),
    "iodepth": ("--iodepth",),
}


def read_elbencho(lines: Lines) -> Iterator[ParsedResult]:
    """One result for each phase that moves data, of the table and of CSV."""
    head, csv_head = -1, -1
    starts: list[tuple[int, int]] = []
    for at, line in enumerate(lines):
        words = squeezed(line)
        if words == ELB_HEAD:
            head = at
        elif ELB_START.fullmatch(words):
            starts.append((at, head))
        elif line.strip().startswith("ISO date,"):
            csv_head = at
        elif csv_head >= 0 and line.count(",") >= 20:
            yield _csv_result(lines, csv_head, at)
    # phases that move no data, such as MKDIRS
    silent: list[tuple[int, int]] = []
    for (at, heading), (following, _) in pairwise([*starts, (len(lines), -1)]):
        last = _phase_end(lines, at, following)
        if result := _phase_result(lines, (at, last), heading):
            yield replace(result, also=(*result.also, *silent))
            silent = []
        else:
            silent.append((at + 1, last + 1))


def _phase_end(lines: Lines, first: int, following: int) -> int:
    """Index of the last line of the phase that begins at `first`, its rule included."""
    last = first
    for at in range(first + 1, following):
        words = squeezed(lines[at])
        if set(words) == {"-"}:
            return at
        if not words or not ELB_OTHER.fullmatch(words):
            break
        last = at
    return last


def _phase_result(lines: Lines, span: tuple[int, int], head: int) -> ParsedResult | None:
    """The result of a phase; None if it moves no data."""
    first, last = span
    start = ELB_START.fullmatch(squeezed(lines[first]))
    phase = start[1] if start else ""
    metrics = [
        metric
        for at in range(first + 1, last + 1)
        for metric in _phase_metrics(squeezed(lines[at]), at + 1, phase)
    ]
    if not metrics:
        if phase in MOVING or phase.startswith("RWMIX"):
            why = "the phase is truncated: it has neither IOPS nor throughput"
            return common.named_result("elbencho", lines, first, last, why)
        return None
    above = head if head >= 0 else first
    while above > 0 and lines[above - 1].strip().startswith(REMARKS):
        above -= 1
    place, command = common.command_above(lines, above, "elbencho")
    options = _elbencho_options(command)
    mix = re.fullmatch(r"RWMIX(\d{1,3})", phase)
    if command and (mix or phase in MOVING):
        random = "--rand" in command.split()
        options["rw"] = ("rand" if random else "") + ("rw" if mix else phase.lower())
    if mix:
        options["rwmixread"] = int(mix[1])
    # the headings, and the rule below them
    ruled = head >= 0 and lines[head + 1].strip().startswith("==")
    also = [(head + 1, head + 1 + ruled)] if head >= 0 else []
    return ParsedResult(
        "elbencho",
        first + 1,
        last + 1,
        f"elbencho {phase}",
        command=command,
        metrics=tuple(metrics),
        options=options,
        outstanding=common.total_outstanding(options),
        notes=(ELB_NOTE,),
        also=(*also, *([(place + 1, place + 1)] if command else [])),
    )


def _phase_metrics(words: str, line: int, phase: str) -> Iterator[Metric]:
    """Figures of one line of a phase."""
    of_phase = {"READ": "read", "WRITE": "write"}.get(phase, "")
    if match := ELB_ROW.fullmatch(words):
        rate = "IOPS" in match[1]
        way = next((way for way in ("read", "write") if match[1].endswith(way)), of_phase)
        value = float(match[3]) * (1.0 if rate else 2.0**20)
        yield from common.io_metrics(way, line, {"iops" if rate else "bandwidth": value})
    elif match := ELB_LATENCY.fullmatch(words):
        way = {"rd": "read", "wr": "write"}.get(match[1] or "", of_phase)
        times = {
            name: float(match[place]) * common.SECONDS[match[place + 1] or "us"]
            for name, place in (("lat.min", 2), ("lat.mean", 4), ("lat.max", 6))
        }
        yield from common.io_metrics(way, line, times)
    elif match := ELB_RANKS.fullmatch(words):
        way = {"rd": "read", "wr": "write"}.get(match[1] or "", of_phase)
        for rank, time in ELB_RANK.findall(match[2]):
            yield from common.io_metrics(way, line, {f"lat.p{rank}": int(time) / 1e6})


def _elbencho_options(command: str) -> dict[str, object]:
    if not command:
        return {}
    options: dict[str, object] = {
        "direct": "--direct" in command.split(),
        "numjobs": 1,
        "iodepth": 1,
    }
    for name, names in ELB_SIZES.items():
        if size := common.size_in_bytes(common.option_value(command, *names)):
            options[name] = size
    for name, names in ELB_COUNTS.items():
        if (text := common.option_value(command, *names)).isdecimal() and len(text) < 8:
            options[name] = int(text)
    if "--hosts" in command:
        # of each host
        options["hosts"] = common.option_value(command, "--hosts")
        del options["iodepth"]
    return options


CSV_FIGURES = {
    "IOPS [last]": ("iops", 1.0),
    "MiB/s [last]": ("bandwidth", 2.0**20),
    "IO lat us [min]": ("lat.min", 1e-6),
    "IO lat us [avg]": ("lat.mean", 1e-6),
    "IO lat us [max]": ("lat.max", 1e-6),
}
CSV_OPTIONS = {
    "file size": "size",
    "block size": "block_size",
    "threads": "numjobs",
    "IO depth": "iodepth",
    "hosts": "hosts",
    "files": "nrfiles",
}


def _csv_result(lines: Lines, head: int, at: int) -> ParsedResult:
    names, values = (next(csv.reader([lines[place]]), []) for place in (head, at))
    row = dict(zip(names, values, strict=False))
    phase = row.get("operation", "")
    if len(names) != len(values) or not phase:
        why = "the row has other columns than the heading of elbencho's CSV"
        return common.named_result("elbencho", lines, at, at, why)
    metrics: list[Metric] = []
    mixed = bool(row.get("rwmix read IOPS [last]"))
    of_phase = "write" if mixed else {"READ": "read", "WRITE": "write"}.get(phase, "")
    for prefix, way in (("", of_phase), ("rwmix read ", "read")):
        for name, (figure, scale) in CSV_FIGURES.items():
            if re.fullmatch(NUMBER, text := row.get(prefix + name, "")):
                metrics += common.io_metrics(way, at + 1, {figure: float(text) * scale})
    if not metrics:
        why = f"the phase {phase[:40]} moves no data"
        return common.named_result("elbencho", lines, at, at, why)
    options: dict[str, object] = {
        option: int(row[name])
        for name, option in CSV_OPTIONS.items()
        if re.fullmatch(r"\d{1,15}", row.get(name, ""))
    }
    if row.get("direct IO") in ("0", "1"):
        options["direct"] = row["direct IO"] == "1"
    if mix := re.fullmatch(r"RWMIX(\d{1,3})", phase):
        options["rwmixread"] = int(mix[1])
    if of_phase and not mixed and row.get("random") in ("0", "1"):
        options["rw"] = ("rand" if row["random"] == "1" else "") + of_phase
    hosts = options.get("hosts", 1)
    total = common.total_outstanding(options)
    return ParsedResult(
        "elbencho",
        at + 1,
        at + 1,
        f"elbencho {phase}",
        version=row.get("version", ""),
        command=row.get("command", ""),
        metrics=tuple(metrics),
        options=options,
        outstanding=total * max(hosts, 1) if total and isinstance(hosts, int) else None,
        notes=(ELB_NOTE,),
        head=head + 1,
        also=((head + 1, head + 1),),
    )


DRIVERS = {
    "elbencho": LineReader(
        "elbencho (table and CSV)", ("Elapsed time", "Elapsed ms", "ISO date,"), read_elbencho
    )
}
