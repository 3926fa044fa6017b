# SPDX-License-Identifier: Apache-2.0
"""Lines of an .icf file, read and written as IOmeter 1.1.0 does: keys in comments, and data below them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from agents.contracts import ParseError
from agents.dynamo.messages import AccessLine, AccessSpec

ASSIGNMENTS = {"none": 0, "all": 1, "disk": 2, "net": 3}
NUMBER = re.compile(r"\d{1,15}")
# of 64 bits
SEED = re.compile(r"\d{1,20}")
SWITCHES = {"ENABLED": True, "DISABLED": False}


@dataclass(frozen=True)
class Cycle:
    """Range through which IOmeter counts, by sums (LINEAR) or factors (EXPONENTIAL)."""

    start: int = 1
    end: int = 1
    step: int = 1
    kind: str = "LINEAR"


@dataclass(frozen=True)
class Worker:
    name: str
    disk: bool = True
    outstanding: int = 1
    # of 512 bytes; 0: everything
    sectors: int = 0
    start: int = 0
    pattern: int = 0
    specs: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    # per connection, where "test connection rate" is on; 0: it is off
    transactions: int = 0
    # where "use fixed seed" is on
    seed: int | None = None


@dataclass(frozen=True)
class Manager:
    name: str
    address: str = ""
    workers: tuple[Worker, ...] = ()


@dataclass(frozen=True)
class Config:
    description: str = ""
    run_s: int = 0
    ramp_s: int = 0
    # None: one for each CPU
    disk_workers: int | None = 0
    test_type: str = "NORMAL"
    workers: Cycle = field(default_factory=Cycle)
    disks: Cycle = field(default_factory=Cycle)
    queue: Cycle = field(default_factory=Cycle)
    specs: tuple[AccessSpec, ...] = ()
    managers: tuple[Manager, ...] = ()
    version: str = "1.1.0"
    # (first, last) line of each of `specs`, from 1
    places: tuple[tuple[int, int], ...] = field(default=(), compare=False)


# number, key (lower case), data
Line = tuple[int, str, str]


def parse_config(text: str) -> Config:
    """Parse the file. Raises ParseError with line and text."""
    reader = _Reader()
    for number, key, data in _keyed_lines(text):
        try:
            reader.take_line(key, data, number)
        except (ValueError, IndexError):
            raise ParseError(
                f"{key!r}: not a value that IOmeter writes there", number, data
            ) from None
    return reader.finished_config()


def _keyed_lines(text: str) -> Iterator[Line]:
    """Each line under the key above it; a key without data comes with ""."""
    key = ""
    for number, raw in enumerate(text.replace("\r\n", "\n").lstrip("\ufeff").split("\n"), start=1):
        line = raw.strip()
        if line.startswith("'"):
            key = " ".join(line[1:].rstrip("=").lower().split())
            yield number, key, ""
        elif line:
            yield number, key, line


def _parse_numbers(data: str, least: int) -> list[int]:
    """Parse the first `least` columns. Raises ValueError if one is no number."""
    words = re.split(r"[,\s]+", data)[:least]
    if len(words) < least or not all(map(NUMBER.fullmatch, words)):
        raise ValueError(data)
    return [int(word) for word in words]


def _parse_switch(word: str) -> bool:
    """Parse a switch. Raises ValueError for text that IOmeter does not write."""
    if word.upper() not in SWITCHES:
        raise ValueError(word)
    return SWITCHES[word.upper()]


def _with_settings(worker: Worker, data: str) -> Worker:
    """Add outstanding I/Os, connection rate and seed; old files end after the first or third. Raises ValueError."""
    words = [word.strip() for word in data.split(",")]
    transactions, seed = 0, None
    if len(words) > 2 and _parse_switch(words[1]):
        transactions = max(1, _parse_numbers(words[2], 1)[0])
    if len(words) > 4 and _parse_switch(words[3]):
        if not SEED.fullmatch(words[4]):
            raise ValueError(data)
        seed = int(words[4])
    outstanding = _parse_numbers(words[0], 1)[0]
    return replace(worker, outstanding=outstanding, transactions=transactions, seed=seed)


class _Reader:
    def __init__(self) -> None:
        self.config = Config()
        self.section = self.cycling = ""
        self.managers: list[Manager] = []
        self.workers: list[Worker] = []
        self.specs: list[tuple[str, int, list[AccessLine]]] = []
        self.places: list[tuple[int, int]] = []
        # line of the key above
        self.begun = 0

    def take_line(self, key: str, data: str, number: int) -> None:
        if not data:
            self.begun = number
            self._heading(key)
        elif self.section == "test setup":
            self._setup(key, data)
        elif self.section == "access specifications":
            self._take_access(key, data, number)
        elif self.section == "manager list":
            self._manager(key, data)
        elif not self.section and data.startswith("Version "):
            self.config = replace(self.config, version=data.split()[1])

    def _heading(self, key: str) -> None:
        if key in ("test setup", "results display", "access specifications", "manager list"):
            self.section = key
        elif key == f"end {self.section}":
            self.section = ""
        elif key.endswith("cycling"):
            self.cycling = key
        elif self.section == "manager list" and key in ("end worker", "end manager"):
            self._close_manager(key)

    def _setup(self, key: str, data: str) -> None:
        config = self.config
        if key == "test description":
            config = replace(config, description=data)
        elif key.startswith("hours"):
            hours, minutes, seconds = _parse_numbers(data, 3)
            config = replace(config, run_s=hours * 3600 + minutes * 60 + seconds)
        elif key.startswith("ramp up time"):
            config = replace(config, ramp_s=_parse_numbers(data, 1)[0])
        elif key.startswith("default disk workers"):
            each = data.upper() == "NUMBER_OF_CPUS"
            config = replace(config, disk_workers=None if each else _parse_numbers(data, 1)[0])
        elif key == "test type":
            config = replace(config, test_type=data.strip().upper())
        elif key.startswith("start "):
            config = self._cycle(data)
        self.config = config

    def _cycle(self, data: str) -> Config:
        kind = data.replace(",", " ").split()[-1].upper()
        if kind not in ("LINEAR", "EXPONENTIAL"):
            raise ValueError(data)
        if self.cycling.startswith("queue"):
            start, end, step = _parse_numbers(data, 3)
            return replace(self.config, queue=Cycle(start, end, step, kind))
        start, step = _parse_numbers(data, 2)
        cycle = Cycle(start, start, step, kind)
        if self.cycling.startswith("worker"):
            return replace(self.config, workers=cycle)
        return replace(self.config, disks=cycle)

    def _take_access(self, key: str, data: str, number: int) -> None:
        if key.startswith("access specification name"):
            name, _, rest = data.partition(",")
            word = rest.strip().lower()
            assignment = (
                ASSIGNMENTS[word] if word in ASSIGNMENTS else _parse_numbers(rest or "0", 1)[0]
            )
            self.specs.append((name.strip(), assignment, []))
            self.places.append((self.begun, number))
        elif key.startswith("size,% of size"):
            size, share, reads, random, delay, burst, align, reply = _parse_numbers(data, 8)
            line = AccessLine(size, share, reads, random, delay, burst, align, reply)
            self.specs[-1][2].append(line)
            self.places[-1] = self.places[-1][0], number

    def _manager(self, key: str, data: str) -> None:
        if key.startswith("manager id"):
            self.managers.append(Manager(data.partition(",")[2].strip()))
            self.workers = []
        elif key == "manager network address":
            self.managers[-1] = replace(self.managers[-1], address=data)
        elif key == "worker":
            self.workers.append(Worker(data))
        elif self.workers:
            self.workers[-1] = self._with_worker_line(self.workers[-1], key, data)

    @staticmethod
    def _with_worker_line(worker: Worker, key: str, data: str) -> Worker:
        if key == "worker type":
            return replace(worker, disk=data.upper() == "DISK")
        if key.startswith("number of outstanding ios"):
            return _with_settings(worker, data)
        if key.startswith("disk maximum size"):
            sizes = [*_parse_numbers(data, 3 if data.count(",") > 1 else 2), 0]
            return replace(worker, sectors=sizes[0], start=sizes[1], pattern=sizes[2])
        if key == "assigned access specs":
            return replace(worker, specs=(*worker.specs, data))
        if key == "target":
            return replace(worker, targets=(*worker.targets, data))
        return worker

    def _close_manager(self, key: str) -> None:
        if key == "end manager" and self.managers:
            self.managers[-1] = replace(self.managers[-1], workers=tuple(self.workers))
            self.workers = []

    def finished_config(self) -> Config:
        if self.section:
            raise ParseError(f"truncated: the section {self.section!r} has no end")
        for name, _, lines in self.specs:
            if not lines:
                raise ParseError(f"the access specification {name!r} has no lines")
        specs = tuple(
            AccessSpec(name, tuple(lines), assignment) for name, assignment, lines in self.specs
        )
        return replace(
            self.config, specs=specs, managers=tuple(self.managers), places=tuple(self.places)
        )


OUTSTANDING = (
    "Number of outstanding IOs,test connection rate,transactions per connection,use fixed seed,"
    "fixed seed value"
)
# columns of a section's heading
WIDE = 80
# The displays of a running IOmeter: IOmeter reads this section, but we do not use it.
CHARTS = (
    "Total I/Os per Second",
    "Total MBs per Second (Decimal)",
    "Average I/O Response Time (ms)",
    "Maximum I/O Response Time (ms)",
    "% CPU Utilization (total)",
    "Total Error Count",
)
DISPLAY = (
    ("Record Last Update Results,Update Frequency,Update Type", "DISABLED,1,LAST_UPDATE"),
    *((f"Bar chart {number} statistic", name) for number, name in enumerate(CHARTS, start=1)),
)


def config_lines(config: Config) -> list[str]:
    """The lines of the file."""
    return [
        "Version 1.1.0 ",
        *_section("TEST SETUP", _setup_lines(config)),
        *_section("RESULTS DISPLAY", _key_lines(*DISPLAY)),
        *_section(
            "ACCESS SPECIFICATIONS", [line for spec in config.specs for line in _spec_lines(spec)]
        ),
        *_section(
            "MANAGER LIST",
            [line for n, m in enumerate(config.managers, 1) for line in _manager_lines(n, m)],
        ),
        "Version 1.1.0 ",
    ]


def _section(name: str, lines: list[str]) -> list[str]:
    return [f"'{name} ".ljust(WIDE, "="), *lines, f"'END {name.lower()}"]


def _key_lines(*pairs: tuple[str, str]) -> list[str]:
    return [line for key, data in pairs for line in (f"'{key}", f"\t{data}")]


def _setup_lines(config: Config) -> list[str]:
    hours, rest = divmod(config.run_s, 3600)
    run = f"{hours}          {rest // 60}          {rest % 60}"
    spawned = "NUMBER_OF_CPUS" if config.disk_workers is None else str(config.disk_workers)
    return [
        "'Test Description",
        f"\t{config.description}",
        "'Run Time",
        *_key_lines(("\thours      minutes    seconds", run)),
        *_key_lines(
            ("Ramp Up Time (s)", str(config.ramp_s)),
            ("Default Disk Workers to Spawn", spawned),
            ("Default Network Workers to Spawn", "0"),
            ("Record Results", "ALL"),
        ),
        "'Worker Cycling",
        *_key_lines(("\tstart      step       step type", _cycle_columns(config.workers, False))),
        "'Disk Cycling",
        *_key_lines(("\tstart      step       step type", _cycle_columns(config.disks, False))),
        "'Queue Depth Cycling",
        *_key_lines(
            ("\tstart      end        step       step type", _cycle_columns(config.queue, True))
        ),
        *_key_lines(("Test Type", config.test_type)),
    ]


def _cycle_columns(cycle: Cycle, ends: bool) -> str:
    words = [str(cycle.start), *([str(cycle.end)] if ends else []), str(cycle.step), cycle.kind]
    return "".join(word.ljust(11) for word in words).rstrip()


def _spec_lines(spec: AccessSpec) -> list[str]:
    names = {number: name.upper() for name, number in ASSIGNMENTS.items()}
    rows = [
        f"\t{n.size},{n.of_size},{n.reads},{n.random},{n.delay},{n.burst},{n.align},{n.reply}"
        for n in spec.lines
    ]
    head = f"{spec.name},{names.get(spec.default_assignment, 'NONE')}"
    return [
        *_key_lines(("Access specification name,default assignment", head)),
        "'size,% of size,% reads,% random,delay,burst,align,reply",
        *rows,
    ]


def _manager_lines(number: int, manager: Manager) -> list[str]:
    return [
        *_key_lines(
            ("Manager ID, manager name", f"{number},{manager.name}"),
            ("Manager network address", manager.address),
        ),
        *(line for worker in manager.workers for line in _worker_lines(worker)),
        "'End manager",
    ]


def _switch(value: int | None, off: int) -> str:
    return f"DISABLED,{off}" if value is None else f"ENABLED,{value}"


def _worker_lines(worker: Worker) -> list[str]:
    targets = [
        line
        for name in worker.targets
        for line in (*_key_lines(("Target", name), ("Target type", "DISK")), "'End target")
    ]
    return [
        *_key_lines(
            ("Worker", worker.name), ("Worker type", "DISK" if worker.disk else "NETWORK,TCP")
        ),
        "'Default target settings for worker",
        *_key_lines(
            (
                OUTSTANDING,
                f"{worker.outstanding},{_switch(worker.transactions or None, 1)},{_switch(worker.seed, 0)}",
            ),
            (
                "Disk maximum size,starting sector,Data pattern",
                f"{worker.sectors},{worker.start},{worker.pattern}",
            ),
        ),
        "'End default target settings for worker",
        "'Assigned access specs",
        *(f"\t{name}" for name in worker.specs),
        "'End assigned access specs",
        "'Target assignments",
        *targets,
        "'End target assignments",
        "'End worker",
    ]
