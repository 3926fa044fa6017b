# SPDX-License-Identifier: Apache-2.0
"""IOmeter's dynamo: its own access specifications at any number of outstanding I/Os, without IOmeter and Windows.

The console (agents/dynamo) goes to the host as one file and runs there beside dynamo, which must be there already: it
is not ours to ship. On a filesystem each target is a directory of ours with dynamo's file in it; a raw volume is used
as it is. A sweep over `outstanding_ios` is what IOmeter calls cycling.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from agents.contracts import (
    Access,
    Job,
    Metric,
    Need,
    OptionsError,
    ParseError,
    SameWork,
    Series,
    Target,
    Timing,
    Unit,
    Window,
)
from agents.dynamo import account, bundle, crosscheck, overtime, specs, summary, transcript
from agents.dynamo.account import Measured
from agents.dynamo.messages import AccessLine, AccessSpec
from agents.dynamo.transcript import STARTED
from agents.dynamo.wire import DynamoError
from agents.jobs.job import after_ramp
from agents.layers.reported import NOTE
from agents.options import option

LABEL = "IOmeter (dynamo)"
NEEDS = (
    # runs the console beside dynamo; nothing is installed into it
    Need("python3", {"debian": "python3", "rhel": "python3"}, minimum="3.6"),
)
HEX = re.compile("[0-9a-f]{64}")
MESSAGES, CONFIG = "messages.bin", "config.json"
OUTPUTS = (MESSAGES, "result.json", "live.jsonl", "dynamo.log")
# read by the sampler too: what happens right now
LIVE_FILES = ("work/now.json",)
DEFAULT = "dynamo"
PROGRAM_OPTION = "binary"
# what Options.binary begins with where BenchLab sends it along
STORED = "sha256:"
# its name in the job's directory then
UPLOADED_NAME = "dynamo"
# B/s, a slow disk's: how fast we expect dynamo to lay a file out
LAYOUT_RATE = 50e6
# B/s: no disk is slower; who is, hangs
SLOWEST_LAYOUT = 5e6
# dynamo looks so often whether its preparation is done
PREPARING_GRID_S = 3.0
IO_FIELDS = {
    "reads": ("read_percent",),
    "writes": ("read_percent",),
    "random": ("random_percent",),
    "block": ("block_size",),
    "direct": (),
    "synced": (),
    "compressible": ("data_pattern",),
    "size": ("size", "targets", "workers", "own_targets"),
    "ramp_s": ("ramp_s",),
    "runtime_s": ("runtime_s",),
    "outstanding": ("outstanding_ios", "workers", "targets"),
}
# between two updates: each second they cost one CPU up to half of its IOPS, each 3 s none was lost
POLL_S = 3.0
# of a run; each is kept
MOST_UPDATES = 3600


@dataclass(frozen=True, slots=True)
class Options:
    block_size: int = option(8192, "size of one I/O", unit="B", minimum=512)
    read_percent: int = option(50, "share of reads", unit="%", minimum=0)
    random_percent: int = option(
        50, "share of random I/Os; the others are sequential", unit="%", minimum=0
    )
    access: tuple[str, ...] = option(
        (),
        "lines of an access specification, as in an .icf file, instead of the three above: "
        "size,% of size,% reads,% random,delay,burst,align,reply; the shares add up to 100, delay and reply are 0",
    )
    outstanding_ios: int = option(1, "I/Os in flight per worker and target", minimum=1, depth=True)
    workers: int = option(1, "threads that do I/O", minimum=1, depth=True)
    targets: int = option(1, "files, or slices of a raw volume", minimum=1)
    own_targets: bool = option(
        False, "this many for each worker, instead of all shared by all workers"
    )
    size: int = option(
        1 << 30,
        "bytes of each target; 0: the whole volume (not on a filesystem)",
        unit="B",
        minimum=0,
    )
    ramp_s: int = option(30, "warm-up, not measured", unit="s", minimum=0)
    runtime_s: int = option(60, "measured time", unit="s", minimum=1)
    data_pattern: int = option(
        1,
        "what is written: 0 repeats one random byte in each I/O, which compresses to almost nothing; "
        "1 is random data. IOmeter's full random (2) is broken in dynamo on Linux",
        choices=(0, 1),
    )
    seed: int = option(
        1, "of the random offsets; runs with the same seed use the same offsets", minimum=0
    )
    keep_files: bool = option(
        True, "keep the files, so that the next run on this layout does not create them again"
    )
    binary: str = option(
        DEFAULT,
        "dynamo 1.1.0 on the host: its path, or dynamo if it is on the PATH; or sha256:… of one that was "
        "uploaded (page IOmeter's dynamo), which is copied to the host",
    )

    def __post_init__(self) -> None:
        for name in ("read_percent", "random_percent"):
            if getattr(self, name) > 100:
                raise OptionsError(f"{name}: {getattr(self, name)} is above 100 %")
        if not 1 <= self.workers <= specs.MAX_WORKERS:
            raise OptionsError(f"workers: {self.workers} is above {specs.MAX_WORKERS}")
        if self.size % 4096:
            raise OptionsError(f"size: {self.size} is not a multiple of 4096")
        if self.data_pattern == 2:
            raise OptionsError(f"data_pattern: {specs.BROKEN_PATTERN}")
        absolute = self.binary.startswith("/") and self.binary.isprintable()
        if not (absolute or self.binary == DEFAULT or self.binary.startswith(STORED)):
            raise OptionsError(
                f"binary: {self.binary!r} is neither {DEFAULT}, to be found on the PATH, nor an absolute path"
            )
        if self.binary.startswith(STORED) and not HEX.fullmatch(stored_program(self)):
            raise OptionsError(f"binary: {STORED} is followed by 64 letters and digits")
        try:
            specs.check_access(AccessSpec("", access_lines(self)), area=self.size)
        except DynamoError as error:
            raise OptionsError(str(error)) from None


def required_programs(options: Options) -> tuple[Need, ...]:
    """None: where there is no Python, the console is played from afar (agents/dynamo/tunnel.py)."""
    return ()


def named_programs(options: Options) -> tuple[str, ...]:
    """One that was uploaded is an owner's already."""
    return () if stored_program(options) or options.binary == DEFAULT else (options.binary,)


def stored_program(options: Options) -> str:
    """The SHA-256 of the program that must be sent along; "" where it is on the host."""
    return options.binary.removeprefix(STORED) if options.binary.startswith(STORED) else ""


def build_job(options: Options, target: Target) -> Job:
    seconds = _expected_seconds(options, laid_out=bool(target.mount))
    if NOTE in target.notes:
        # Nothing is sent to a machine that only dynamo reaches: it waits there for its console.
        return Job(
            ("dynamo", target.mount),
            expected_s=seconds,
            timeout_s=_limit(options),
            writes=_written_bytes(options, target),
            root=False,
            drop_caches=False,
        )
    return Job(
        argv=("python3", bundle.NAME, "run", CONFIG),
        outputs=OUTPUTS,
        inputs={bundle.NAME: bundle.build_bundle(), CONFIG: _config(options, target)},
        env={"LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1"},
        expected_s=seconds,
        timeout_s=_limit(options),
        writes=_written_bytes(options, target),
    )


def build_precheck(options: Options, target: Target) -> Job | None:
    """The console looks at dynamo, its libraries, the free space and the rest, and starts nothing."""
    return replace(
        build_job(options, target),
        argv=("python3", bundle.NAME, "check", CONFIG),
        outputs=(),
        expected_s=2.0,
        timeout_s=60.0,
        writes=0,
        drop_caches=False,
    )


def outstanding_ios(options: Options) -> int | None:
    return options.outstanding_ios * options.workers * options.targets


def access_pattern(options: Options) -> Access:
    """dynamo opens everything past the page cache, and syncs nothing."""
    lines = access_lines(options)
    shares = {line.random for line in lines}
    single_target = options.targets == 1 and not (options.own_targets and options.workers > 1)
    return Access(
        reads=any(line.reads > 0 for line in lines),
        writes=any(line.reads < 100 for line in lines),
        random={0: False, 100: True}.get(shares.pop()) if len(shares) == 1 else None,
        block=min(line.size for line in lines),
        direct=True,
        synced=False,
        compressible=options.data_pattern == 0,
        size=options.size or None if single_target else None,
        ramp_s=float(options.ramp_s),
        runtime_s=float(options.runtime_s),
        outstanding=outstanding_ios(options),
    )


def same_work(options: Mapping[str, object]) -> SameWork | None:
    """None: lines of access are nobody's to compare."""
    if options.get("access"):
        return None
    return SameWork(("block_size", "random_percent", "read_percent"))


def uses_monotonic_clock(options: Options) -> bool:
    """It counts ticks of the CPU, of which the rate is measured by the monotonic clock."""
    return True


def canonical_names(options: Mapping[str, object]) -> dict[str, object]:
    """Others tell the share of writes."""
    writes = options.get("write_percent")
    if not isinstance(writes, int | float | str):
        return dict(options)
    rest = {name: value for name, value in options.items() if name != "write_percent"}
    return rest | {"read_percent": 100 - int(writes)}


def parse(outputs: Mapping[str, bytes], options: Options) -> list[Metric]:
    """Figures of the messages that dynamo sent, not of the summary that the host made."""
    try:
        rows = summary.summary_rows(_test(outputs))
    except DynamoError as error:
        raise ParseError(str(error) + _complaint(outputs)) from None
    note = crosscheck.kernel_count_note({row.name: row.value for row in rows if not row.labels})
    # the note goes wherever the figure does
    if note:
        rows[0] = rows[0]._replace(note="; ".join(filter(None, (rows[0].note, note))))
    return [Metric(row.name, row.value, Unit(row.unit), dict(row.labels), row.note) for row in rows]


def parse_series(outputs: Mapping[str, bytes], options: Options) -> list[Series]:
    """Figures of dynamo between one update and the next; times are seconds since recording began. Raises ParseError."""
    try:
        return overtime.update_series(_test(outputs))
    except DynamoError as error:
        raise ParseError(str(error)) from None


def parse_windows(outputs: Mapping[str, bytes], options: Options, timing: Timing) -> list[Window]:
    """The windows; [] if the console ran remotely, by another machine's clock."""
    try:
        test = _test(outputs)
    except DynamoError as error:
        raise ParseError(str(error)) from None
    began = test.notes.get(STARTED)
    if not isinstance(began, int | float) or not test.ended > test.began:
        return []
    late = began - timing.started
    return after_ramp(test.began + late, test.ended + late, options.ramp_s)


def _test(outputs: Mapping[str, bytes]) -> Measured:
    raw = outputs.get(MESSAGES) or outputs.get("stdout", b"")
    if not raw:
        raise DynamoError("result", "empty: the console wrote no messages")
    tests = account.reconstruct_tests(transcript.parse_transcript(raw))
    if len(tests) != 1:
        raise DynamoError("result", f"{len(tests)} tests in the session, instead of one")
    return tests[0]


def _complaint(outputs: Mapping[str, bytes]) -> str:
    lines = outputs.get("stderr", b"").decode("utf-8", "replace").strip().splitlines()
    return f"; output: {lines[-1][:300]}" if lines else ""


def access_lines(options: Options) -> tuple[AccessLine, ...]:
    if options.access:
        return tuple(specs.parse_access_line(line) for line in options.access)
    size = options.block_size
    return (
        AccessLine(
            size, 100, options.read_percent, options.random_percent, 0, 1, specs.default_align(size)
        ),
    )


def _config(options: Options, target: Target) -> bytes:
    """Bytes of the JSON that dynamo's console reads: the fields of areas.Wish. Raises OptionsError."""
    if not (target.mount or target.volume):
        raise OptionsError(f"target {target.name!r} has neither a volume nor a mount point")
    if target.mount and not options.size:
        raise OptionsError("size: 0 means a whole volume, but the target is a filesystem")
    _check_paths(options, target)
    wish = {
        "binary": f"./{UPLOADED_NAME}" if stored_program(options) else options.binary,
        "access": [specs.format_access_line(line) for line in access_lines(options)],
        "mount": target.mount,
        "volume": "" if target.mount else target.volume,
        "workers": options.workers,
        "targets": options.targets,
        "own": options.own_targets,
        "outstanding": options.outstanding_ios,
        "size": options.size,
        "pattern": options.data_pattern,
        "ramp": float(options.ramp_s),
        "duration": float(options.runtime_s),
        "poll": poll_s(options),
        "seed": options.seed,
        "keep": options.keep_files,
    }
    return json.dumps(wish, indent=1).encode() + b"\n"


def _check_paths(options: Options, target: Target) -> None:
    count = options.targets * (options.workers if options.own_targets else 1)
    try:
        if target.mount:
            specs.target_name(f"{target.mount.rstrip('/')}/iometer{count}", raw=False)
        else:
            specs.target_name(target.volume, raw=True)
    except DynamoError as error:
        raise OptionsError(str(error)) from None


def poll_s(options: Options) -> float:
    """Seldom, for each costs the host I/Os; of a short run three times, to see how fast dynamo's clock ticks."""
    return min(max(POLL_S, options.runtime_s / MOST_UPDATES), options.runtime_s / 3)


def required_bytes(options: Options, target: Target) -> int:
    return _total_file_bytes(options) if target.mount else options.size


def reads_existing(options: Options) -> bool:
    return any(line.reads > 0 for line in access_lines(options))


def _total_file_bytes(options: Options) -> int:
    """Bytes of all files."""
    return options.size * options.targets * (options.workers if options.own_targets else 1)


def _expected_seconds(options: Options, laid_out: bool) -> float:
    laying = _total_file_bytes(options) / LAYOUT_RATE + PREPARING_GRID_S if laid_out else 0.0
    return laying + options.ramp_s + options.runtime_s + 5.0


def _limit(options: Options) -> float:
    """Seconds after which something hangs: never less than the slowest preparation and the test take."""
    return (
        _total_file_bytes(options) / SLOWEST_LAYOUT
        + 3 * (options.ramp_s + options.runtime_s)
        + 1800
    )


def _written_bytes(options: Options, target: Target) -> int | None:
    """Upper limit; None where the runtime decides how much is written."""
    if any(line.reads < 100 for line in access_lines(options)):
        return None
    return _total_file_bytes(options) if target.mount else 0
