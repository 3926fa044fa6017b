# SPDX-License-Identifier: Apache-2.0
"""Scripts that run fio and print little of it: YABS (yet another bench script), Longhorn's kbench, kubestr."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from agents.contracts import Metric
from agents.readers import _line_reader as common
from agents.readers._line_reader import NUMBER, LineReader, Lines, squeezed
from agents.texts.parsed_result import ParsedResult

YABS_TITLE = re.compile(r"fio Disk Speed Tests \(Mixed R/W 50/50\).{0,120}")
YABS_DD = re.compile(r"dd Sequential Disk Speed Tests:?")
YABS_BLOCKS = re.compile(r"Block Size((?: ?\| ?\d{1,6}[km]? ?\(IOPS\)){1,8})")
YABS_BLOCK = re.compile(r"(\d{1,6}[km]?) ?\(IOPS\)")
YABS_ROW = re.compile(r"(Read|Write|Total)((?: ?\| ?\S+ [KMG]B/s ?\(\S{1,12}\)){1,8})")
YABS_CELL = re.compile(rf"({NUMBER}) ([KMG]B)/s ?\(({NUMBER})(k?)\)")
YABS_RULE = re.compile(r"[-| ]+")
YABS_WAYS = {"Read": "read", "Write": "write", "Total": ""}
# yabs.sh has had these since its fio test began
YABS_OPTIONS = {
    "rw": "randrw",
    "rwmixread": 50,
    "ioengine": "libaio",
    "iodepth": 64,
    "numjobs": 2,
    "direct": True,
}
YABS_NOTE = (
    "YABS: reads and writes at once, half each; it cuts its figures off after a digit or two"
)
YABS_KIB = "this version of YABS prints KiB/s / 1000 as MB/s: 2.4 % are added, as its IOPS demand"
YABS_OPEN = "early versions of YABS print KiB/s / 1000 as MB/s: bandwidth may be 2.4 % more"
# what fio's KiB/s / 1000 lack of MB/s
KIB_FACTOR = 1.024


@dataclass(frozen=True)
class Cell:
    """A cell of YABS's table: what was printed. `place` is the line's index, from 0."""

    place: int
    way: str
    block: int
    # B/s, with MB of 10^6 bytes
    rate: float
    iops: float
    # the first rate and number of IOPS that would have been printed otherwise
    rate_end: float
    iops_end: float

    def fits(self, factor: float) -> bool:
        """True if the rate, times the factor, may be what these IOPS move."""
        low, high = self.iops * self.block, self.iops_end * self.block
        return low <= self.rate_end * factor * 1.002 and self.rate * factor <= high * 1.002


def read_yabs(lines: Lines) -> Iterator[ParsedResult]:
    """One result for each table of block sizes: the columns are its points."""
    at = 0
    while at < len(lines):
        words = squeezed(lines[at]) if "Disk Speed" in lines[at] or "(IOPS)" in lines[at] else ""
        if YABS_DD.fullmatch(words):
            why = "This is the dd table of YABS: BenchLab does not read it."
            yield common.named_result("yabs", lines, at, at, why)
        elif YABS_TITLE.fullmatch(words) or YABS_BLOCKS.fullmatch(words):
            result, at = _yabs_table(lines, at)
            yield result
            continue
        at += 1


def _yabs_table(lines: Lines, first: int) -> tuple[ParsedResult, int]:
    """The result that begins there, and the index of the line to go on with."""
    cells: list[Cell] = []
    blocks: list[int] = []
    last, at = first, first
    while at < len(lines):
        words = squeezed(lines[at])
        begins = YABS_TITLE.fullmatch(words) is not None
        if heads := YABS_BLOCKS.fullmatch(words):
            # without rows below them, block sizes belong to no table
            empty = bool(blocks) and not any(cell.block in blocks for cell in cells)
            blocks = [common.size_in_bytes(size) or 0 for size in YABS_BLOCK.findall(heads[1])]
            begins = empty or any(cell.block in blocks for cell in cells)
        elif row := YABS_ROW.fullmatch(words):
            new = _yabs_cells(row, at, blocks)
            if not new or any((c.way, c.block) == (new[0].way, new[0].block) for c in cells):
                last = last if cells else at
                break
            cells += new
            last = at
        elif words and not begins and not YABS_RULE.fullmatch(words):
            break
        if begins and at > first:
            break
        at += 1
    return _yabs_result(lines, first, last, cells), last + 1


def _yabs_cells(row: re.Match[str], at: int, blocks: Sequence[int]) -> list[Cell]:
    """Cells of a row; [] if they do not stand below the block sizes."""
    matches = list(YABS_CELL.finditer(row[2]))
    if len(matches) != len(blocks) or len(matches) != row[2].count("|"):
        return []
    return [
        _yabs_cell(match, at, YABS_WAYS[row[1]], block)
        for match, block in zip(matches, blocks, strict=True)
    ]


def _yabs_cell(match: re.Match[str], at: int, way: str, block: int) -> Cell:
    unit, scale = common.DECIMAL_SIZES[match[2]], common.COUNTS[match[4]]
    rate_step, iops_step = _last_digit(match[1]) * unit, _last_digit(match[3]) * scale
    rate, iops = float(match[1]) * unit, float(match[3]) * scale
    return Cell(at, way, block, rate, iops, rate + rate_step, iops + iops_step)


def _last_digit(printed: str) -> float:
    """Value of one more in the last digit."""
    return float(10.0 ** -len(printed.partition(".")[2]))


def _yabs_result(lines: Lines, first: int, last: int, cells: Sequence[Cell]) -> ParsedResult:
    if not cells:
        return common.named_result("yabs", lines, first, last, "the table of YABS is truncated")
    plain = all(cell.fits(1.0) for cell in cells)
    binary = all(cell.fits(KIB_FACTOR) for cell in cells)
    if not (plain or binary):
        why = "rates, IOPS and block sizes of the table do not agree"
        return common.named_result("yabs", lines, first, last, why)
    factor = 1.0 if plain else KIB_FACTOR
    metrics: list[Metric] = []
    for block in dict.fromkeys(cell.block for cell in cells):
        for cell in cells:
            if cell.block == block:
                figures = {"bandwidth": cell.rate * factor, "iops": cell.iops}
                labels = {"block_size": str(block)}
                metrics += common.io_metrics(cell.way, cell.place + 1, figures, labels)
    notes = [YABS_NOTE, *([YABS_OPEN] if plain and binary else []), *([] if plain else [YABS_KIB])]
    return ParsedResult(
        "yabs",
        first + 1,
        last + 1,
        "YABS fio tests",
        metrics=tuple(metrics),
        options=YABS_OPTIONS,
        outstanding=common.total_outstanding(YABS_OPTIONS),
        notes=tuple(notes),
        varies="block_size",
    )


# heading -> name of its figures, scale, and fio's options in kbench's job files
KBENCH_PARTS: Mapping[str, tuple[str, float, Mapping[str, object]]] = {
    "IOPS (Read/Write)": ("iops", 1.0, {"block_size": 4096}),
    "Bandwidth in KiB/sec (Read/Write)": ("bandwidth", 1024.0, {"block_size": 131072}),
    "Latency in ns (Read/Write)": ("lat.mean", 1e-9, {"block_size": 4096, "iodepth": 1}),
}
KBENCH_TITLES = {"iops": "IOPS", "bandwidth": "bandwidth", "lat.mean": "latency"}
KBENCH_FOR = re.compile(r"For: (\S.{0,200})")
COUNT = r"(\d{1,3}(?:,\d{3})+|\d{1,15})"
KBENCH_ROW = re.compile(rf"(Random|Sequential): {COUNT} / {COUNT}(?: vs {COUNT} / {COUNT} : \S.*)?")
KBENCH_ANY_ROW = re.compile(r"(?:Random|Sequential|CPU Idleness):.*")
KBENCH_HEAD = re.compile(
    r"=+|FIO Benchmark (?:Comparsion |Comparison )?Summary|For: .*|\S.* vs \S.* : Change"
    r"|(?:SIZE|Size|QUICK MODE|Quick Mode|Mode|CPU Idleness Profiling): ?.*"
)
KBENCH_SIZE = re.compile(r"size: ?(\d{1,9}[kmgt])", re.IGNORECASE)
KBENCH_NOTE = (
    "kbench: reads and writes one after the other, past the page cache; its job files ask for a"
    " depth of 64 (1 for latency)"
)


def read_kbench(lines: Lines) -> Iterator[ParsedResult]:
    """One result for each part of a summary: its tests are the points."""
    parts = [at for at, line in enumerate(lines) if squeezed(line) in KBENCH_PARTS]
    for at, following in pairwise([*parts, len(lines)]):
        yield _kbench_part(lines, at, following)


def _kbench_part(lines: Lines, first: int, following: int) -> ParsedResult:
    figure, scale, options = KBENCH_PARTS[squeezed(lines[first])]
    around, title, size = _kbench_heading(lines, first)
    volumes = [name.strip() for name in (title[1] if title else "").split(" vs ")]
    metrics: list[Metric] = []
    last = first
    for at in range(first + 1, following):
        words = squeezed(lines[at])
        if not words:
            continue
        if not KBENCH_ANY_ROW.fullmatch(words):
            break
        row = KBENCH_ROW.fullmatch(words)
        if row is None and not words.startswith("CPU"):
            why = f"{words.partition(':')[0]} has no figures for reads and writes"
            return common.named_result("kbench", lines, first, at, why)
        if row and metrics and ("rw" in metrics[0].labels) != (row[4] is None):
            why = "some rows are of one volume, and some of two"
            return common.named_result("kbench", lines, first, at, why)
        if row:
            metrics += _kbench_row(row, at, (figure, scale), volumes)
        last = at
    if not metrics:
        return common.named_result("kbench", lines, first, last, "the summary is truncated")
    kind = f"kbench {KBENCH_TITLES[figure]}"
    options = {"ioengine": "libaio", "direct": True, **options, **size}
    return ParsedResult(
        "kbench",
        first + 1,
        last + 1,
        f"{kind} {title[1] if title else ''}".strip()[:100],
        metrics=tuple(metrics),
        options=options,
        parts=_kbench_volumes(kind, options, metrics),
        outstanding=1 if figure == "lat.mean" else None,
        notes=(KBENCH_NOTE,),
        also=tuple(around),
        # it names the volumes of a comparison
        head=int(title[0]) + 1 if title and len(volumes) == 2 else 0,
        varies="rw" if "rw" in metrics[0].labels else "test",
    )


def _kbench_volumes(
    kind: str, options: Mapping[str, object], metrics: Sequence[Metric]
) -> dict[str, dict[str, object]]:
    """Title and options of each test of a comparison: volumes are no points of a sweep. {} of a single volume."""
    tests = dict.fromkeys(metric.labels["test"] for metric in metrics if "test" in metric.labels)
    parts: dict[str, dict[str, object]] = {}
    for test in tests:
        pattern, volume = test.split(", ", 1)
        own = {**options, "rw": pattern, "volume": volume}
        parts[test] = {"title": f"{kind}, {test}"[:100], "options": own}
    return parts


def _kbench_heading(
    lines: Lines, first: int
) -> tuple[list[tuple[int, int]], tuple[int, str] | None, dict[str, object]]:
    """Lines of the summary's heading, index and name of what was measured, and its size as an option."""
    around: list[tuple[int, int]] = []
    title: tuple[int, str] | None = None
    size: dict[str, object] = {}
    # rows of the parts above, and the heading
    for at in range(first - 1, max(first - 40, -1), -1):
        words = squeezed(lines[at])
        if not words or words in KBENCH_PARTS or KBENCH_ANY_ROW.fullmatch(words):
            continue
        if not KBENCH_HEAD.fullmatch(words):
            break
        around.append((at + 1, at + 1))
        if title is None and (match := KBENCH_FOR.fullmatch(words)):
            title = at, match[1]
        if match := KBENCH_SIZE.fullmatch(words):
            size = {"size": common.size_in_bytes(match[1])}
        if words.startswith("FIO Benchmark"):
            break
    return around, title, size


def _kbench_row(
    row: re.Match[str], at: int, figure: tuple[str, float], volumes: Sequence[str]
) -> Iterator[Metric]:
    """Figures of a row: reads and writes were tests of their own, and volumes are, too."""
    name, scale = figure
    pairs = [(row[2], row[3])] if row[4] is None else [(row[2], row[3]), (row[4], row[5])]
    names = volumes if len(volumes) == len(pairs) else ["first volume", "second volume"]
    for pair, volume in zip(pairs, names, strict=False):
        for way, printed in zip(("read", "write"), pair, strict=True):
            test = ("rand" if row[1] == "Random" else "") + way
            labels = {"rw": test} if len(pairs) == 1 else {"test": f"{test}, {volume}"}
            yield from common.io_metrics(
                way, at + 1, {name: common.number(printed) * scale}, labels
            )


KUBESTR_JOB = re.compile(r"JobName: (\S{1,80})")
KUBESTR_OPTIONS = re.compile(
    r"blocksize=(\d{1,9}[kKmM]?) filesize=(\d{1,9}[kKmMgG]?) iodepth=(\d{1,6}) rw=([a-z]{4,12})"
)
KUBESTR_GLOBAL = re.compile(r"Global options - (.{1,300})")
KUBESTR_WAY = re.compile(r"(read|write):")
KUBESTR_RATES = re.compile(rf"IOPS=({NUMBER}) BW\(KiB/s\)=({NUMBER})")
KUBESTR_REST = re.compile(r"(?:iops|bw\(KiB/s\)): .*")
KUBESTR_NOTE = "kubestr: it prints the means of fio's JSON; its jobs run one after the other"
# lines of a job
KUBESTR_REACH = 10


def read_kubestr(lines: Lines) -> Iterator[ParsedResult]:
    """One result for each job with rates."""
    direct = False
    for at, line in enumerate(lines):
        words = squeezed(line)
        if options := KUBESTR_GLOBAL.fullmatch(words):
            direct = "direct=1" in options[1].split()
        elif job := KUBESTR_JOB.fullmatch(words):
            yield _kubestr_job(lines, at, job[1], direct)


def _kubestr_job(lines: Lines, first: int, name: str, direct: bool) -> ParsedResult:
    options: dict[str, object] = {"direct": True} if direct else {}
    metrics: list[Metric] = []
    way, last = "", first
    for at in range(first + 1, min(first + KUBESTR_REACH, len(lines))):
        words = squeezed(lines[at])
        if asked := KUBESTR_OPTIONS.fullmatch(words):
            sizes = [common.size_in_bytes(text) for text in asked.groups()[:2]]
            options |= {"block_size": sizes[0], "size": sizes[1], "rw": asked[4]}
            options |= {"iodepth": int(asked[3]), "numjobs": 1, "ioengine": "libaio"}
        elif direction := KUBESTR_WAY.fullmatch(words):
            way = direction[1]
        elif way and (rates := KUBESTR_RATES.fullmatch(words)):
            figures = {"iops": float(rates[1]), "bandwidth": float(rates[2]) * 1024}
            metrics += common.io_metrics(way, at + 1, figures)
        elif words and not KUBESTR_REST.fullmatch(words):
            break
        last = at if words else last
    if not metrics or "rw" not in options:
        return common.named_result("kubestr", lines, first, last, "the job is truncated", name)
    return ParsedResult(
        "kubestr",
        first + 1,
        last + 1,
        f"kubestr {name}",
        metrics=tuple(metrics),
        options=options,
        outstanding=common.total_outstanding(options),
        notes=(KUBESTR_NOTE,),
    )


DRIVERS = {
    "yabs": LineReader("YABS (its disk tables)", ("Disk Speed Tests", "(IOPS)"), read_yabs),
    "kbench": LineReader("kbench (Longhorn)", ("(Read/Write)",), read_kbench),
    "kubestr": LineReader("kubestr fio", ("JobName: ",), read_kubestr),
}
