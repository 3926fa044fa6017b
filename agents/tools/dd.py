"""dd: one stream of blocks, as the articles use it; what it prints is checked and computed again.

On a filesystem `dd.sh` writes (or lays out, then reads) one file of ours and removes it; of a raw volume it first makes
sure that it is a device.
Bandwidth is bytes over seconds, since dd's own rate is rounded to two or three digits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from agents.contracts import Job, Metric, Need, OptionsError, ParseError, Target, Unit

LABEL = "dd"
NEEDS = (Need("dd", {"debian": "coreutils", "rhel": "coreutils"}),)
FLAGS = frozenset(
    {"direct", "dsync", "fullblock", "noatime", "nocache", "nofollow", "nonblock", "sync"}
)
CONVERSIONS = frozenset({"fdatasync", "fsync", "nocreat", "notrunc", "sparse"})
SOURCES = {"zero": "/dev/zero", "random": "/dev/urandom"}
FILE = "benchlab.dd"
EXPECTED_RATE, EXPECTED_SYNC_S = 100e6, 0.01  # a slow disk's: B/s, and seconds for one synced block

SCRIPT = rb"""#!/bin/sh
# sh dd.sh write|read|device PATH BYTES DD-ARGUMENT...   Runs dd; it prints to stderr. A file is removed afterwards.
mode=$1 file=$2 bytes=$3
shift 3
if [ "$mode" = device ]; then
    # A node that went away must not become a file that fills /dev.
    [ -b "$file" ] || [ -c "$file" ] || {
        echo "dd.sh: $file is no device" >&2
        exit 1
    }
    exec dd "$@"
fi
trap 'rm -f -- "$file"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
if [ "$mode" = read ]; then
    # Random data, so that no layer below can compress it or keep only a hole.
    { dd if=/dev/urandom bs=1048576 count=$(((bytes + 1048575) / 1048576)) >"$file"; } 2>layout.txt || {
        sed 's/^/layout: /' layout.txt >&2
        exit 1
    }
    sync
    if [ -w /proc/sys/vm/drop_caches ]; then echo 3 >/proc/sys/vm/drop_caches; fi
fi
dd "$@"
"""


@dataclass(frozen=True, slots=True)
class Options:
    direction: str = field(
        default="write", metadata={"help": "write or read", "choices": ("write", "read")}
    )
    block_size: int = field(
        default=1 << 20,
        metadata={"help": "bs; 0: use ibs and obs", "unit": "B", "minimum": 0},
    )
    ibs: int = field(
        default=0,
        metadata={"help": "block read; 0: 512, dd's default", "unit": "B", "minimum": 0},
    )
    obs: int = field(
        default=0,
        metadata={"help": "block written; 0: 512, dd's default", "unit": "B", "minimum": 0},
    )
    count: int = field(default=1024, metadata={"help": "blocks to read", "minimum": 1})
    source: str = field(
        default="zero",
        metadata={
            "help": "what is written; a layer that compresses swallows zeros, and random data comes no faster "
            "than the kernel makes it (some hundred MB/s)",
            "choices": tuple(SOURCES),
        },
    )
    iflag: tuple[str, ...] = field(
        default=(), metadata={"help": "reading: " + ", ".join(sorted(FLAGS))}
    )
    oflag: tuple[str, ...] = field(
        default=(), metadata={"help": "writing: " + ", ".join(sorted(FLAGS))}
    )
    conv: tuple[str, ...] = field(default=(), metadata={"help": ", ".join(sorted(CONVERSIONS))})

    def __post_init__(self) -> None:
        if self.block_size and (self.ibs or self.obs):
            raise OptionsError("block_size: bs wins over ibs and obs; set it to 0 to use them")
        for name, known in (("iflag", FLAGS), ("oflag", FLAGS), ("conv", CONVERSIONS)):
            if unknown := set(getattr(self, name)) - known:
                raise OptionsError(f"{name}: {', '.join(sorted(unknown))}: unknown or not for us")


def job(options: Options, target: Target) -> Job:
    if not (target.mount or target.volume):
        raise OptionsError(f"target {target.name!r} has neither a volume nor a mount point for dd")
    path = f"{target.mount.rstrip('/')}/{FILE}" if target.mount else target.volume
    moved = (options.block_size or options.ibs or 512) * options.count
    arguments = _arguments(options, path)
    mode = options.direction if target.mount else "device"
    expected = _expected_s(options, moved, laid_out=bool(target.mount))
    return Job(
        argv=("sh", "dd.sh", mode, path, str(moved), *arguments),
        inputs={"dd.sh": SCRIPT},
        env={"LC_ALL": "C"},  # else a locale may print a decimal comma, or words we cannot read
        expected_s=expected,
        timeout_s=expected * 10 + 600,
        writes=_writes(options, target, moved),
    )


def precheck(options: Options, target: Target) -> Job | None:
    """dd checks nothing without doing it; what can be checked, Options does."""
    return None


def outstanding(options: Options) -> int | None:
    return 1


def _arguments(options: Options, path: str) -> tuple[str, ...]:
    reads = options.direction == "read"
    ends = (path, "/dev/null") if reads else (SOURCES[options.source], path)
    found = [f"if={ends[0]}", f"of={ends[1]}"]
    sizes = {"bs": options.block_size, "ibs": options.ibs, "obs": options.obs}
    found += [f"{key}={value}" for key, value in sizes.items() if value]
    found.append(f"count={options.count}")
    flags = {"iflag": options.iflag, "oflag": options.oflag, "conv": options.conv}
    return (*found, *(f"{key}={','.join(names)}" for key, names in flags.items() if names))


def _expected_s(options: Options, moved: int, laid_out: bool) -> float:
    synced = {"sync", "dsync"} & set(options.oflag)
    blocks = moved / (options.block_size or options.obs or 512)
    layout = moved / EXPECTED_RATE if laid_out and options.direction == "read" else 0.0
    return layout + moved / EXPECTED_RATE + (blocks * EXPECTED_SYNC_S if synced else 0.0) + 1.0


def _writes(options: Options, target: Target, moved: int) -> int:
    if options.direction == "write":
        return moved
    return -(-moved // (1 << 20)) << 20 if target.mount else 0


RECORDS = re.compile(r"^(\d{1,18})\+(\d{1,18}) records (in|out)$")
SUMMARY = re.compile(
    r"^(?P<bytes>\d{1,20}) bytes(?: \([^()]*\))? (?:copied,|transferred in) "
    r"(?P<s>\d+(?:[.,]\d+)?(?:e[+-]?\d{1,3})?) ?(?:s|secs?|seconds?)(?:, | \()"
    r"(?:(?P<rate>\d+(?:[.,]\d+)?) ?(?P<unit>[kKMGTP]?)(?:i?B|bytes)/s(?:ec)?|Infinity B/s)\)?$"
)
MULTIPLE = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


def parse(outputs: Mapping[str, bytes], options: Options) -> list[Metric]:
    """GNU 5 to 9, BusyBox, BSD and macOS. dd prints to stderr; pasted results come as stdout."""
    name = "stderr" if b" records " in outputs.get("stderr", b"") else "stdout"
    raw = outputs.get(name) or outputs.get("stderr", b"")
    try:
        lines = [line.strip() for line in raw.decode("utf-8").replace("\r", "\n").split("\n")]
    except UnicodeDecodeError as error:
        raise ParseError("not text", raw.count(b"\n", 0, error.start) + 1, "") from None
    if not any(lines):
        raise ParseError("empty: dd printed nothing")
    read, written = _records(lines, "in"), _records(lines, "out")
    moved, seconds, note = _summary(lines)
    failed = [line for line in lines if line.startswith("dd: ") and "warning" not in line]
    return [
        Metric("bytes", moved, Unit.BYTES),
        Metric("runtime", seconds, Unit.SECONDS),
        Metric("bandwidth", _rate(moved, seconds), Unit.BYTES_PER_SECOND, note=note),
        Metric("iops", _rate(sum(written), seconds), Unit.OPS_PER_SECOND, note=note),
        Metric("records.in", float(sum(read)), Unit.RATIO, note=_partial(read)),
        Metric("records.out", float(sum(written)), Unit.RATIO, note=_partial(written)),
        Metric("errors", float(len(failed)), Unit.RATIO, note="; ".join(failed)[:500]),
    ]


def _records(lines: list[str], way: str) -> tuple[int, int]:
    """Full and partial blocks. More than one such line: several runs, or dd was asked for its progress."""
    found = [match for line in lines if (match := RECORDS.match(line)) and match[3] == way]
    if not found:
        number, said = next(((n, line) for n, line in enumerate(lines, 1) if line), (0, ""))
        raise ParseError(
            f"no 'records {way}' line, so dd did not finish (or not in English)", number, said
        )
    if len(found) > 1:
        raise ParseError(f"'records {way}' is there {len(found)} times: several runs in one")
    return int(found[0][1]), int(found[0][2])


def _summary(lines: list[str]) -> tuple[float, float, str]:
    """Bytes, seconds, note. The last line counts: status=progress prints some before."""
    out = next(i for i, line in enumerate(lines) if RECORDS.match(line) and line.endswith("out"))
    for number, line in enumerate(lines[out + 1 :], out + 2):
        if found := SUMMARY.match(line):
            return _checked(found, number, line)
    raise ParseError(
        "no summary after 'records out': truncated, or status=noxfer", out + 1, lines[out]
    )


def _checked(found: re.Match[str], number: int, line: str) -> tuple[float, float, str]:
    moved, seconds = float(found["bytes"]), float(found["s"].replace(",", "."))
    if seconds > 1e9:
        raise ParseError("dd never ran so long", number, line)
    if not seconds:
        return moved, seconds, "too short to be timed"
    if found["rate"]:
        printed = float(found["rate"].replace(",", ".")) * MULTIPLE[found["unit"]]
        # BusyBox means 1024 by K; rounding to one digit may cost 5 %
        if not 0.8 * printed - 1 <= moved / seconds <= 1.25 * printed + 1:
            raise ParseError("bytes, seconds and rate do not agree", number, line)
    return moved, seconds, ""


def _rate(amount: float, seconds: float) -> float | None:
    return amount / seconds if seconds else None


def _partial(records: tuple[int, int]) -> str:
    return f"{records[0]} full, {records[1]} partial" if records[1] else ""
