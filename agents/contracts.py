"""What drivers, the executor and the engine agree on: plain frozen data and Protocols.

Drivers are modules (see `agents.registry`); the Protocols below describe such a module, so that
mypy checks every driver against them. All driver functions are pure: no clock, no file, no host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Protocol

from agents.facts.model import HostFacts

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
class Target:
    """What a layer stands on, and what it gives to the layer above.

    `devices` are the disks given to this layer by use ("data", "log", "cache"); `volume` is the block node and
    `mount` the directory made by the layer below. `stripe_unit` (bytes) times `stripe_count` is the full stripe.
    """

    name: str  # the layout's own prefix, "bl17": every VG, array, pool, label and mount point carries it
    devices: Mapping[str, tuple[Claim, ...]] = field(default_factory=dict)
    volume: str = ""
    mount: str = ""
    size: int = 0
    stripe_unit: int = 0
    stripe_count: int = 0
    notes: tuple[str, ...] = ()  # facts worth recording: "sunit from the layer below: 4 KiB"


@dataclass(frozen=True, slots=True)
class Plan:
    """A layer's steps, and the target that exists once they ran."""

    steps: tuple[Step, ...]
    target: Target


@dataclass(frozen=True, slots=True)
class Need:
    """A program that a driver uses on the host, and where it comes from."""

    program: str
    packages: Mapping[str, str] = field(
        default_factory=dict
    )  # OS family ("debian", "rhel", "freebsd") -> package
    version_argv: tuple[str, ...] = ()  # empty: program --version
    minimum: str = ""


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
    CANCELLED = "cancelled"
    INTERNAL = "internal"


RETRYABLE = frozenset(
    {Reason.CONNECTION_REFUSED, Reason.TIMED_OUT, Reason.NAME_NOT_FOUND, Reason.CONNECTION_LOST}
)


class AgentError(Exception):
    """Something said no. The text says what happened, to what, and what to do."""

    reason = Reason.INTERNAL

    def __init__(self, message: str, reason: Reason | None = None) -> None:
        super().__init__(message)
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
class Frame:
    """One tick of the sampler: seconds of the host's monotonic clock, and the text of each file it read."""

    at: float
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Series:
    """One metric of one device over the run. `times` are seconds since the run's first frame, at interval ends."""

    device: str  # kernel name; "" for the whole host
    metric: str  # "read.iops", "util", "cpu.user"
    unit: Unit
    times: tuple[float, ...]
    values: tuple[float, ...]  # NaN where unknown (hot-plugged, counter reset)


class Layer(Protocol):
    """A module in agents/layers/. `Options` is a frozen dataclass: the form and the JSON schema."""

    LABEL: str
    NEEDS: tuple[Need, ...]
    USES: Mapping[
        str, str
    ]  # use -> what for ("data" -> "disks of the stripe"); empty: needs a volume or nothing
    GIVES: str  # "devices", "volume" or "mount"
    WANTS: str  # "nothing", "devices", "volume" or "mount": what the layer below must give
    Options: type[Any]

    def plan(self, options: Any, target: Target, facts: HostFacts) -> Plan: ...

    def teardown(self, options: Any, target: Target, facts: HostFacts) -> list[Step]:
        """Steps that remove what exists of this layer (target: the one given to plan). Safe to run twice."""
        ...

    def verify(self, options: Any, target: Target, facts: HostFacts) -> list[str]:
        """Differences between wish and host after apply (target: the one given to plan); [] is right."""
        ...


class Tool(Protocol):
    """A module in agents/tools/."""

    LABEL: str
    NEEDS: tuple[Need, ...]
    Options: type[Any]

    def job(self, options: Any, target: Target) -> Job: ...

    def precheck(self, options: Any, target: Target) -> Job | None:
        """A quick run that touches no data and fails when the options are wrong (fio --parse-only); or None."""
        ...

    def outstanding(self, options: Any) -> int | None:
        """Outstanding I/Os: queue depth times jobs."""
        ...

    def parse(self, outputs: Mapping[str, bytes], options: Any) -> list[Metric]:
        """Figures from {"stdout": …, "stderr": …, each of Job.outputs}. Raises ParseError, nothing else."""
        ...


class Sampler(Protocol):
    """A module in agents/samplers/. FILES are read on the host once per tick by hostside/sampler.sh."""

    LABEL: str
    FILES: tuple[str, ...]

    def series(self, frames: Sequence[Frame]) -> list[Series]: ...
