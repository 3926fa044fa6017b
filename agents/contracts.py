# SPDX-License-Identifier: Apache-2.0
"""Data types shared by drivers, executor and engine: plain and frozen. What a driver is: agents/drivers/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Protocol

from agents.errors import (  # noqa: F401  every driver names them by this module
    RETRYABLE,
    AgentError,
    GuardError,
    OptionsError,
    ParseError,
    PlanError,
    Reason,
)

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Unit(StrEnum):
    """Base units only; a page formats them (12.3 k IOPS, 1.2 ms)."""

    BYTES_PER_SECOND = "B/s"
    OPS_PER_SECOND = "op/s"
    SECONDS = "s"
    BYTES = "B"
    # also plain counts
    RATIO = "1"


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of a tool's output. `value` is None where the tool printed n/a; `note` says so."""

    # dotted, lower case: "read.iops", "write.clat.p99"
    name: str
    value: float | None
    unit: Unit
    labels: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    # line of the output, from 1; 0: no particular line
    line: int = field(default=0, compare=False)
    # the output that has this line: "stdout", "stderr", "fio.json"
    output: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Secret:
    """An argument that reaches the host in full and prints as ***."""

    value: str = field(repr=False)

    def __str__(self) -> str:
        return "***"


Argument = str | Secret


@dataclass(frozen=True, slots=True)
class Claim:
    """A device that a plan will destroy: the identity that it must have, and where it was seen."""

    # BlockDevice.identity: "wwn:…", "serial:…" or "weak:…"
    identity: str
    # "/dev/sdb", as it was when the plan was made
    node: str
    # bytes
    size: int
    model: str


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a plan. Everything destructive names what it destroys."""

    argv: tuple[Argument, ...]
    # description for the plan page and the log
    says: str
    destroys: tuple[Claim, ...] = ()
    undo: tuple[Step, ...] = ()
    stdin: str = ""
    root: bool = True
    timeout_s: float = 300.0
    # udev need not read the disks before the next Step that is not
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class ManualTask:
    """Task that only a person can do, and the check that shows it is done."""

    instruction: str
    # how the person undoes it once the disks are blank
    back: str = ""
    # a command that only reads
    check: Step | None = None
    # what its output must contain
    expect: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """A partition or other piece that a layer below made for a use of a layer above."""

    # "/dev/disk/by-partlabel/bl17-log-1"
    node: str
    # bytes
    size: int


@dataclass(frozen=True, slots=True)
class Target:
    """Input of a layer (what it stands on) and output of it (what it gives to the layer above).

    `devices` are the disks given to this layer by use ("data", "log", "cache"); `volume` is the block node and
    `mount` the directory made by the layer below. `stripe_unit` (bytes) times `stripe_count` is the full stripe.
    """

    # the layout's own prefix, "bl17": every VG, array, pool, label and mount point carries it
    name: str
    devices: Mapping[str, tuple[Claim, ...]] = field(default_factory=dict)
    # by use, like devices
    parts: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)
    volume: str = ""
    # the zpool made by the layer below
    pool: str = ""
    mount: str = ""
    size: int = 0
    stripe_unit: int = 0
    stripe_count: int = 0
    # parity disks of each full stripe, where the volumes of a pool take them into account
    parity: int = 0
    # facts worth recording: "sunit from the layer below: 4 KiB"
    notes: tuple[str, ...] = ()
    # what this layer's plan stored: see Plan
    kept: Mapping[str, str] = field(default_factory=dict)


def claims_of(target: Target) -> tuple[Claim, ...]:
    """All disks under a target, each once."""
    return tuple(
        dict.fromkeys(claim for device_claims in target.devices.values() for claim in device_claims)
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """A layer's steps, and the target that exists once they ran.

    `kept` holds what verify and teardown need but can no longer see, such as the previous scheduler. It is stored with
    the plan and comes back as `target.kept`.
    """

    steps: tuple[Step, ...]
    target: Target
    kept: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Use:
    """Disks of one use in a layer: their purpose, and the least and greatest number of them."""

    # "disks of the stripe"
    purpose: str
    # 0: may be left out
    least: int = 1
    most: int = 256


@dataclass(frozen=True, slots=True)
class Progress:
    """Background work of the kernel that a layer waits for: resync, reshape, flush."""

    # "resync of bl17"
    says: str
    # 0 to 1
    done: float
    eta_s: float | None = None


@dataclass(frozen=True, slots=True)
class Need:
    """A program that a driver uses on the host, and where it comes from."""

    program: str
    # OS family ("debian", "rhel", "freebsd") -> package
    packages: Mapping[str, str] = field(default_factory=dict)
    # empty: program --version
    version_argv: tuple[str, ...] = ()
    minimum: str = ""
    # directories beside PATH where it may be; shell patterns
    places: tuple[str, ...] = ()
    # OS family -> the program used there instead; "": one that is always present
    instead: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a tool, started detached on the host in its own spool directory (the cwd)."""

    argv: tuple[str, ...]
    # files it writes into the cwd, fetched beside stdout and stderr
    outputs: tuple[str, ...] = ()
    # files to write into the cwd before it starts
    inputs: Mapping[str, bytes] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    expected_s: float = 0.0
    timeout_s: float = 3600.0
    # bytes that it will write at most; None if unknown
    writes: int | None = None
    drop_caches: bool = True
    root: bool = True
    # True: started by root, but run as a user of its own that may open `place` and nothing else that is not everybody's
    unprivileged: bool = False
    # reason why it runs as root, for the record
    why_root: str = ""
    # path of the device or directory that it works on
    place: str = ""
    # the program that a person named; empty: argv[0]
    program: str = ""
    # bytes that it takes of the directory; 0: unknown
    room: int = 0
    # It lays out what it measures, and its script asks once for the page cache to be dropped in between
    lays_out: bool = False
    # what it leaves in the directory is for the next one there
    keeps: bool = False
    # Files below /proc/sys in which anything but 0 leaves what it does to root
    must_be_off: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Access:
    """Pattern of a tool's access to the storage. None: unknown for this tool with these options."""

    reads: bool | None = None
    writes: bool | None = None
    random: bool | None = None
    # B, of the smallest request
    block: int | None = None
    # past the page cache
    direct: bool | None = None
    # each write is made durable before the next
    synced: bool | None = None
    # its buffers are zeros or repeat themselves
    compressible: bool | None = None
    # B of the area that it accesses
    size: int | None = None
    # seconds before the measurement
    ramp_s: float | None = None
    runtime_s: float | None = None
    # I/Os, over all its workers
    outstanding: int | None = None


@dataclass(frozen=True, slots=True)
class SameWork:
    """Options of a tool that are equal in two results of the same work.

    Other options (duration, file size, direct or buffered) are shown where they differ.
    """

    # each must be known, unless it is swept
    options: tuple[str, ...] = ()
    # equal as they are
    more: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class Ran:
    """Result of a command on the host."""

    argv: tuple[Argument, ...]
    # 128 + n for signal n
    exit_code: int
    stdout: bytes
    stderr: bytes
    seconds: float = 0.0


class Shell(Protocol):
    """A way to run commands on one host. Raises AgentError with a connection Reason."""

    def run(
        self,
        argv: Sequence[Argument],
        *,
        stdin: bytes = b"",
        root: bool = False,
        timeout_s: float = 60.0,
    ) -> Ran: ...


@dataclass(frozen=True, slots=True)
class Watch:
    """A command that runs beside the tool for a sampler, in the spool directory; its output goes into the frames.

    A missing program leaves nothing in them. The command must end on SIGTERM, and one that is run each tick must be
    quick and never hang.
    """

    argv: tuple[str, ...]
    # True: started once; each of its lines comes as "NANOSECONDS LINE" of the monotonic clock, one frame later.
    # False: run at each tick; the frame holds its output unchanged.
    lasting: bool = False
    # The lines (a shell pattern) at which the clock is read; others get the time of the last such line. Reading it
    # costs nothing on Linux and three forks on FreeBSD: name the first line of a report where it has one.
    begins: str = "*"
    # OS families on which it is run; empty: on all
    families: tuple[str, ...] = ()
    # Run only where a file of any of these patterns is, when the job starts
    where: tuple[str, ...] = ()

    @property
    def file_key(self) -> str:
        """Its name in Frame.files."""
        return "|" + " ".join(self.argv)


@dataclass(frozen=True, slots=True)
class Frame:
    """One tick of the sampler: seconds of the host's monotonic clock, and the text of each file and Watch."""

    at: float
    # path, or Watch.key -> text
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Series:
    """One metric of one device over the run. `times` are seconds since the run's first frame, at interval ends."""

    # kernel name; "" for the whole host
    device: str
    # "read.iops", "util", "cpu.user"
    metric: str
    unit: Unit
    times: tuple[float, ...]
    # NaN where unknown (hot-plugged, counter reset)
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Histogram:
    """Histogram of I/O times: `counts[i]` of them lie from `lows[i]` (s) up to, but below, `highs[i]` (s).

    Bins ascend and none is empty: a gap between two bins holds no I/O.
    """

    # the name of a Metric without its statistic: "read.clat", "sync.lat"
    name: str
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    counts: tuple[int, ...]
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Timing:
    """Start and end of a job by its host's clocks, to which a tool relates its own times."""

    # seconds of the host's monotonic clock, as Frame.at
    started: float
    ended: float
    # the start by the wall clock; None where that was set meanwhile
    epoch: float | None


@dataclass(frozen=True, slots=True)
class Window:
    """A named span of a run. A tool reports it in seconds since its job began; it is stored on the clock of Series."""

    # "measured", "ramp", "one.fdatasync"
    name: str
    start: float
    end: float
    # False: before the measurement (file layout, ramp); no mean includes it
    measured: bool = True
