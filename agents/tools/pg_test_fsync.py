# SPDX-License-Identifier: Apache-2.0
"""pg_test_fsync: how many synced writes of a PostgreSQL block a disk does in a second, by each way to sync.

It is part of PostgreSQL and hardly ever in PATH: `pg_test_fsync.sh` takes the newest that the host has and says which.
It removes what it has written to, even a device's node, so it only ever gets a file of ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.command_forms import PATH
from agents.contracts import (
    Access,
    Job,
    Metric,
    Need,
    OptionsError,
    ParseError,
    SameWork,
    Target,
    Timing,
    Window,
)
from agents.options import option
from agents.outputs import pg_test_fsync_text as text
from agents.tools import _scripts
from agents.tools._scripts import lines_of

LABEL = "pg_test_fsync"
PROGRAM = "pg_test_fsync"
PROGRAM_OPTION = "program"
PLACES = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/libexec/postgresql*",
    "/usr/local/pgsql*/bin",
    "/opt/*/bin",
    "/opt/*/*/bin",
)
NEEDS = (
    Need(
        PROGRAM,
        {
            "debian": "postgresql",
            "rhel": "postgresql-contrib",
            "suse": "postgresql-contrib",
            "arch": "postgresql",
            "alpine": "postgresql",
        },
        places=PLACES,
    ),
)
IO_FIELDS = dict.fromkeys(
    ("reads", "writes", "block", "synced", "compressible", "ramp_s", "outstanding"), ()
)
FILE = "benchlab.pg_test_fsync"
# of each run at most: 5 + 5 + 5 + 2 + 1
TESTS = 18
# bytes written before the first test
SEGMENT = 16 << 20
# Of a test's time: a line that is seen later than this was kept back by a buffer, and not by a busy host.
LATE = 0.5
# B/s of a test that syncs: 60k writes of 8 kB, which the fastest disk of the articles nearly does. The unsynced one
# writes the same 8 kB over and over into the cache.
FASTEST = 60_000 * 8192

SCRIPT = _scripts.tool_script(
    "pg_test_fsync.sh", _scripts.HOSTSIDE.joinpath("root_only.sh").read_bytes()
)
BROKE_OFF = re.compile(r"(?m)^pg_test_fsync\.sh: broke off: (?:pg_test_fsync: error: )?(.*)$")
SCRIPTS = {SCRIPT: (PATH, r"\d+", rf"{PATH}|{PROGRAM}", PATH)}


@dataclass(frozen=True, slots=True)
class Options:
    seconds: int = option(5, "length of each of its 17 tests", unit="s", minimum=1)
    program: str = option(
        "",
        "path of the pg_test_fsync to run; empty: the newest in PATH and where packages put "
        "PostgreSQL",
    )

    def __post_init__(self) -> None:
        if self.seconds > 3600:
            raise OptionsError(f"seconds: {self.seconds} is above 3600; all tests would take days")
        path = self.program
        if path and not (
            path.startswith("/") and path.endswith(f"/{PROGRAM}") and path.isprintable()
        ):
            raise OptionsError(f"program: {path!r} is not the absolute path of a {PROGRAM}")


def required_programs(options: Options) -> tuple[Need, ...]:
    """One given by its path is asked when it runs."""
    return () if options.program else NEEDS


def named_programs(options: Options) -> tuple[str, ...]:
    return (options.program,) if options.program else ()


def build_job(options: Options, target: Target) -> Job:
    if not target.mount:
        raise OptionsError(
            f"target {target.name!r} has no mount point: pg_test_fsync removes what it has written to, "
            "so it gets a file, never a device; put a filesystem on top"
        )
    path = f"{target.mount.rstrip('/')}/{FILE}"
    expected = options.seconds * TESTS + 5.0
    program = options.program or PROGRAM
    return Job(
        argv=("sh", "pg_test_fsync.sh", path, str(options.seconds), program, *PLACES),
        outputs=(_scripts.MARKS,),
        inputs={"pg_test_fsync.sh": SCRIPT},
        # it is translated into a dozen languages
        env={"LC_ALL": "C"},
        expected_s=expected,
        timeout_s=expected * 3 + 600,
        writes=SEGMENT + options.seconds * (TESTS - 1) * FASTEST,
    )


def build_precheck(options: Options, target: Target) -> Job | None:
    """There is nothing that Options does not check."""
    return None


def root_reason(options: Options, target: Target) -> str:
    return ""


def outstanding_ios(options: Options) -> int | None:
    return 1


def access_pattern(options: Options) -> Access:
    """Past the page cache by some ways to sync and not by others; the smallest write is that of 16 x 1 kB."""
    return Access(
        reads=False,
        writes=True,
        block=1024,
        synced=True,
        compressible=False,
        ramp_s=0.0,
        outstanding=1,
    )


def same_work(options: Mapping[str, object]) -> SameWork:
    return SameWork()


def parse(outputs: Mapping[str, bytes], options: Options) -> list[Metric]:
    """One whole run, every table and every row of it."""
    lines = decoded(outputs.get("stdout", b""))
    first = next((index for index, line in enumerate(lines) if line), None)
    if first is None:
        raise ParseError("empty: pg_test_fsync printed nothing")
    if not text.START.fullmatch(lines[first]):
        raise ParseError("not the output of pg_test_fsync", first + 1, lines[first])
    run = text.parse_run(lines, first)
    end = run.last + 1
    beyond = next((index for index in range(end, len(lines)) if lines[index]), None)
    if beyond is not None and not run.cut:
        raise ParseError("not understood", beyond + 1, lines[beyond])
    if broken := BROKE_OFF.search(outputs.get("stderr", b"").decode("utf-8", "replace")):
        return lines_of("stdout", [*run.metrics, *_not_measured(run, broken[1])])
    if run.missing_parts:
        raise ParseError(f"truncated: without {'; '.join(run.missing_parts)}", end, lines[run.last])
    return lines_of("stdout", run.metrics)


def parse_partial(outputs: Mapping[str, bytes], options: Options) -> list[Metric]:
    """The tests before the one at which it ended: the disk was full, or failed."""
    lines = decoded(outputs.get("stdout", b""))
    first = next((index for index, line in enumerate(lines) if text.START.fullmatch(line)), None)
    return [] if first is None else lines_of("stdout", text.parse_run(lines, first).metrics)


def _not_measured(run: text.Run, reason: str) -> list[Metric]:
    """The test at which it broke off, and those behind it. Raises ParseError where nothing was measured before."""
    if not run.metrics:
        raise ParseError(f"it aborted at its first test: {reason}", run.last + 1)
    (first, name), *others = text.missing_tests(run)
    refused = f"failed: {reason}; the disk does not accept direct writes of that size"
    return [
        text.absent(run, name, refused),
        *(text.absent(run, other, f"not run: it aborted at {first}") for _, other in others),
    ]


def parse_windows(outputs: Mapping[str, bytes], options: Options, timing: Timing) -> list[Window]:
    """Each test that ran, from the end of the one before. It prints a test's name when that begins, and ends the line
    when the next one does.

    On a busy host a line is seen late. Each later test takes its whole time, so the end of a line that is seen too near
    the next one is known from there; where it would be off by more than LATE, both tests beside it are left out.
    """
    marks = _scripts.read_marks(outputs, timing)
    lines = decoded(outputs.get("stdout", b""))
    first = next((index for index, line in enumerate(lines) if line), None)
    if first is None or not marks:
        return []
    run = text.parse_run(lines, first)
    rows = [
        row
        for row in run.metrics
        if row.name.endswith(".ops") and row.value is not None and 1 < row.line <= len(marks)
    ]
    if not rows:
        return []
    seconds = float(run.seconds or 0)
    times = [marks[rows[0].line - 2].at, *(marks[row.line - 1].at for row in rows)]
    bounds = _latest_ends(times, seconds)
    sound = [at - bound <= LATE * seconds for at, bound in zip(times, bounds, strict=True)]
    return [
        Window(row.name.removesuffix(".ops"), bounds[index], bounds[index + 1])
        for index, row in enumerate(rows)
        if sound[index] and sound[index + 1]
    ]


def _latest_ends(times: Sequence[float], seconds: float) -> list[float]:
    """Latest moment (s) at which each test can have ended: when its line was seen, or a whole test before the next."""
    ends = list(times)
    for index in range(len(ends) - 2, -1, -1):
        ends[index] = min(ends[index], ends[index + 1] - seconds)
    return ends


def decoded(raw: bytes) -> list[str]:
    """Cleaned lines. Raises ParseError for what is no text."""
    try:
        decoded_text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ParseError("not text", raw.count(b"\n", 0, error.start) + 1) from None
    return [text.clean_line(line) for line in decoded_text.replace("\r\n", "\n").split("\n")]
