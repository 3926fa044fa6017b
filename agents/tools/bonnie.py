# SPDX-License-Identifier: Apache-2.0
"""bonnie++: one file written, rewritten and read, random seeks in it, and many small files made, looked up and removed.

It wants a directory: `bonnie.sh` makes one of ours on the target's mount, gives it to the user who is to run it, and
removes it. The line of CSV counts; the text above it must say the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

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
from agents.outputs import bonnie_output
from agents.tools import _scripts
from agents.tools._scripts import lines_of

LABEL = "bonnie++"
NEEDS = (
    Need(
        "bonnie++",
        dict.fromkeys(("debian", "rhel", "suse", "arch", "alpine", "freebsd"), "bonnie++"),
    ),
)
DIRECTORY = "benchlab.bonnie"
IO_FIELDS = {
    "reads": (),
    "writes": (),
    "block": ("size", "chunk_size"),
    "direct": ("direct",),
    "synced": ("sync",),
    "compressible": (),
    "size": ("size",),
    "ramp_s": (),
}
MIB = 1 << 20
# a tenth of them writes
SEEKS = 8192
# a slow disk's: B/s, and files per second
EXPECTED_RATE, EXPECTED_FILES = 100e6, 1000.0
# the tests per character: a second or two of a small part, minutes in 1.0x
CHARACTERS_S = 120.0
USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,31})?")

SCRIPT = _scripts.tool_script("bonnie.sh")
RUNS = _scripts.Script("bonnie++", "works in a directory", "bonnie.sh", SCRIPT, DIRECTORY)
SCRIPTS = {SCRIPT: (PATH, r"[A-Za-z0-9_.:-]+", rf"-[a-zA-Z]|bl\d+|\d+(?::\d+)*|{PATH}")}


@dataclass(frozen=True, slots=True)
class Options:
    size: int = option(
        16 << 30,
        "of the file; twice the host's RAM at least, or it refuses; 0: only small files",
        unit="B",
        minimum=0,
    )
    ram: int = option(
        0,
        "RAM size that it assumes; 0: the host's. A smaller value measures the page cache",
        unit="B",
        minimum=0,
    )
    chunk_size: int = option(8192, "of each read and write, a power of 2", unit="B", minimum=256)
    files: int = option(16, "small files, in units of 1024; 0: none", minimum=0)
    file_max: int = option(0, "largest of the small files", unit="B", minimum=0)
    file_min: int = option(0, "smallest of the small files", unit="B", minimum=0)
    directories: int = option(1, "over which the small files are spread", minimum=1)
    fast: bool = option(False, "-f: without the tests per character")
    direct: bool = option(False, "-D: bypass the page cache (O_DIRECT)")
    sync: bool = option(False, "-b: no write buffering, fsync after each small file")
    user: str = option(
        "",
        "-u: user to whom root changes for it, by name or UID, or user:group; empty: as for other tools",
    )

    def __post_init__(self) -> None:
        if self.size % MIB or self.ram % MIB:
            raise OptionsError("size, ram: whole MiB only, bonnie++ counts in them")
        if not self.size and not self.files:
            raise OptionsError("size, files: with both 0 there is nothing to do")
        if self.size and self.ram and self.size < 2 * self.ram:
            raise OptionsError("size: less than twice ram; bonnie++ would refuse it")
        if self.chunk_size > MIB or self.chunk_size & (self.chunk_size - 1):
            raise OptionsError(
                f"chunk_size: {self.chunk_size} is not a power of 2 from 256 to 1 MiB"
            )
        if self.file_max < self.file_min:
            raise OptionsError("file_max: smaller than file_min")
        if self.user and not USER.fullmatch(self.user):
            raise OptionsError(f"user: {self.user!r} is not a user or user:group")


def build_job(options: Options, target: Target) -> Job:
    arguments = (options.user or "-", *_arguments(options, target))
    return _scripts.directory_job(
        RUNS, target, arguments, expected_s=_expected_s(options), writes=_written_bytes(options)
    )


def build_precheck(options: Options, target: Target) -> Job | None:
    """bonnie++ checks nothing without doing it; what can be checked, Options does."""
    return None


def root_reason(options: Options, target: Target) -> str:
    return "the workload names the user to whom bonnie++ changes" if options.user else ""


def required_bytes(options: Options, target: Target) -> int:
    return options.size + options.files * 1024 * options.file_min


def reads_existing(options: Options) -> bool:
    return False


def outstanding_ios(options: Options) -> int | None:
    """None: one for most tests, several processes seek."""
    return None


def access_pattern(options: Options) -> Access:
    """Sequential, then random access. Its blocks are zeros in which a byte or two counts up."""
    return Access(
        reads=True,
        writes=True,
        block=options.chunk_size if options.size else None,
        direct=options.direct,
        synced=options.sync,
        compressible=True,
        size=options.size or None,
        ramp_s=0.0,
        outstanding=outstanding_ios(options),
    )


def same_work(options: Mapping[str, object]) -> SameWork:
    return SameWork()


def _arguments(options: Options, target: Target) -> tuple[str, ...]:
    """The machine's name is ours: a host's own may hold a comma or nothing."""
    arguments = ["-m", target.name, "-s", f"{options.size // MIB}:{options.chunk_size}"]
    if options.ram:
        arguments += ["-r", str(options.ram // MIB)]
    spread = (options.file_max, options.file_min, options.directories)
    extra = "".join(f":{number}" for number in spread) if spread != (0, 0, 1) else ""
    arguments += ["-n", f"{options.files}{extra if options.files else ''}"]
    flags = {"-f": options.fast, "-D": options.direct, "-b": options.sync}
    return (*arguments, *(flag for flag, enabled in flags.items() if enabled))


def _expected_s(options: Options) -> float:
    # write, rewrite (twice), read
    passes = 4 * options.size / EXPECTED_RATE
    small = 2 * options.files * 1024
    characters = CHARACTERS_S if options.size and not options.fast else 0.0
    moved = small * options.file_max / EXPECTED_RATE
    return passes + characters + 3 * small / EXPECTED_FILES + moved + 10.0


def _written_bytes(options: Options) -> int:
    """Upper limit, without what files and directories need beside their content."""
    whole = options.size * (2 if options.fast else 3)
    seeks = SEEKS * options.chunk_size if options.size else 0
    return whole + seeks + 2 * options.files * 1024 * max(options.file_max, 4096)


def parse(outputs: Mapping[str, bytes], options: Options) -> list[Metric]:
    """One result: the line of CSV, and what the text above it says is compared."""
    raw = outputs.get("stdout", b"")
    try:
        lines = raw.decode("utf-8").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as error:
        raise ParseError("not text", raw.count(b"\n", 0, error.start) + 1) from None
    if not any(line.strip() for line in lines):
        raise ParseError("empty: bonnie++ printed no result")
    all_runs = list(bonnie_output.find_runs(lines))
    for run in all_runs:
        if run.error:
            raise run.error
    known_lines = {index for run in all_runs for index in range(run.first, run.last + 1)}
    for index, line in enumerate(lines):
        if (
            index not in known_lines
            and line.strip()
            and not bonnie_output.PROGRESS.fullmatch(line.strip())
        ):
            raise ParseError("not understood", index + 1, line)
    if len(all_runs) != 1:
        raise ParseError(f"{len(all_runs)} results instead of one")
    if all_runs[0].csv is None:
        last = all_runs[0].last
        raise ParseError("truncated: the CSV line is missing", last + 1, lines[last])
    return lines_of("stdout", bonnie_output.table_metrics(all_runs[0].csv))


def parse_windows(outputs: Mapping[str, bytes], options: Options, timing: Timing) -> list[Window]:
    """A window for each test that standard error names: its line ends when the test is done."""
    marks = _scripts.read_marks(outputs, timing)
    return [
        Window(test, before.at, mark.at)
        for before, mark in pairwise(marks)
        if (test := bonnie_output.test_of(mark.words))
    ]
