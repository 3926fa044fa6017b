# SPDX-License-Identifier: Apache-2.0
"""DiskSpd's results as text and as XML (`-Rxml`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from agents.contracts import Metric
from agents.readers import _line_reader as common
from agents.readers._line_reader import NUMBER, LineReader, Lines, squeezed
from agents.texts.parsed_result import ParsedResult

STARTS = ("Command Line:", "Input parameters:", "Results for timespan", "Total IO")
MIB_NOTE = "DiskSpd: MiB/s of 2^20 bytes, also where an early version prints MB/s"
UNKNOWN_OPTIONS = (
    "several time spans or targets, or the input parameters are missing: options unknown"
)
# lines of one run from its command line to its tables, with hundreds of CPUs
RUN_LINES = 2000
SPAN = re.compile(r"Results for timespan \d{1,4}:")
TABLES = {"Total IO": "", "Read IO": "read", "Write IO": "write"}
COLUMNS = {
    "I/O per s": ("iops", 1.0),
    # 2.0.14 and earlier print MiB as MB
    "MiB/s": ("bandwidth", 2.0**20),
    "MB/s": ("bandwidth", 2.0**20),
    "AvgLat": ("lat.mean", 1e-3),
    "LatStdDev": ("lat.stddev", 1e-3),
}
RANK = re.compile(r"min|max|\d{1,3}th|\d{1,2}(?:-nines)?(?:th)?|\d{1,2}\.\d{1,9}(?:th)?")
RANKS = {f"{count}-nines": f"p99.{'9' * (count - 2)}" for count in range(3, 10)}
TEST_TIME = re.compile(rf"(?:actual )?test time: ({NUMBER})s")
SETTINGS = {
    "block_size": re.compile(r"block size: (\d{1,12}(?:[KMGT]iB)?)"),
    "iodepth": re.compile(r"number of outstanding I/O operations(?: per thread)?: (\d{1,6})"),
    "numjobs": re.compile(r"(?:thread count|threads per file): (\d{1,6})"),
    "runtime": re.compile(r"duration: (\d{1,9})s"),
    "ramp_time": re.compile(r"warm up time: (\d{1,9})s"),
    "rate_iops": re.compile(r"throughput rate-limited to (\d{1,12}) IOPS"),
}
MIX = re.compile(
    r"performing (?:(read|write) test|mix test \(read/write ratio: (\d{1,3})/\d{1,3}\))"
)
ORDER = re.compile(r"using (random|(?:interlocked )?sequential) I/O \(.*\)")
INTERRUPTED = "The test was interrupted before the measurements began"


def read_diskspd(lines: Lines) -> Iterator[ParsedResult]:
    """One result for each time span, of text and of XML."""
    yield from _xml_results(lines)
    begins = list(_run_starts(lines))
    for first, following in pairwise([*begins, len(lines)]):
        spans = [at for at in range(first, following) if SPAN.fullmatch(squeezed(lines[at]))]
        for start, end in pairwise([first, *spans[1:], following]):
            if result := _diskspd_run(lines, (start, end), many=len(spans) > 1):
                yield result


def _run_starts(lines: Lines) -> Iterator[int]:
    """Indexes of DiskSpd's command lines, and of what follows them where those were cut off."""
    latest = -RUN_LINES
    for at, line in enumerate(lines):
        words = squeezed(line) if line.strip().startswith(STARTS) else ""
        if not words:
            continue
        if words.startswith("Command Line:") or at - latest >= RUN_LINES:
            yield at
        latest = at


def _diskspd_run(lines: Lines, span: tuple[int, int], *, many: bool) -> ParsedResult | None:
    """The result of these lines; None if nothing in them is DiskSpd's."""
    first, end = span
    words = [squeezed(line) for line in lines[first:end]]
    tables = {row: at for at, row in enumerate(words) if row in TABLES}
    if not tables:
        if any(row.startswith(INTERRUPTED) for row in words):
            return common.named_result("diskspd", lines, first, end - 1, INTERRUPTED)
        return None
    metrics: list[Metric] = []
    last = 0
    for name, at in tables.items():
        total_at, figures = _table_total(words, at)
        if total_at < 0:
            why = f"the table {name} has no line of totals: the text is truncated"
            return common.named_result("diskspd", lines, first, first + at, why)
        last = max(last, total_at)
        metrics += common.io_metrics(TABLES[name], first + total_at + 1, figures)
    rank_last, percentiles = _percentiles(words, first)
    command = next((row for row in words if row.startswith("Command Line:")), "")
    options = {} if many else _text_options(words)
    last = max(last, rank_last)
    if not _rates_hold(words, tables):
        why = "bytes, time and MiB/s do not agree"
        return common.named_result("diskspd", lines, first, first + last, why)
    if not any(metric.value for metric in metrics):
        why = "no I/O was measured, or the columns are not known"
        return common.named_result("diskspd", lines, first, first + last, why)
    return _diskspd_result((first, first + last), command, [*metrics, *percentiles], options)


def _diskspd_result(
    span: tuple[int, int], command: str, metrics: Sequence[Metric], options: Mapping[str, object]
) -> ParsedResult:
    moved = [m for m in metrics if m.value or not m.name.startswith(("read.", "write."))]
    return ParsedResult(
        "diskspd",
        span[0] + 1,
        span[1] + 1,
        f"diskspd {options.get('rw', '')}".strip(),
        command=command.removeprefix("Command Line:").strip(),
        metrics=tuple(moved),
        options=options,
        outstanding=common.total_outstanding(options),
        notes=(MIB_NOTE,) if options else (MIB_NOTE, UNKNOWN_OPTIONS),
    )


def _table_total(words: Sequence[str], at: int) -> tuple[int, dict[str, float | None]]:
    """Index and figures of the totals below a table's name; -1 where they are missing."""
    columns: list[str] = []
    for place in range(at + 1, len(words)):
        cells = [cell.strip() for cell in words[place].split("|")]
        if cells[0] == "thread":
            columns = cells[1:]
        elif words[place].startswith("total:"):
            values = [cells[0].removeprefix("total:").strip(), *cells[1:]]
            if not columns or not len(columns) - 1 <= len(values) <= len(columns):
                return -1, {}
            return place, _row_figures(dict(zip(columns, values, strict=False)))
        elif words[place] in TABLES:
            break
    return -1, {}


def _row_figures(cells: Mapping[str, str]) -> dict[str, float | None]:
    figures: dict[str, float | None] = {}
    for column, (name, scale) in COLUMNS.items():
        if re.fullmatch(NUMBER, cells.get(column, "")):
            figures[name] = float(cells[column]) * scale
    return figures


def _rates_hold(words: Sequence[str], tables: Mapping[str, int]) -> bool:
    """False if bytes over the test's time are not the printed rate of the whole."""
    time = next((float(m[1]) for row in words if (m := TEST_TIME.fullmatch(row))), 0.0)
    at, figures = _table_total(words, tables["Total IO"]) if "Total IO" in tables else (-1, {})
    rate = figures.get("bandwidth")
    amount = re.match(r"total: ?(\d{1,20}) \|", words[at]) if at >= 0 else None
    if not time or rate is None or amount is None:
        return True
    return abs(int(amount[1]) / time - rate) <= 0.01 * rate + 2 * 10486


def _percentiles(words: Sequence[str], first: int) -> tuple[int, list[Metric]]:
    """Index of the table's last line, and its times."""
    heads = [at for at, row in enumerate(words) if row.startswith("%-ile |")]
    metrics: list[Metric] = []
    if not heads:
        return 0, metrics
    # the last table is that of all targets
    last = heads[-1]
    ways = [cell.split()[0].lower() for cell in words[last].split("|")[1:] if cell.split()]
    for at in range(last + 1, len(words)):
        rank, *cells = (cell.strip() for cell in words[at].split("|"))
        if set(rank) == {"-"}:
            continue
        if not RANK.fullmatch(rank) or len(cells) != len(ways):
            break
        name = RANKS.get(rank) or (
            rank if rank in ("min", "max") else f"p{rank.removesuffix('th')}"
        )
        last = at
        for way, cell in zip(ways, cells, strict=True):
            if re.fullmatch(NUMBER, cell) and way in ("read", "write", "total"):
                prefix = "" if way == "total" else way
                metrics += common.io_metrics(
                    prefix, first + at + 1, {f"lat.{name}": float(cell) / 1e3}
                )
    return last, metrics


def _text_options(words: Sequence[str]) -> dict[str, object]:
    """Options of the one target, by the input parameters; {} if there are several targets or none."""
    if sum(row.startswith("path: ") for row in words) != 1:
        return {}
    options: dict[str, object] = {}
    for row in words:
        for name, pattern in SETTINGS.items():
            if match := pattern.fullmatch(row):
                options[name] = common.size_in_bytes(match[1]) or 0
        if row == "software cache disabled":
            options["direct"] = True
        elif row == "using software cache":
            options["direct"] = False
        elif row.startswith("hardware write cache disabled"):
            options["write_through"] = True
    mix = next((m for row in words if (m := MIX.fullmatch(row))), None)
    order = next((m for row in words if (m := ORDER.fullmatch(row))), None)
    if mix and mix[2]:
        options["rwmixread"] = int(mix[2])
    if mix and order:
        options["rw"] = ("rand" if order[1] == "random" else "") + (mix[1] or "rw")
    return options


ELEMENT = re.compile(r"<(\w{1,60})(?: [^<>]{0,200})?>([^<>]{0,300})</\1>")
XML_OPTIONS = {
    "BlockSize": "block_size",
    "RequestCount": "iodepth",
    "ThreadsPerFile": "numjobs",
    "Duration": "runtime",
    "Warmup": "ramp_time",
}
XML_MEANS = {
    "AverageReadMilliseconds": "read",
    "AverageWriteMilliseconds": "write",
    "AverageTotalMilliseconds": "",
}
XML_RANKS = {"ReadMilliseconds": "read", "WriteMilliseconds": "write", "TotalMilliseconds": ""}
# of a long table, those that other readers have
XML_PERCENTILES = {
    "0": "min",
    "25": "p25",
    "50": "p50",
    "75": "p75",
    "90": "p90",
    "95": "p95",
    "99": "p99",
    "99.9": "p99.9",
    "99.90": "p99.9",
    "99.99": "p99.99",
    "99.999": "p99.999",
    "100": "max",
}


def _xml_results(lines: Lines) -> Iterator[ParsedResult]:
    first = -1
    for at, line in enumerate(lines):
        tag = line.strip()
        if tag.endswith("<Results>"):
            first = at
        elif tag == "</Results>" and first >= 0:
            if result := _xml_run(lines, first, at):
                yield result
            first = -1
    if first >= 0 and any("<TimeSpan>" in line for line in lines[first:]):
        why = "the XML is truncated: it does not end with </Results>"
        yield common.named_result("diskspd", lines, first, len(lines) - 1, why, "diskspd")


def _xml_run(lines: Lines, first: int, last: int) -> ParsedResult | None:
    """The result of one document; None if it is not DiskSpd's."""
    elements = [
        (at, match[1], match[2])
        for at in range(first, last + 1)
        for match in ELEMENT.finditer(lines[at])
    ]
    times = [(at, text) for at, name, text in elements if name == "TestTimeSeconds"]
    if not times:
        return None
    if len(times) > 1:
        why = "the XML has several time spans: run and paste them one by one"
        return common.named_result("diskspd", lines, first, last, why, "diskspd")
    at, text = times[0]
    if not re.fullmatch(NUMBER, text) or not float(text):
        return common.named_result("diskspd", lines, first, last, "no time was measured", "diskspd")
    profile = [(name, value) for place, name, value in elements if place < at]
    body = [(place, name, value) for place, name, value in elements if place > at]
    counts = _xml_counts(body)
    metrics: list[Metric] = []
    for way in ("read", "write"):
        if counts[f"{way}.ios"]:
            rates = {
                "iops": counts[f"{way}.ios"] / float(text),
                "bandwidth": counts[f"{way}.bytes"] / float(text),
            }
            metrics += common.io_metrics(way, at + 1, rates)
    if not metrics:
        return common.named_result("diskspd", lines, first, last, "no I/O was counted", "diskspd")
    metrics += _xml_times(body)
    version = next((value for name, value in profile if name == "Version"), "")
    result = _diskspd_result((first, last), "", metrics, _xml_options(profile))
    return replace(result, version=version)


def _xml_counts(body: Sequence[tuple[int, str, str]]) -> dict[str, int]:
    """Sums over all threads and targets."""
    counts = dict.fromkeys(("read.ios", "write.ios", "read.bytes", "write.bytes"), 0)
    names = {
        "ReadCount": "read.ios",
        "WriteCount": "write.ios",
        "ReadBytes": "read.bytes",
        "WriteBytes": "write.bytes",
    }
    for _, name, value in body:
        if name in names and re.fullmatch(r"\d{1,20}", value):
            counts[names[name]] += int(value)
    return counts


def _xml_times(body: Sequence[tuple[int, str, str]]) -> Iterator[Metric]:
    rank = ""
    for at, name, value in body:
        if name == "Percentile":
            rank = XML_PERCENTILES.get(value, "")
        elif not re.fullmatch(NUMBER, value):
            continue
        elif name in XML_MEANS:
            yield from common.io_metrics(XML_MEANS[name], at + 1, {"lat.mean": float(value) / 1e3})
        elif name in XML_RANKS and rank:
            yield from common.io_metrics(
                XML_RANKS[name], at + 1, {f"lat.{rank}": float(value) / 1e3}
            )


def _xml_options(profile: Sequence[tuple[str, str]]) -> dict[str, object]:
    """Options of the one target; {} if there are several."""
    if sum(name == "Path" for name, _ in profile) != 1:
        return {}
    # an element of the target stands below one of the time span with the same name
    values = dict(profile)
    options: dict[str, object] = {
        option: int(values[name])
        for name, option in XML_OPTIONS.items()
        if re.fullmatch(r"\d{1,15}", values.get(name, ""))
    }
    if "DisableOSCache" in values:
        options["direct"] = values["DisableOSCache"] == "true"
    if values.get("WriteThrough") == "true":
        options["write_through"] = True
    written = values.get("WriteRatio", "")
    if re.fullmatch(r"\d{1,3}", written):
        way = {"0": "read", "100": "write"}.get(written, "rw")
        options["rw"] = (
            "rand" if "Random" in values or values.get("RandomRatio") == "100" else ""
        ) + way
        if way == "rw":
            options["rwmixread"] = 100 - int(written)
    return options


DRIVERS = {
    "diskspd": LineReader(
        "DiskSpd (text and XML)", ("I/O per s", "<TestTimeSeconds>", INTERRUPTED), read_diskspd
    )
}
