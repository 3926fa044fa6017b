# SPDX-License-Identifier: Apache-2.0
"""dd: one stream of blocks, as the articles use it; `dd_output` checks what it prints.

On a filesystem `dd.sh` writes (or lays out, then reads) one file of ours and removes it; of a raw volume it first makes
sure that it is a device.

Flags differ: GNU has all of FLAGS since 8.11; FreeBSD has iflag and oflag since 12.2 (direct since 13; fullblock,
fsync, sync), BusyBox direct and fullblock alone, and older ones none. So the host's own dd is asked beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from agents.outputs import dd_output
from agents.tools import _scripts
from agents.tools._scripts import lines_of

LABEL = "dd"
NEEDS = (Need("dd", {"debian": "coreutils", "rhel": "coreutils"}),)
FLAGS = frozenset(
    {"direct", "dsync", "fsync", "fullblock", "noatime", "nocache", "nofollow", "nonblock", "sync"}
)
CONVERSIONS = frozenset({"fdatasync", "fsync", "nocreat", "notrunc", "sparse"})
SOURCES = {"zero": "/dev/zero", "random": "/dev/urandom"}
# of oflag: each block before the next
SYNCED = frozenset({"sync", "dsync", "fsync"})
IO_FIELDS = {
    "reads": ("direction",),
    "writes": ("direction",),
    "random": (),
    "block": ("direction", "block_size"),
    "direct": ("direction", "iflag", "oflag"),
    "synced": ("direction", "oflag"),
    "compressible": ("direction", "source"),
    "size": ("block_size", "count"),
    "ramp_s": (),
    "outstanding": (),
}
FILE = "benchlab.dd"
# a slow disk's: B/s, and seconds for one synced block
EXPECTED_RATE, EXPECTED_SYNC_S = 100e6, 0.01

SCRIPT = _scripts.tool_script("dd.sh", _scripts.FORGET)

FLAGS_SCRIPT = _scripts.HOSTSIDE.joinpath("dd_flags.sh").read_bytes()

_FLAGS = r"(?:iflag|oflag|conv)=[a-z,]+"
SCRIPTS = {
    SCRIPT: (
        "write|read|device",
        PATH,
        r"\d+",
        rf"(?:if|of)={PATH}|(?:bs|ibs|obs|count)=\d+|{_FLAGS}",
    ),
    FLAGS_SCRIPT: (_FLAGS,),
}


@dataclass(frozen=True, slots=True)
class Options:
    direction: str = option("write", "write or read", choices=("write", "read"))
    block_size: int = option(1 << 20, "bs; 0: use ibs and obs", unit="B", minimum=0)
    ibs: int = option(0, "block read; 0: 512, dd's default", unit="B", minimum=0)
    obs: int = option(0, "block written; 0: 512, dd's default", unit="B", minimum=0)
    count: int = option(1024, "blocks to read", minimum=1)
    source: str = option(
        "zero",
        "what is written; a layer that compresses swallows zeros, and random data comes no faster "
        "than the kernel makes it (some hundred MB/s)",
        choices=tuple(SOURCES),
    )
    iflag: tuple[str, ...] = option((), "reading: " + ", ".join(sorted(FLAGS)))
    oflag: tuple[str, ...] = option((), "writing: " + ", ".join(sorted(FLAGS)))
    conv: tuple[str, ...] = option((), ", ".join(sorted(CONVERSIONS)))

    def __post_init__(self) -> None:
        if self.block_size and (self.ibs or self.obs):
            raise OptionsError("block_size: bs overrides ibs and obs; set it to 0 to use them")
        for name, allowed in (("iflag", FLAGS), ("oflag", FLAGS), ("conv", CONVERSIONS)):
            if unknown := set(getattr(self, name)) - allowed:
                raise OptionsError(f"{name}: {', '.join(sorted(unknown))}: unknown or not allowed")


def build_job(options: Options, target: Target) -> Job:
    if not (target.mount or target.volume):
        raise OptionsError(f"target {target.name!r} has neither a volume nor a mount point for dd")
    path = f"{target.mount.rstrip('/')}/{FILE}" if target.mount else target.volume
    moved = (options.block_size or options.ibs or 512) * options.count
    arguments = _arguments(options, path)
    mode = options.direction if target.mount else "device"
    expected = _expected_s(options, moved, laid_out=bool(target.mount))
    return Job(
        argv=("sh", "dd.sh", mode, path, str(moved), *arguments),
        outputs=(_scripts.MARKS,),
        inputs={"dd.sh": SCRIPT},
        # else a locale may print a decimal comma, or words we cannot read
        env={"LC_ALL": "C"},
        expected_s=expected,
        timeout_s=expected * 10 + 600,
        writes=_written_bytes(options, target, moved),
        lays_out=bool(target.mount) and options.direction == "read",
    )


def build_precheck(options: Options, target: Target) -> Job | None:
    """A check that this host's dd knows each flag and prints its time. It touches no data."""
    return Job(
        argv=("sh", "ddflags.sh", *_flags(options)),
        inputs={"ddflags.sh": FLAGS_SCRIPT},
        env={"LC_ALL": "C"},
        expected_s=1.0,
        timeout_s=30.0,
        writes=0,
        drop_caches=False,
    )


def root_reason(options: Options, target: Target) -> str:
    """O_NOATIME is for a file's owner, and /dev/zero is root's."""
    if options.direction == "write" and "noatime" in options.iflag:
        return "only root may open dd's source with noatime"
    return ""


def required_bytes(options: Options, target: Target) -> int:
    return (options.block_size or options.ibs or 512) * options.count


def reads_existing(options: Options) -> bool:
    return options.direction == "read"


def outstanding_ios(options: Options) -> int | None:
    return 1


def access_pattern(options: Options) -> Access:
    """One that reads a file has laid it out with random bytes."""
    writes = options.direction == "write"
    flags = options.oflag if writes else options.iflag
    return Access(
        reads=not writes,
        writes=writes,
        random=False,
        block=options.block_size or (options.obs if writes else options.ibs) or 512,
        direct="direct" in flags,
        synced=writes and bool(SYNCED & set(flags)),
        compressible=writes and options.source == "zero",
        size=required_bytes(options, Target("")),
        ramp_s=0.0,
        outstanding=1,
    )


def same_work(options: Mapping[str, object]) -> SameWork:
    flags = (options.get(name) for name in ("iflag", "oflag", "conv"))
    sets = (tuple(sorted(words)) if isinstance(words, list | tuple) else () for words in flags)
    return SameWork(("direction", "block_size"), tuple(sets))


def uses_monotonic_clock(options: Options) -> bool:
    """GNU's, BusyBox's and FreeBSD's all time by the monotonic clock."""
    return True


def _arguments(options: Options, path: str) -> tuple[str, ...]:
    reads = options.direction == "read"
    ends = (path, "/dev/null") if reads else (SOURCES[options.source], path)
    arguments = [f"if={ends[0]}", f"of={ends[1]}"]
    sizes = {"bs": options.block_size, "ibs": options.ibs, "obs": options.obs}
    arguments += [f"{key}={value}" for key, value in sizes.items() if value]
    arguments.append(f"count={options.count}")
    return (*arguments, *_flags(options))


def _flags(options: Options) -> tuple[str, ...]:
    flags = {"iflag": options.iflag, "oflag": options.oflag, "conv": options.conv}
    return tuple(f"{key}={','.join(names)}" for key, names in flags.items() if names)


def _expected_s(options: Options, moved: int, laid_out: bool) -> float:
    synced = SYNCED & set(options.oflag)
    blocks = moved / (options.block_size or options.obs or 512)
    layout = moved / EXPECTED_RATE if laid_out and options.direction == "read" else 0.0
    return layout + moved / EXPECTED_RATE + (blocks * EXPECTED_SYNC_S if synced else 0.0) + 1.0


def _written_bytes(options: Options, target: Target, moved: int) -> int:
    if options.direction == "write":
        return moved
    return -(-moved // (1 << 20)) << 20 if target.mount else 0


def parse(outputs: Mapping[str, bytes], options: Options) -> list[Metric]:
    """GNU, BusyBox, FreeBSD. dd prints to stderr; pasted results come as stdout."""
    printed = outputs.get("stderr", b"")
    name = "stdout" if outputs.get("stdout") and b" records " not in printed else "stderr"
    raw = outputs.get(name, b"")
    try:
        lines = [dd_output.last_shown(line) for line in raw.decode("utf-8").split("\n")]
    except UnicodeDecodeError as error:
        raise ParseError("not text", raw.count(b"\n", 0, error.start) + 1, "") from None
    if not any(lines):
        raise ParseError("empty: dd printed nothing")
    return lines_of(name, dd_output.parse_run(lines))


def parse_windows(outputs: Mapping[str, bytes], options: Options, timing: Timing) -> list[Window]:
    """The time of dd itself: a file is laid out before it and removed after it."""
    at = {mark.words: mark.at for mark in _scripts.read_marks(outputs, timing)}
    if not {"dd", "end"} <= at.keys():
        return []
    laid_out = [Window("file layout", 0.0, at["dd"], measured=False)]
    return [
        *(laid_out if options.direction == "read" and at["dd"] > 0 else []),
        Window("measured", at["dd"], at["end"]),
    ]
