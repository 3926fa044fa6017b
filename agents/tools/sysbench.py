# SPDX-License-Identifier: Apache-2.0
"""sysbench's fileio test: blocks read or written in files of its own, in order or at random. Versions 1.0.

It wants a directory: `sysbench.sh` makes one of ours on the target's mount, has sysbench lay out its files there (not
for seqwr, which makes them itself), forgets the page cache, runs the test, and removes all of it.

What sysbench 1.0.20 does: it writes zeros, which a layer that compresses swallows; positions are uniform whatever
--rand-type says; of --file-extra-flags it takes one; the fsync at the end counts for the rates, but is no event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from agents.command_forms import PATH
from agents.contracts import (
    Access,
    Job,
    Metric,
    Need,
    OptionsError,
    ParseError,
    Series,
    Target,
    Timing,
    Window,
)
from agents.options import option
from agents.outputs import sysbench_text as text
from agents.tools import _scripts
from agents.tools._scripts import lines_of

LABEL = "sysbench fileio"
NEEDS = (
    Need(
        "sysbench",
        dict.fromkeys(("debian", "rhel", "suse", "arch", "alpine", "freebsd"), "sysbench"),
        minimum="1.0",
    ),
)
DIRECTORY = "benchlab.sysbench"
# a slow disk's: B/s to lay out, seconds for one request
EXPECTED_RATE, EXPECTED_S = 100e6, 0.01
READS = ("seqrd", "rndrd")
IO_FIELDS = {
    "reads": ("mode", "rw_ratio"),
    "writes": ("mode",),
    "random": ("mode",),
    "block": ("block_size",),
    "direct": ("extra_flags",),
    "synced": ("mode", "fsync_all", "extra_flags"),
    "compressible": (),
    "size": ("size",),
    "ramp_s": (),
    "runtime_s": ("time_s", "events"),
    "outstanding": ("threads", "io_mode", "async_backlog"),
}
SCRIPT = _scripts.tool_script("sysbench.sh", _scripts.FORGET)
RUNS = _scripts.Script("sysbench", "makes files", "sysbench.sh", SCRIPT, DIRECTORY)
SCRIPTS = {SCRIPT: (PATH, "prepare|new", r"--[a-z-]+=[a-z0-9.]+")}


@dataclass(frozen=True, slots=True)
class Options:
    mode: str = option(
        "rndrw",
        "seqwr makes its files, seqrewr writes into what is there, rndrw mixes by rw_ratio",
        choices=tuple(text.MODES),
    )
    block_size: int = option(16384, "of each read and write", unit="B", minimum=512)
    size: int = option(
        2 << 30, "of all files together; what is written is zeros", unit="B", minimum=512
    )
    files: int = option(128, "over which the size is spread", minimum=1)
    threads: int = option(1, "each makes one request at a time", minimum=1, depth=True)
    io_mode: str = option(
        "sync",
        "async: libaio; its latencies are submission times, reported as event.*",
        choices=tuple(text.IO_MODES),
    )
    async_backlog: int = option(128, "async: queued requests per thread", minimum=1, depth=True)
    extra_flags: str = option(
        "none",
        "how files are opened; direct: bypass the page cache",
        choices=("none", "direct", "sync", "dsync"),
    )
    rw_ratio: float = option(1.5, "rndrw: reads for each write", minimum=0)
    fsync_freq: int = option(
        100, "fsync of every file after this many requests; 0: none", minimum=0
    )
    fsync_all: bool = option(False, "fsync after each write")
    fsync_end: bool = option(True, "fsync at the end")
    fsync_mode: str = option("fsync", "system call used for that", choices=("fsync", "fdatasync"))
    time_s: int = option(30, "time limit; 0: until the events are done", unit="s", minimum=0)
    events: int = option(0, "request limit; 0: until the time is over", minimum=0)
    report_interval: int = option(
        1, "interval of the figures over time; 0: none", unit="s", minimum=0
    )

    def __post_init__(self) -> None:
        if not (self.time_s or self.events):
            raise OptionsError("time_s, events: with both 0 it would never end")
        each, rest = divmod(self.size, self.files)
        if rest or each % self.block_size or not each:
            raise OptionsError(
                f"size: {self.size} B are not whole blocks of {self.block_size} B in each of {self.files} files"
            )
        if self.extra_flags == "direct" and self.block_size % 512:
            raise OptionsError("block_size: direct takes multiples of 512 B")
        if self.extra_flags == "direct" and self.io_mode == "mmap":
            raise OptionsError("io_mode: mmap goes through the page cache, which direct bypasses")


def build_job(options: Options, target: Target) -> Job:
    first = "new" if options.mode == "seqwr" else "prepare"
    arguments = (first, *_arguments(options))
    work = _scripts.directory_job(
        RUNS, target, arguments, expected_s=_expected_s(options), writes=_written_bytes(options)
    )
    return replace(work, lays_out=first == "prepare")


def build_precheck(options: Options, target: Target) -> Job | None:
    """sysbench checks nothing without doing it; what can be checked, Options does."""
    return None


def root_reason(options: Options, target: Target) -> str:
    return ""


def required_bytes(options: Options, target: Target) -> int:
    return options.size


def reads_existing(options: Options) -> bool:
    """Never what it has not written: it lays out its files."""
    return False


def outstanding_ios(options: Options) -> int | None:
    return options.threads * (options.async_backlog if options.io_mode == "async" else 1)


def access_pattern(options: Options) -> Access:
    mixed, writing = options.mode == "rndrw", options.mode not in READS
    flags = options.extra_flags
    return Access(
        reads=options.mode in READS or (mixed and options.rw_ratio > 0),
        writes=writing,
        random=options.mode.startswith("rnd"),
        block=options.block_size,
        direct=flags == "direct",
        synced=writing and (options.fsync_all or flags in ("sync", "dsync")),
        compressible=True,
        size=options.size,
        ramp_s=0.0,
        runtime_s=float(options.time_s) if options.time_s and not options.events else None,
        outstanding=outstanding_ios(options),
    )


def _arguments(options: Options) -> tuple[str, ...]:
    """The histogram has three decimals of a millisecond, the lines of the report have two."""
    arguments = {
        "threads": options.threads,
        "time": options.time_s,
        "events": options.events,
        "report-interval": options.report_interval,
        "percentile": 99,
        "histogram": "on",
        "file-test-mode": options.mode,
        "file-block-size": options.block_size,
        "file-total-size": options.size,
        "file-num": options.files,
        "file-io-mode": options.io_mode,
        "file-async-backlog": options.async_backlog,
        "file-rw-ratio": f"{options.rw_ratio:.6f}",
        "file-fsync-freq": options.fsync_freq,
        "file-fsync-all": "on" if options.fsync_all else "off",
        "file-fsync-end": "on" if options.fsync_end else "off",
        "file-fsync-mode": options.fsync_mode,
    }
    flags = () if options.extra_flags == "none" else (f"--file-extra-flags={options.extra_flags}",)
    return (*(f"--{name}={value}" for name, value in arguments.items()), *flags)


def _expected_s(options: Options) -> float:
    laid_out = 0.0 if options.mode == "seqwr" else options.size / EXPECTED_RATE
    event_seconds = options.events * EXPECTED_S
    limits = [limit for limit in (float(options.time_s), event_seconds) if limit]
    return laid_out + min(limits) + 10.0


def _written_bytes(options: Options) -> int | None:
    """The files, and as many blocks as there are events; without their number nobody can tell."""
    if options.mode in READS:
        return options.size
    return options.size + options.events * options.block_size if options.events else None


def parse(outputs: Mapping[str, bytes], options: Options) -> list[Metric]:
    """Parse the report. Raises ParseError."""
    return lines_of(
        "stdout", text.report_metrics(_parse_outputs(outputs, options), _requested_run(options))
    )


def parse_series(outputs: Mapping[str, bytes], options: Options) -> list[Series]:
    """The lines that it printed meanwhile."""
    return text.report_series(_parse_outputs(outputs, options), _requested_run(options))


def _requested_run(options: Options) -> text.RequestedRun:
    synced = options.fsync_all or options.fsync_freq > 0
    times = text.times_are(options.mode, options.io_mode, synced=synced)
    return text.RequestedRun(
        options.mode, options.io_mode, options.threads, options.block_size, times
    )


def _parse_outputs(outputs: Mapping[str, bytes], options: Options) -> text.Report:
    raw = outputs.get("stdout", b"")
    try:
        lines = raw.decode("utf-8").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as error:
        raise ParseError("not text", raw.count(b"\n", 0, error.start) + 1) from None
    return text.parse_report(lines, _requested_run(options))


def parse_windows(outputs: Mapping[str, bytes], options: Options, timing: Timing) -> list[Window]:
    """The time between the start of the threads and the first line of the report."""
    at = {mark.words: mark.at for mark in _scripts.read_marks(outputs, timing)}
    if not {"began", "ended"} <= at.keys():
        return []
    before = [Window("file layout", 0.0, at["began"], measured=False)]
    laid_out = before if options.mode != "seqwr" and at["began"] > 0 else []
    return [*laid_out, Window("measured", at["began"], at["ended"])]
