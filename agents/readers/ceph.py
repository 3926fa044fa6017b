# SPDX-License-Identifier: Apache-2.0
"""Ceph's own benchmarks: `ceph tell osd.N bench` of one OSD, and `rados bench` of a pool."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agents.contracts import Metric
from agents.readers import _line_reader as common
from agents.readers._line_reader import NUMBER, LineReader, Lines, command_above, squeezed
from agents.texts.parsed_result import ParsedResult

# bench: wrote 1 GiB in blocks of 4 MiB in 5.6 sec at 183 MiB/sec 45 IOPS
OSD_PLAIN = re.compile(
    rf"(?:.{{0,120}} )?bench: wrote ({NUMBER}) ([KMGT]i?B) in blocks of ({NUMBER}) ([KMGT]i?B|B)"
    rf" in ({NUMBER}) sec at ({NUMBER}) ([KMGT]i?B|B)/sec(?: ({NUMBER}) IOPS)?"
)
# Ceph's KB and MB are powers of 1024
OSD_UNITS = {**common.BINARY_SIZES, "KB": 2.0**10, "MB": 2.0**20, "GB": 2.0**30, "TB": 2.0**40}
OSD_NAME = re.compile(r"\bosd\.(\d{1,6})\b")
OSD_FIELD = re.compile(
    r'"(bytes_written|blocksize|elapsed_sec|bytes_per_sec|iops)": ?"?(\d{1,18}(?:\.\d{1,18})?)"?'
)
# lines of the JSON above and below its first field
OSD_REACH = 8
OSD_NOTE = (
    "ceph osd bench: the OSD writes to its own disk, past network and replicas; by default 1 GiB in"
    " objects of 4 MiB"
)


def read_osd_bench(lines: Lines) -> Iterator[ParsedResult]:
    """One result for each OSD, from its JSON or from the cluster's log."""
    free = 0
    for at, line in enumerate(lines):
        if at < free:
            continue
        if '"bytes_written"' in line:
            result = _osd_json(lines, at)
            free = result.last
            yield result
        elif "bench: wrote" in line and (match := OSD_PLAIN.fullmatch(squeezed(line))):
            yield _osd_plain(lines, at, match)


def _osd_json(lines: Lines, at: int) -> ParsedResult:
    opened = at > 0 and "{" in lines[at - 1] and not _next_osd(lines, at - 2, at - 1)
    first = at - 1 if opened and "{" not in lines[at] else at
    ends = range(at, min(at + OSD_REACH, len(lines)))
    last = next((place for place in ends if "}" in lines[place] or _next_osd(lines, at, place)), -1)
    if last < 0 or _next_osd(lines, at, last):
        return common.named_result("ceph_osd_bench", lines, first, at, "the JSON is truncated")
    fields: dict[str, tuple[float, int]] = {}
    for place in range(first, last + 1):
        for match in OSD_FIELD.finditer(lines[place].partition("}")[0]):
            fields[match[1]] = float(match[2]), place + 1
    if not {"bytes_written", "blocksize", "bytes_per_sec"} <= fields.keys():
        why = "the JSON lacks bytes written, their block size or rate"
        return common.named_result("ceph_osd_bench", lines, first, last, why)
    rate, line = fields["bytes_per_sec"]
    metrics = [*common.io_metrics("write", line, {"bandwidth": rate})]
    if "iops" in fields:
        metrics += common.io_metrics("write", fields["iops"][1], {"iops": fields["iops"][0]})
    written, block = fields["bytes_written"][0], fields["blocksize"][0]
    seconds = fields.get("elapsed_sec", (0.0, 0))[0]
    return _osd_result(lines, (first, last), metrics, (written, block, seconds, rate))


def _next_osd(lines: Lines, at: int, place: int) -> bool:
    """True if another OSD's figures begin there."""
    return place > at and '"bytes_written"' in lines[place]


def _osd_plain(lines: Lines, at: int, match: re.Match[str]) -> ParsedResult:
    written, block, rate = (
        float(match[place]) * OSD_UNITS[match[place + 1]] for place in (1, 3, 6)
    )
    figures = {"bandwidth": rate, "iops": float(match[8]) if match[8] else None}
    metrics = [*common.io_metrics("write", at + 1, figures)]
    return _osd_result(lines, (at, at), metrics, (written, block, float(match[5]), rate))


def _osd_result(
    lines: Lines, span: tuple[int, int], metrics: list[Metric], run: tuple[float, ...]
) -> ParsedResult:
    """`run`: bytes written, bytes of an object, seconds (0: unknown) and B/s."""
    first, last = span
    written, block, seconds, rate = run
    # the log prints whole MB
    if seconds and abs(written / seconds - rate) > 0.02 * rate + 2**20:
        why = "bytes, seconds and rate do not agree"
        return common.named_result("ceph_osd_bench", lines, first, last, why)
    start, command = command_above(lines, first, "ceph")
    own = OSD_NAME.search(lines[first]) or OSD_NAME.search(command)
    options: dict[str, object] = {"rw": "write", "size": round(written), "block_size": round(block)}
    if own:
        options["osd"] = int(own[1])
    return ParsedResult(
        "ceph_osd_bench",
        start + 1,
        last + 1,
        f"ceph osd.{own[1]} bench" if own else "ceph osd bench",
        command=command,
        metrics=tuple(metrics),
        options=options,
        notes=(OSD_NOTE,),
    )


RADOS_ROW = re.compile(
    r"(Total time run|Total (?:writes|reads) made|(?:Write|Read) size|Object size"
    r"|(?:Bandwidth|Max bandwidth|Min bandwidth) \(MB/sec\)|Stddev Bandwidth"
    r"|(?:Average|Stddev|Max|Min) IOPS|(?:Average|Stddev|Max|Min) [Ll]atency(?:\(s\))?)"
    r": ?(\S{1,40})"
)
# of old versions: "Average IOPS          23"
RADOS_OLD_IOPS = re.compile(r"(Average IOPS) (\d{1,12})")
RADOS_FIGURES = {
    "Bandwidth (MB/sec)": ("bandwidth", 2.0**20),
    "Average IOPS": ("iops", 1.0),
    "Average Latency": ("lat.mean", 1.0),
    "Stddev Latency": ("lat.stddev", 1.0),
    "Max Latency": ("lat.max", 1.0),
    "Min Latency": ("lat.min", 1.0),
}
RADOS_PROGRESS = re.compile(
    r"hints = \d+|Maintaining .*|Object prefix: .*|sec Cur ops started finished avg MB/s .*"
    r"|(?:\S+ \S+ )?\d{1,7} \d{1,7} \d{1,12} \d{1,12} \S+ \S+ \S+ \S+|\d{4}-\d\d-\d\d.{0,40}min lat: .*"
)
RADOS_DEPTH = re.compile(r"Maintaining (\d{1,6}) concurrent writes of .*")
RADOS_NOTE = (
    "rados bench: whole objects through network, replicas and disks; its MB are MiB, and 16 at once"
    " unless -t says otherwise"
)
# sec, ops, started, finished, avg MB/s, cur MB/s, last and mean latency
RADOS_SECOND = re.compile(
    rf"\d{{1,7}} \d{{1,7}} \d{{1,12}} \d{{1,12}} {NUMBER} (?:{NUMBER}|-) (?:{NUMBER}|-) (?:{NUMBER}|-)"
)
# s of progress from which its mean says something
LEAST_SECONDS = 3
# lines of progress above the figures: a week of seconds would be none that anybody pastes
RADOS_REACH = 20_000


def read_rados_bench(lines: Lines) -> Iterator[ParsedResult]:
    """One result for each block of totals."""
    free = 0
    for at, line in enumerate(lines):
        if '"total_writes_made"' in line or '"total_reads_made"' in line:
            why = "This is JSON of rados bench: BenchLab reads its text only."
            yield common.named_result("rados_bench", lines, at, at, why)
        elif at >= free and line.strip().startswith("Total time run:"):
            last, rows = _rados_rows(lines, at)
            result = _rados_run(lines, (free, at, last), rows)
            if result:
                yield result
                free = last + 1
    if cut := _rados_cut(lines, free):
        yield cut


def _rados_cut(lines: Lines, free: int) -> ParsedResult | None:
    """Averages of a run whose totals were cut off, from its last line of progress; None where there is none."""
    rows = [at for at in range(free, len(lines)) if RADOS_SECOND.fullmatch(squeezed(lines[at]))]
    last = next((at for at in reversed(rows) if squeezed(lines[at])[-1] != "-"), -1)
    begins = (at for at in reversed(rows) if at < last and squeezed(lines[at]).startswith("0 "))
    first = next(begins, -1)
    if first < 0:
        return None
    seconds, _, _, finished, mean, *_, latency = squeezed(lines[last]).split()
    if int(seconds) < LEAST_SECONDS:
        return None
    run = _rados_command(lines, free, first)
    way = "read" if _rados_mode(run.text, "write") in ("seq", "rand") else "write"
    figures = {"bandwidth": float(mean) * 2.0**20, "iops": int(finished) / int(seconds)}
    metrics = [*common.io_metrics(way, last + 1, {**figures, "lat.mean": float(latency)})]
    cut = f"the totals are cut off: averages of the first {seconds} s"
    return _rados_result(run, last, way, metrics, {}, (cut,))


@dataclass(frozen=True, slots=True)
class RadosCommand:
    """The command of a run, the index of its first line, and the depth that its progress names; "" where unknown."""

    start: int
    text: str
    depth: str


def _rados_command(lines: Lines, free: int, first: int) -> RadosCommand:
    start, depth = _rados_progress(lines, free, first)
    start, command = command_above(lines, start, "rados")
    return RadosCommand(start, command, depth)


def _rados_result(
    run: RadosCommand,
    last: int,
    way: str,
    metrics: Sequence[Metric],
    rows: Mapping[str, tuple[str, int]],
    notes: Sequence[str] = (),
) -> ParsedResult:
    return ParsedResult(
        "rados_bench",
        run.start + 1,
        last + 1,
        f"rados bench {_rados_mode(run.text, way)}",
        command=run.text,
        metrics=tuple(metrics),
        options=_rados_options(rows, way, run.text, run.depth),
        outstanding=_rados_depth(run.text, run.depth),
        notes=(RADOS_NOTE, *notes),
    )


def _rados_rows(lines: Lines, first: int) -> tuple[int, dict[str, tuple[str, int]]]:
    """Index of the last line of the totals, and the printed figure and line by name."""
    rows: dict[str, tuple[str, int]] = {}
    last = first
    for at in range(first, len(lines)):
        words = squeezed(lines[at])
        match = RADOS_ROW.fullmatch(words) or RADOS_OLD_IOPS.fullmatch(words)
        if (match is None and words) or (match and match[1] in rows):
            break
        if match:
            name = match[1].removesuffix("(s)").replace(" latency", " Latency")
            rows[name], last = (match[2], at + 1), at
    return last, rows


def _rados_run(
    lines: Lines, places: tuple[int, int, int], rows: Mapping[str, tuple[str, int]]
) -> ParsedResult | None:
    """The result of a block of totals; None if it is none of rados bench. Places: free from, first and last line."""
    free, first, last = places
    ways = {"Total writes made": "write", "Total reads made": "read"}
    way = next((ways[name] for name in ways if name in rows), "")
    if not way:
        return None
    metrics: list[Metric] = []
    for name, (figure, scale) in RADOS_FIGURES.items():
        printed, line = rows.get(name, ("", 0))
        if re.fullmatch(NUMBER, printed):
            metrics += common.io_metrics(way, line, {figure: float(printed) * scale})
        elif printed:
            why = f"{name} is not a number"
            return common.named_result("rados_bench", lines, first, last, why)
    if "Bandwidth (MB/sec)" not in rows or not _rados_holds(rows, way):
        why = "the totals are truncated, or objects, their size, time and MB/sec do not agree"
        return common.named_result("rados_bench", lines, first, last, why)
    return _rados_result(_rados_command(lines, free, first), last, way, metrics, rows)


def _rados_holds(rows: Mapping[str, tuple[str, int]], way: str) -> bool:
    """False if objects times size over the time is not the printed bandwidth."""
    names = ("Total time run", f"Total {way}s made", f"{way.title()} size", "Bandwidth (MB/sec)")
    printed = [rows.get(name, ("", 0))[0] for name in names]
    if not all(re.fullmatch(NUMBER, text) for text in printed):
        return False
    seconds, count, size, rate = map(float, printed)
    return seconds > 0 and abs(count * size / seconds / 2**20 - rate) <= 0.02 * rate + 0.01


def _rados_progress(lines: Lines, free: int, first: int) -> tuple[int, str]:
    """Index of the first line of progress above the totals, and the depth that it names."""
    depth, start = "", first
    for at in range(first - 1, max(free, first - RADOS_REACH) - 1, -1):
        words = squeezed(lines[at])
        if words and not RADOS_PROGRESS.fullmatch(words):
            break
        if match := RADOS_DEPTH.fullmatch(words):
            depth = match[1]
        start = at if words else start
    return start, depth


def _rados_mode(command: str, way: str) -> str:
    """write, seq or rand, as far as the text tells."""
    modes = [word for word in command.split() if word in ("write", "seq", "rand")]
    return modes[0] if modes else way


def _rados_depth(command: str, depth: str) -> int | None:
    given = depth or common.option_value(command, "-t", "--concurrent-ios")
    if re.fullmatch(r"\d{1,6}", given):
        return int(given)
    # the default of rados bench
    return 16 if command else None


def _rados_options(
    rows: Mapping[str, tuple[str, int]], way: str, command: str, depth: str
) -> dict[str, object]:
    mode = _rados_mode(command, way)
    options: dict[str, object] = {}
    if mode in ("seq", "rand", "write"):
        options["rw"] = {"seq": "read", "rand": "randread", "write": "write"}[mode]
    sizes = {"block_size": f"{way.title()} size", "object_size": "Object size"}
    for option, name in sizes.items():
        if re.fullmatch(r"\d{1,15}", rows.get(name, ("", 0))[0]):
            options[option] = int(rows[name][0])
    if outstanding := _rados_depth(command, depth):
        options["iodepth"] = outstanding
    return options


DRIVERS = {
    "ceph_osd_bench": LineReader(
        "ceph tell osd.N bench", ('"bytes_written"', "bench: wrote"), read_osd_bench
    ),
    "rados_bench": LineReader(
        "rados bench",
        ("Total time run:", "sec Cur ops", '"total_writes_made"', '"total_reads_made"'),
        read_rados_bench,
    ),
}
