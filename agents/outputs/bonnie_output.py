# SPDX-License-Identifier: Apache-2.0
"""Results of bonnie++ in lines: the two tables as text, the line of CSV that follows them, or one of both. Pure.

Text: 1.03 (K/sec, no latencies), 1.9x, and 2.00 (898k, 50.6m, 1.1g of bytes). Columns of tests that did not run are
blank. Where white space was collapsed, nothing tells which those were, and the text alone is not read.

CSV: 1.0x without a version, 1.9x, and 1.98 (of bonnie++ 1.98 and 2.00). A machine's name with a comma is not quoted by
bonnie++; the number of fields tells how many there are too many.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from agents.contracts import Metric, ParseError, Unit

STREAMS = ("write.char", "write.block", "rewrite", "read.char", "read.block")
IO = (*STREAMS, "seeks")
FILES = tuple(
    f"{test}.{order}" for order in ("sequential", "random") for test in ("create", "stat", "delete")
)
TESTS = (*IO, *FILES)
TOO_FAST = "+++: too fast to measure"
CUT = "at the very end of the input, where a digit may be missing"
# a bug of 1.98 and 2.00
NO_RATE = "the text has the number of files in place of the rate"
LATENCY = re.compile(r"(0|[1-9]\d{0,11})(us|ms|s)")
LATENCY_PARTS = {"us": 1e6, "ms": 1e3, "s": 1.0}
CPU = re.compile(r"0|[1-9]\d{0,6}")
RATE = re.compile(r"(?:0|[1-9]\d{0,11})(?:\.\d{1,3})?")
PLUSES = re.compile(r"\+{3,5}")
KIB = 1024.0
SCALE = {"M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
NEW = re.compile(
    r"(1\.9\d|2\.\d\d)\w?,(\d\.\d\d\w{0,3}),.{0,80}?,\d{1,4},\w{0,30},(?:\d{1,9}[MGT])?,"
)
OLD = re.compile(r"[^,\s]{0,64},(\d{1,9}[MG](?::\d{1,9}k?)?)?,")
HEAD = re.compile(r"(?:format_version,bonnie_version|name,file_size),.*seq_create.*")
FIELDS_OLD, FIELDS_196, FIELDS_198 = 27, 48, 50
FILE_COUNT = re.compile(r"\d{1,9}(?::[\w:]{1,40})?(?:/\d{1,9})?")
# characters of a line of CSV, and more than any
LONGEST = 2000
# characters of a row of the tables, and far more than any
LONGEST_ROW = 300
OUTPUT_HEAD = re.compile(
    r"Version (\d\.\d\d\w{0,3}) -+Sequential Output-+ -+Sequential Input- -+Random-"
)
CREATE_HEAD = re.compile(r"(?:Version (\d\.\d\d\w{0,3}) )?-+Sequential Create-+ -+Random Create-+")
TABLES_HEAD = re.compile(f"{OUTPUT_HEAD.pattern}|{CREATE_HEAD.pattern}")
BESIDES = re.compile(
    r"(?:Concurrency \d{1,4} )?-Per Chr- --Block-- -Rewrite- -Per Chr- --Block-- --Seeks--|"
    r"(?:\S.{0,80} )?-Create-- --Read--- -Delete-- -Create-- --Read--- -Delete--"
)
OUTPUT_COLUMNS = re.compile(r"(?:Machine|Name|Size).{0,40}?( K)?/sec %CP(?: K?/sec %CP){5}")
CREATE_COLUMNS = re.compile(r"files(?::max)?(?::min)?(?: /sec %CP){6}")
PAIR = r"\s+(?:[\d.]{1,14}[kmgt]?|\+{3,5})\s+(?:\d{1,7}|\+{3})"
OUTPUT_ROW = re.compile(rf"(.{{0,80}}?)(\d{{1,9}}[MGT](?::[\w:]{{0,40}})?)((?:{PAIR}){{1,6}})\s*")
CREATE_ROW = re.compile(rf"\s*(\d{{1,9}}(?::[\w:]{{1,40}})?(?:/\d{{1,9}})?)((?:{PAIR}){{1,6}})\s*")
LATENCIES = re.compile(r"\s*Latency((?:\s+\d{1,12}(?:us|ms|s)){1,6})\s*")
WORDS = re.compile(r"(\s+)(\S+)\s+(\S+)")
# characters of the blank columns of one test
GAP = 10
STEPS = {"": KIB, "k": 2.0**10, "m": 2.0**20, "g": 2.0**30, "t": 2.0**40}
# The beginning of a line of progress -> the test, once its "done" is there
PROGRESS_TESTS = (
    (r"Writing (?:with putc\(\)|a byte at a time)", "write.char"),
    (r"Writing (?:intelligently|\d+ bytes at a time)", "write.block"),
    (r"Rewriting", "rewrite"),
    (r"Reading (?:with getc\(\)|a byte at a time)", "read.char"),
    (r"Reading (?:intelligently|\d+ bytes at a time)", "read.block"),
    (r"start 'em", "seeks"),
    *(
        (rf"{test.partition('.')[0].title()} files in {test.partition('.')[2]} order", test)
        for test in FILES
    ),
)
# What it says on standard error while it works; in a terminal's log it stands above the result
PROGRESS = re.compile(
    r"Using uid:\d+, gid:\d+\.|\.\.\.|(?:done\.*)+|"
    + "|".join(rf"{begins}\.\.\..*" for begins, _ in PROGRESS_TESTS)
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One test that ran. None: it was too fast to be measured."""

    # B/s, or op/s
    rate: float | None
    # 1
    cpu: float | None
    line: int
    # by how much the printed rate may be off the exact one
    step: float = 0.0
    # why there is no rate
    note: str = ""
    cpu_note: str = ""


@dataclass(slots=True)
class Table:
    """One result of a machine called `name` as it was printed once: as text, or as a line of CSV."""

    version: str = ""
    name: str = ""
    # "64M", "2G:8k": of the files that are written and read; "" when there are none
    size: str = ""
    # "16", "16:1000:0/4": in units of 1024, of the file tests; "" when there are none
    files: str = ""
    cells: dict[str, Cell] = field(default_factory=dict)
    # seconds, line
    latencies: dict[str, tuple[float, int]] = field(default_factory=dict)
    # False: some tests did not run, and nothing tells which
    columns: bool = True

    def ran(self, tests: Sequence[str]) -> list[str]:
        """Those of the tests that have a cell."""
        return [test for test in tests if test in self.cells]

    def doubt_the_end(self) -> None:
        """1.0x ends with a CPU figure: of a text that ends there, nobody knows whether 9 was 99."""
        test = list(self.cells)[-1]
        if self.cells[test].cpu is not None:
            self.cells[test] = replace(self.cells[test], cpu=None, cpu_note=CUT)


@dataclass(frozen=True, slots=True)
class Run:
    """Indexes of its lines; `error` when it cannot be read, else one or both tables."""

    first: int
    last: int
    csv: Table | None = None
    text: Table | None = None
    error: ParseError | None = None

    @property
    def best(self) -> Table:
        """The exact figures: those of the CSV line where it is there."""
        tables = self.csv or self.text
        assert tables is not None, "a run without error has a table"
        return tables


def test_of(line: str) -> str:
    """The test whose end a line of progress reports; "" for any other line."""
    finished = line.rstrip().rstrip(".").endswith("done")
    tests = (test for begins, test in PROGRESS_TESTS if finished and re.match(begins, line))
    return next(tests, "")


def size_of(words: str) -> int | None:
    """Bytes, from "64M" or "2G:8k"; None when it says none."""
    match = re.match(r"(\d{1,9})([MGT])(?::|$)", words)
    return int(match[1]) * SCALE[match[2]] if match else None


def table_metrics(table: Table) -> list[Metric]:
    """Rate, CPU and latency of each test that ran, in the order of the tests."""
    metrics = []
    for test in TESTS:
        if cell := table.cells.get(test):
            what, unit = "ops", Unit.OPS_PER_SECOND
            if test in STREAMS:
                what, unit = "bandwidth", Unit.BYTES_PER_SECOND
            metrics += [
                Metric(f"{test}.{what}", cell.rate, unit, note=cell.note, line=cell.line),
                Metric(f"{test}.cpu", cell.cpu, Unit.RATIO, note=cell.cpu_note, line=cell.line),
            ]
        if test in table.latencies:
            seconds, line = table.latencies[test]
            metrics.append(Metric(f"{test}.latency", seconds, Unit.SECONDS, line=line))
    return metrics


def find_runs(lines: Sequence[str]) -> Iterator[Run]:
    """All runs in the order of the lines."""
    index = 0
    while index < len(lines):
        line = lines[index]
        if "-Sequential" in line and TABLES_HEAD.fullmatch(_line_at(lines, index)):
            run = _text_run(lines, index)
        elif len(line) < LONGEST and _is_csv(line.strip()):
            run = _csv_run(lines, index)
        else:
            index += 1
            continue
        yield run
        index = run.last + 1


def _csv_run(lines: Sequence[str], index: int) -> Run:
    try:
        table = _parse_csv_line(lines[index].strip(), index + 1)
    except ParseError as error:
        return Run(index, index, error=error)
    if not table.version and index == len(lines) - 1:
        table.doubt_the_end()
    return Run(index, index, csv=table)


def _text_run(lines: Sequence[str], first: int) -> Run:
    try:
        table, last = _parse_tables(lines, first)
    except ParseError as error:
        return Run(first, max(first, min(error.line, len(lines)) - 1), error=error)
    following = last + 1
    while following < len(lines) and not lines[following].strip():
        following += 1
    line = lines[following].strip() if following < len(lines) else ""
    if len(line) > LONGEST or not _is_csv(line):
        if table.version < "1.9" and last == len(lines) - 1 and table.cells:
            table.doubt_the_end()
        return Run(first, last, text=table)
    try:
        exact = _parse_csv_line(line, following + 1)
        _check_agreement(exact, table)
    except ParseError as error:
        return Run(first, following, error=error)
    return Run(first, following, exact, table)


def _check_agreement(exact: Table, text: Table) -> None:
    """Raises ParseError, at the text's line, when a line of CSV and the text above it are not one result."""
    if not text.columns:
        return
    for tests, printed in ((IO, text.size), (FILES, text.files)):
        text_tests = text.ran(tests)
        if printed and text_tests != exact.ran(tests):
            line = text.cells[text_tests[0]].line if text_tests else 0
            raise ParseError("the text and the CSV line have different tests", line)
    for test, cell in text.cells.items():
        if not _same_cell(exact.cells[test], cell):
            raise ParseError(f"{test} is not what the CSV line says", cell.line)
    for test, (seconds, line) in text.latencies.items():
        if exact.latencies.get(test, (None,))[0] != seconds:
            raise ParseError(f"the latency of {test} is not what the CSV line says", line)


def _same_cell(exact: Cell, text_cell: Cell) -> bool:
    if exact.cpu != text_cell.cpu:
        return False
    if exact.rate is None or text_cell.rate is None:
        return exact.rate is text_cell.rate or text_cell.note == NO_RATE
    return abs(exact.rate - text_cell.rate) <= text_cell.step


@contextmanager
def _errors_at(number: int, line: str) -> Iterator[None]:
    """Turns a ValueError about that line into a ParseError."""
    try:
        yield
    except ValueError as error:
        raise ParseError(str(error), number, line) from None


def read_cell(test: str, rate: str, cpu: str, line: int, scale: float, step: float) -> Cell | None:
    """Cell of two words; None when the test did not run. Raises ValueError when they do not belong together."""
    if not rate and not cpu:
        return None
    if PLUSES.fullmatch(rate) and PLUSES.fullmatch(cpu):
        return Cell(None, None, line, note=TOO_FAST, cpu_note=TOO_FAST)
    if not RATE.fullmatch(rate) or not CPU.fullmatch(cpu):
        raise ValueError(f"{test}: {rate!r} and {cpu!r} are not a rate and CPU use")
    return Cell(float(rate) * scale, int(cpu) / 100, line, step * scale)


def parse_latency(test: str, word: str) -> float:
    """Seconds. Raises ValueError."""
    match = LATENCY.fullmatch(word)
    if not match:
        raise ValueError(f"{test}: {word!r} is not a latency in us, ms or s")
    return int(match[1]) / LATENCY_PARTS[match[2]]


def _is_csv(line: str) -> bool:
    """True when the line is meant to be a CSV line."""
    if NEW.match(line):
        return True
    if line.count(",") != FIELDS_OLD - 1 or not OLD.match(line):
        return False
    fields = line.split(",")
    rates = [*fields[2:14], *fields[15:]]
    if not all(re.fullmatch(r"(?:\d{1,12}(?:\.\d{1,3})?|\+{3,5})?", word) for word in rates):
        return False
    # else somebody else's numbers
    agree = bool(fields[1]) == any(fields[2:14]) and bool(fields[14]) == any(fields[15:])
    return agree and any(rates) and (not fields[14] or FILE_COUNT.fullmatch(fields[14]) is not None)


def _parse_csv_line(line: str, number: int) -> Table:
    """Raises ParseError."""
    with _errors_at(number, line):
        fields = line.split(",")
        if NEW.match(line):
            table = _new_table(fields, number)
        else:
            table = Table("", fields[0], fields[1], fields[14])
            _add_cells(table, fields[2:14] + fields[15:], number)
        if not table.cells:
            raise ValueError("no test ran")
        for tests, printed in ((IO, table.size), (FILES, table.files)):
            if bool(table.ran(tests)) != bool(printed):
                raise ValueError("size or number of files, and what ran, do not fit")
        return table


def _new_table(fields: list[str], number: int) -> Table:
    late = fields[0][:4] not in ("1.96", "1.97") and fields[0] > "1.95"
    field_count = FIELDS_198 if late else FIELDS_196
    if (extra := len(fields) - field_count) < 0:
        raise ValueError(f"truncated: {len(fields)} of {field_count} fields")
    name = ",".join(fields[2 : 3 + extra])
    concurrency, seed, size, *rest = fields[3 + extra :]
    if not concurrency.isdecimal() or not re.fullmatch(r"\w{0,30}", seed):
        raise ValueError("concurrency and seed are not numbers")
    if size and size_of(size) is None:
        raise ValueError(f"{size!r} is not a size")
    rest = rest[3 if late else 1 :]
    table = Table(fields[1], name, size, _file_settings(rest[12:17]))
    _add_cells(table, rest[:12] + rest[17:29], number)
    for test, word in zip(TESTS, rest[29:41], strict=True):
        if bool(word) != (test in table.cells):
            raise ValueError(f"{test}: a latency without a rate, or a rate without a latency")
        if word:
            table.latencies[test] = parse_latency(test, word), number
    return table


def _add_cells(table: Table, words: list[str], number: int) -> None:
    for test, rate, cpu in zip(TESTS, words[::2], words[1::2], strict=True):
        if test != "seeks" and "." in rate:
            raise ValueError(f"{test}: {rate!r} is not a whole number")
        scale = KIB if test in STREAMS else 1.0
        if cell := read_cell(test, rate, cpu, number, scale, 0.0):
            table.cells[test] = cell


def _file_settings(words: list[str]) -> str:
    """num_files, max_size, min_size, num_dirs, file_chunk_size -> as the text has it."""
    if not all(re.fullmatch(r"-?\w{0,12}", word) for word in words):
        raise ValueError(f"{','.join(words)!r} is not a number and size of files")
    settings = ":".join(word for word in words[:3] if word)
    return settings + (f"/{words[3]}" if words[3] else "")


def _line_at(lines: Sequence[str], index: int) -> str:
    """A line with one space between words; "" where there is none that may be of the tables."""
    line = lines[index] if index < len(lines) else ""
    return " ".join(line.split()) if len(line) <= LONGEST_ROW else ""


def _parse_tables(lines: Sequence[str], first: int) -> tuple[Table, int]:
    """The table or tables that begin at lines[first], and the index of their last line. Raises ParseError."""
    table = Table()
    if OUTPUT_HEAD.fullmatch(_line_at(lines, first)):
        last = _parse_table_part(table, lines, first, IO)
        first = last + 1
        while first < len(lines) and not _line_at(lines, first):
            first += 1
        if not CREATE_HEAD.fullmatch(_line_at(lines, first)):
            return table, last
    return table, _parse_table_part(table, lines, first, FILES)


def _parse_table_part(table: Table, lines: Sequence[str], first: int, tests: Sequence[str]) -> int:
    """One of the two tables: two or three lines of heads, a row, the latencies. Returns the index of its last line."""
    head, columns = CREATE_HEAD, CREATE_COLUMNS
    if tests is IO:
        head, columns = OUTPUT_HEAD, OUTPUT_COLUMNS
    if match := head.fullmatch(_line_at(lines, first)):
        table.version = match[1] or table.version
    index = first + 1
    if not BESIDES.fullmatch(_line_at(lines, index)):
        raise ParseError("the table's second line is missing", index, _line_at(lines, first))
    titles = columns.fullmatch(_line_at(lines, index + 1))
    if not titles:
        raise ParseError("the table's titles are missing", index + 1, _line_at(lines, index))
    index += 2
    ran = _parse_figures(table, lines, index, tests, kib=tests is IO and titles[1] is not None)
    if _line_at(lines, index + 1).startswith("Latency"):
        index += 1
        _add_latencies(table, lines[index], index + 1, ran)
    elif table.version >= "1.9":
        raise ParseError("truncated: the latencies are missing", index + 1, lines[index])
    return index


def _parse_figures(
    table: Table, lines: Sequence[str], index: int, tests: Sequence[str], kib: bool
) -> list[str]:
    """Reads the row of figures; returns the tests that ran, [] when nothing tells which."""
    line = lines[index].replace("\u00a0", " ") if index < len(lines) else ""
    pattern = OUTPUT_ROW if tests is IO else CREATE_ROW
    match = pattern.fullmatch(line) if len(line) <= LONGEST_ROW else None
    if not match:
        raise ParseError("the table's row is missing or incomplete", index + 1, line)
    file_count = 0
    if tests is IO:
        table.name, table.size = match[1].strip(), match[2]
    else:
        table.files = match[1]
        file_count = int(re.split(r"[:/]", table.files)[0]) * 1024
    pairs = WORDS.findall(match.groups()[-1])
    ran = _tests_that_ran(tests, pairs)
    table.columns &= bool(ran)
    for test, (_, rate, cpu) in zip(ran, pairs, strict=False):
        with _errors_at(index + 1, line):
            cell = _text_cell(test, rate, cpu, index + 1, kib)
        if test in FILES and table.version >= "1.98" and cell.rate == file_count:
            cell = replace(cell, rate=None, note=NO_RATE)
        table.cells[test] = cell
    return ran


def _tests_that_ran(tests: Sequence[str], pairs: list[tuple[str, str, str]]) -> list[str]:
    """All six; or four, when the blanks show that the tests per character are those that did not run (-f)."""
    if len(pairs) == len(tests):
        return list(tests)
    if tests is IO and [len(gap) >= GAP for gap, _, _ in pairs] == [True, False, True, False]:
        return [test for test in tests if not test.endswith(".char")]
    return []


def _text_cell(test: str, rate: str, cpu: str, number: int, kib: bool) -> Cell:
    """Raises ValueError."""
    unit = rate[-1] if rate[-1] in "kmgt" else ""
    digits = rate.removesuffix(unit)
    is_bytes = test in STREAMS
    if not digits.startswith("+") and ((is_bytes and kib == bool(unit)) or (not is_bytes and unit)):
        raise ValueError(f"{test}: unknown unit of {rate!r}")
    # 1.x prints whole K/sec in both; a seek rate is rounded, and 2.00 rounds to three digits
    exact = (is_bytes and kib) or test in FILES
    step = 0.0 if exact else 10.0 ** -len(digits.partition(".")[2])
    cell = read_cell(test, digits, cpu, number, STEPS[unit] if is_bytes else 1.0, step)
    assert cell is not None, "the pattern has no empty words"
    return cell


def _add_latencies(table: Table, line: str, number: int, ran: list[str]) -> None:
    match = LATENCIES.fullmatch(line.replace("\u00a0", " "))
    words = match[1].split() if match else []
    with _errors_at(number, line):
        if not match or (ran and len(words) != len(ran)):
            raise ValueError("not one latency for each test")
        for test, word in zip(ran, words, strict=False):
            table.latencies[test] = parse_latency(test, word), number
