"""What drivers, the executor and the engine agree on: plain frozen data. What a driver is: agents/protocols.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Protocol

from agents.plaintext import visible

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Unit(StrEnum):
    """Base units only; a page formats them (12.3 k IOPS, 1.2 ms)."""

    BYTES_PER_SECOND = "B/s"
    OPS_PER_SECOND = "op/s"
    SECONDS = "s"
    BYTES = "B"
    RATIO = "1"  # also plain counts


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of a tool's output. `value` is None where the tool printed n/a; `note` says so."""

    name: str  # dotted, lower case: "read.iops", "write.clat.p99"
    value: float | None
    unit: Unit
    labels: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    line: int = field(
        default=0, compare=False
    )  # where the output says so, from 1; 0: nowhere in particular


@dataclass(frozen=True, slots=True)
class Secret:
    """An argument that reaches the host in full and prints as ***."""

    value: str = field(repr=False)

    def __str__(self) -> str:
        return "***"


Argument = str | Secret


@dataclass(frozen=True, slots=True)
class Claim:
    """A device that a plan wants to destroy: who it must be, and where it was seen."""

    identity: str  # BlockDevice.identity: "wwn:…", "serial:…" or "weak:…"
    node: str  # "/dev/sdb", as it was when the plan was made
    size: int  # bytes
    model: str


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a plan. Everything destructive names what it destroys."""

    argv: tuple[Argument, ...]
    says: str  # what it does, for the plan page and the log
    destroys: tuple[Claim, ...] = ()
    undo: tuple[Step, ...] = ()
    stdin: str = ""
    root: bool = True
    timeout_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Ask:
    """What only a person can do, and how it is seen to be done."""

    says: str
    back: str = ""  # how the person takes it back once the disks are blank
    check: Step | None = None  # only looks
    expect: str = ""  # what its output must contain


@dataclass(frozen=True, slots=True)
class Part:
    """A partition or other piece that a layer below made for a use of a layer above."""

    node: str  # "/dev/disk/by-partlabel/bl17-log-1"
    size: int  # bytes


@dataclass(frozen=True, slots=True)
class Target:
    """What a layer stands on, and what it gives to the layer above.

    `devices` are the disks given to this layer by use ("data", "log", "cache"); `volume` is the block node and
    `mount` the directory made by the layer below. `stripe_unit` (bytes) times `stripe_count` is the full stripe.
    """

    name: str  # the layout's own prefix, "bl17": every VG, array, pool, label and mount point carries it
    devices: Mapping[str, tuple[Claim, ...]] = field(default_factory=dict)
    parts: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)  # by use, like devices
    volume: str = ""
    pool: str = ""  # the zpool made by the layer below
    mount: str = ""
    size: int = 0
    stripe_unit: int = 0
    stripe_count: int = 0
    parity: int = 0  # disks of each full stripe that hold it, where a pool's volumes reckon with it
    notes: tuple[str, ...] = ()  # facts worth recording: "sunit from the layer below: 4 KiB"
    kept: Mapping[str, str] = field(default_factory=dict)  # what this layer's plan kept: see Plan


@dataclass(frozen=True, slots=True)
class Plan:
    """A layer's steps, and the target that exists once they ran.

    `kept` is what verify and teardown must know and cannot see any more (a scheduler as it was before): it is stored
    with the plan and comes back as `target.kept`.
    """

    steps: tuple[Step, ...]
    target: Target
    kept: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Use:
    """What a layer does with the disks of one use."""

    says: str  # "disks of the stripe"
    least: int = 1  # 0: may be left out
    most: int = 256


@dataclass(frozen=True, slots=True)
class Progress:
    """Something that the kernel does by itself and a layer waits for: resync, reshape, flush."""

    says: str  # "resync of bl17"
    done: float  # 0 to 1
    eta_s: float | None = None


@dataclass(frozen=True, slots=True)
class Need:
    """A program that a driver uses on the host, and where it comes from."""

    program: str
    packages: Mapping[str, str] = field(
        default_factory=dict
    )  # OS family ("debian", "rhel", "freebsd") -> package
    version_argv: tuple[str, ...] = ()  # empty: program --version
    minimum: str = ""
    places: tuple[str, ...] = ()  # directories beside PATH where it may be; shell patterns


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a tool, as it is started detached on the host in its own spool directory (the cwd)."""

    argv: tuple[str, ...]
    outputs: tuple[str, ...] = ()  # files it writes into the cwd, fetched beside stdout and stderr
    inputs: Mapping[str, bytes] = field(
        default_factory=dict
    )  # files laid into the cwd before it starts
    env: Mapping[str, str] = field(default_factory=dict)
    expected_s: float = 0.0
    timeout_s: float = 3600.0
    writes: int | None = None  # bytes it will write at most, None when nobody can tell
    drop_caches: bool = True
    root: bool = True


class Reason(StrEnum):
    """Why something ended as it did. Pages turn it into words; `RETRYABLE` says what may simply be tried again."""

    CONNECTION_REFUSED = "connection_refused"
    TIMED_OUT = "timed_out"
    AUTHENTICATION_FAILED = "authentication_failed"
    NAME_NOT_FOUND = "name_not_found"
    FORBIDDEN_ADDRESS = "forbidden_address"
    HOST_KEY_CHANGED = "host_key_changed"
    HOST_KEY_UNKNOWN = "host_key_unknown"
    CONNECTION_LOST = "connection_lost"
    NO_SUDO = "no_sudo"
    COMMAND_FAILED = "command_failed"
    GUARD_REFUSED = "guard_refused"
    PLAN_STALE = "plan_stale"
    VERIFY_FAILED = "verify_failed"
    NOT_BLANK = "not_blank"
    TOOL_MISSING = "tool_missing"
    TOOL_FAILED = "tool_failed"
    JOB_TIMEOUT = "job_timeout"
    PARSE_FAILED = "parse_failed"
    HOST_REBOOTED = "host_rebooted"
    HOST_LOST = "host_lost"
    WORKER_LOST = "worker_lost"
    JOB_VANISHED = "job_vanished"
    BAD_OPTIONS = "bad_options"
    BAD_FACTS = "bad_facts"
    NO_DEVICES = "no_devices"
    NO_SPACE = "no_space"
    TOO_LATE = "too_late"
    CANCELLED = "cancelled"
    INTERNAL = "internal"


RETRYABLE = frozenset(
    {Reason.CONNECTION_REFUSED, Reason.TIMED_OUT, Reason.NAME_NOT_FOUND, Reason.CONNECTION_LOST}
)


class AgentError(Exception):
    """Something said no. The text says what happened, to what, and what to do.

    A host's own words are often in it, so here they are made plain for all who show or keep them.
    """

    reason = Reason.INTERNAL

    def __init__(self, message: str, reason: Reason | None = None) -> None:
        super().__init__(visible(message))
        if reason is not None:
            self.reason = reason


class OptionsError(AgentError):
    """Options of a layer or tool that cannot be; the text names the option."""

    reason = Reason.BAD_OPTIONS


class PlanError(AgentError):
    """A topology that does not fit this host; the text says what is missing."""

    reason = Reason.NO_DEVICES


class GuardError(AgentError):
    """The guard refused a Step; the text names device and cause."""

    reason = Reason.GUARD_REFUSED


class ParseError(AgentError):
    """Output that cannot be read; carries the 1-based line number (0: the whole) and the offending text."""

    reason = Reason.PARSE_FAILED

    def __init__(self, message: str, line: int = 0, text: str = "") -> None:
        where = f" (line {line}: {text[:200]!r})" if line else ""
        super().__init__(message + where)
        self.line, self.text = line, text


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command on the host did."""

    argv: tuple[Argument, ...]
    exit_code: int  # 128 + n for signal n
    stdout: bytes
    stderr: bytes
    seconds: float = 0.0


class Shell(Protocol):
    """A way to run commands on one host. Raises AgentError with a connection Reason."""

    def run(
        self, argv: Sequence[Argument], *, stdin: bytes = b"", root: bool = False, timeout_s: float = 60.0
    ) -> Ran: ...  # fmt: skip


@dataclass(frozen=True, slots=True)
class Watch:
    """A command that runs beside the tool for a sampler, in the spool directory; what it prints is in the frames.

    Where there is no such program, there is nothing in them. It must end by a TERM, and one that is run each tick must
    be quick and never hang.
    """

    argv: tuple[str, ...]
    # True: started once; each of its lines comes as "NANOSECONDS LINE" of the monotonic clock, one frame later.
    # False: run at each tick, and what it printed comes as it is.
    lasting: bool = False
    # The lines (a shell pattern) at which the clock is read; others get the time of the last such line. Reading it
    # costs nothing on Linux and three forks on FreeBSD: name the first line of a report where it has one.
    begins: str = "*"
    families: tuple[str, ...] = ()  # OS families on which it is run; empty: on all
    where: tuple[
        str, ...
    ] = ()  # run only where a file of any of these patterns is, when the job starts

    @property
    def key(self) -> str:
        """Its name in Frame.files."""
        return "|" + " ".join(self.argv)


@dataclass(frozen=True, slots=True)
class Frame:
    """One tick of the sampler: seconds of the host's monotonic clock, and the text of each file and Watch."""

    at: float
    files: Mapping[str, str]  # path, or Watch.key -> text


@dataclass(frozen=True, slots=True)
class Series:
    """One metric of one device over the run. `times` are seconds since the run's first frame, at interval ends."""

    device: str  # kernel name; "" for the whole host
    metric: str  # "read.iops", "util", "cpu.user"
    unit: Unit
    times: tuple[float, ...]
    values: tuple[float, ...]  # NaN where unknown (hot-plugged, counter reset)
