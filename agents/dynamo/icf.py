# SPDX-License-Identifier: Apache-2.0
"""IOmeter's configuration files (.icf): read into workloads of tools/dynamo.py, and written for IOmeter's own GUI.

`parse` returns the content of the file (icf_model.Config), `read` our workloads, `write` the file of a Config. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agents.contracts import ParseError
from agents.dynamo import icf_format, specs
from agents.dynamo.icf_format import Config, Cycle, Manager, Worker
from agents.dynamo.messages import AccessLine, AccessSpec
from agents.dynamo.wire import DynamoError

# bytes of a sector: of a disk or a Windows volume, and of a file system as reported by Linux's dynamo
SECTOR, BLOCK = (
    512,
    4096,
)
MOST_POINTS = 64
# IOmeter's own specification, which no file has
IDLE = "Idle"
VERSION = re.compile(r"\s*Version (\d{1,8})\.(\d{1,4})\.(\d{1,4})\s*$")
SECTION = re.compile(
    r"^\s*'(TEST SETUP|ACCESS SPECIFICATIONS|MANAGER LIST|RESULTS DISPLAY) =",
    re.IGNORECASE | re.MULTILINE,
)
CYCLES = {
    "CYCLE_OUTSTANDING_IOS": ("outstanding_ios", "queue"),
    "CYCLE_WORKERS": ("workers", "workers"),
    "CYCLE_TARGETS": ("targets", "disks"),
}


@dataclass(frozen=True)
class Workload:
    """A workload: `options` are those of tools/dynamo.py that the file sets, `sweep` lists that IOmeter cycles."""

    name: str
    options: Mapping[str, Any]
    sweep: Mapping[str, Sequence[int]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    # reason why it cannot be run
    trouble: str = ""
    # the file's Test Description
    description: str = ""
    # its line in the file, from 1 (shared settings stand elsewhere); 0: not from a file
    first: int = field(default=0, compare=False)
    last: int = field(default=0, compare=False)


def looks_like_icf(text: str) -> bool:
    """Check the first line (a version, or at least a section) and look for one of the sections."""
    lines = text.lstrip("\ufeff\r\n \t").split("\n", 1)
    begins = VERSION.match(lines[0]) or SECTION.match(lines[0])
    return begins is not None and SECTION.search(text) is not None


def parse_icf(text: str) -> Config:
    """Parse the file. Raises ParseError with line and text."""
    if not looks_like_icf(text):
        raise ParseError("not an IOmeter configuration file: it begins with 'Version 1.1.0'")
    return icf_format.parse_config(text)


def read_workloads(text: str) -> list[Workload]:
    """Workloads of the tests that IOmeter would run, or one for each specification where none is assigned.

    In test n each worker runs the n-th specification assigned to it. Raises ParseError.
    """
    config = parse_icf(text)
    numbers = {spec.name: number for number, spec in enumerate(config.specs)}
    missing = [name for w in _workers(config) for name in w.specs if name not in (*numbers, IDLE)]
    if missing:
        raise ParseError(
            f"the access specification {missing[0]!r} is assigned, but not in the file"
        )
    if not config.specs:
        raise ParseError("the file has no access specification")
    return [_build_workload(config, numbers[test.spec], test) for test in _tests(config)]


@dataclass(frozen=True)
class _Test:
    """A test of IOmeter: its specification and the workers that run it; none if it belongs to no manager."""

    spec: str
    workers: tuple[Worker, ...]
    trouble: str = ""


def _tests(config: Config) -> list[_Test]:
    workers = _workers(config)
    tests: dict[_Test, None] = {}
    for number in range(max((len(worker.specs) for worker in workers), default=0)):
        specs_of = [(w, w.specs[number]) for w in workers if number < len(w.specs)]
        # IOmeter runs no worker that is idle or has no target.
        busy = [pair for pair in specs_of if pair[1] != IDLE]
        busy = [pair for pair in busy if pair[0].targets] or busy
        names = list(dict.fromkeys(name for _, name in busy))
        trouble = _mixed_specs_message(number + 1, busy) if len(names) > 1 else ""
        for name in names:
            tests[_Test(name, tuple(worker for worker, _ in busy), trouble)] = None
    return list(tests) or [_Test(spec.name, tuple(workers)) for spec in config.specs]


def _mixed_specs_message(number: int, busy: Sequence[tuple[Worker, str]]) -> str:
    """The error message for a test in which the workers run different specifications."""
    runs = "; ".join(f"{worker.name}: {name}" for worker, name in busy[:4])
    more = f"; and {len(busy) - 4} more" if len(busy) > 4 else ""
    return (
        f"in test {number} of the file the workers run different access specifications at once ({runs}{more}), "
        "and here all workers run the same: assign the same one to all, or combine them in one specification"
    )


def write_icf(config: Config) -> str:
    """The file, CR LF, as IOmeter 1.1.0 reads it."""
    return "\r\n".join(icf_format.config_lines(config)) + "\r\n"


def build_config(workloads: Sequence[Workload], directory: str = "/mnt [ext4]") -> Config:
    """The file for workloads that differ only in their access; everything else is taken from the first."""
    for workload in workloads:
        _check_expressible(workload)
    first = workloads[0].options
    accesses = tuple(
        AccessSpec(spec_name(workload.name), _access_lines(workload.options))
        for workload in workloads
    )
    outstanding = list(workloads[0].sweep.get("outstanding_ios", ()))
    worker = Worker(
        "Worker 1",
        outstanding=int(first.get("outstanding_ios", 1)),
        sectors=int(first.get("size", 1 << 30)) // _sector((directory,)),
        pattern=int(first.get("data_pattern", 1)),
        specs=tuple(spec.name for spec in accesses),
        targets=(directory,) * int(first.get("targets", 1)),
    )
    if "seed" in first:
        worker = replace(worker, seed=int(first["seed"]))
    count = int(first.get("workers", 1))
    workers = tuple(replace(worker, name=f"Worker {n}") for n in range(1, count + 1))
    return Config(
        description=" ".join(workloads[0].description.split()),
        run_s=int(first.get("runtime_s", 60)),
        ramp_s=int(first.get("ramp_s", 30)),
        disk_workers=count,
        test_type="CYCLE_OUTSTANDING_IOS" if outstanding else "NORMAL",
        queue=_cycle(outstanding),
        specs=accesses,
        managers=(Manager("benchlab", "", workers),),
    )


def spec_name(workload: str) -> str:
    """Name of the workload's access specification in .icf and .csv files, where a comma would end it."""
    return workload.replace(",", ";")


def _sector(names: Sequence[str]) -> int:
    """Bytes of the unit in which dynamo counts: for "/data [ext4]" the block of that file system."""
    return (
        BLOCK if names and all(name.startswith("/") and " [" in name for name in names) else SECTOR
    )


def _check_expressible(workload: Workload) -> None:
    """Raise ParseError if the format cannot express the workload."""
    swept = sorted(set(workload.sweep) - {"outstanding_ios"})
    if swept:
        raise ParseError(f"a sweep over {swept[0]}: create one workload for each value")
    if int(workload.options.get("targets", 1)) > 1 or workload.options.get("own_targets"):
        raise ParseError("several targets: IOmeter has one file on each file system")
    if not int(workload.options.get("size", 1 << 30)):
        raise ParseError("size 0 means the whole volume here, but fills the file system in IOmeter")


def _cycle(values: list[int]) -> Cycle:
    """The cycle with which IOmeter counts through these values. Raises ParseError if there is none."""
    if not values:
        return Cycle()
    if len(values) == 1:
        return Cycle(values[0], values[0], 1)
    ratio, step = values[1] // max(values[0], 1), values[1] - values[0]
    for cycle in (
        Cycle(values[0], values[-1], ratio, "EXPONENTIAL"),
        Cycle(values[0], values[-1], step),
    ):
        if list(_cycle_values(cycle)) == values:
            return cycle
    raise ParseError(
        f"IOmeter can step outstanding I/Os only by a fixed increment or factor, not {values}"
    )


def _cycle_values(cycle: Cycle) -> Iterator[int]:
    at = cycle.start
    for _ in range(MOST_POINTS):
        if at > cycle.end or at < 1:
            return
        yield at
        further = _next_value(cycle, at)
        if further <= at:
            return
        at = further


def _next_value(cycle: Cycle, at: int) -> int:
    """The next value. IOmeter adds if the factor is 1."""
    factors = cycle.kind == "EXPONENTIAL" and cycle.step != 1
    return at * cycle.step if factors else at + cycle.step


def _workers(config: Config) -> list[Worker]:
    return [w for manager in config.managers for w in manager.workers if w.disk]


def _representative_worker(
    config: Config, workers_of_test: Sequence[Worker]
) -> tuple[Worker, int, list[str]]:
    """The worker that represents all, their number, and a note on what is lost by that."""
    notes = []
    if any(not w.disk for manager in config.managers for w in manager.workers):
        notes.append("network workers are left out")
    if len(config.managers) > 1:
        notes.append(f"{len(config.managers)} managers: their workers are merged into one host")
    if not workers_of_test:
        if config.disk_workers is None:
            notes.append(
                "the file starts one worker for each CPU (NUMBER_OF_CPUS): set workers to the host's number of CPUs"
            )
        return Worker("Worker 1"), config.disk_workers or 1, notes
    plain = {replace(w, name="", targets=(), specs=()) for w in workers_of_test}
    if len(plain) > 1:
        notes.append("the workers have different settings: those of the first are used")
    if len({len(w.targets) for w in workers_of_test}) > 1:
        notes.append(
            "the workers have different numbers of targets: the first worker's number is used"
        )
    elif len({w.targets for w in workers_of_test}) > 1 and not _own_targets(workers_of_test):
        notes.append("the workers share some of their targets: here all workers share all of them")
    return workers_of_test[0], len(workers_of_test), notes


def _shared_options(
    config: Config, worker: Worker, workers_of_test: Sequence[Worker], workers: int
) -> dict[str, float]:
    options: dict[str, float] = {
        "outstanding_ios": worker.outstanding,
        "workers": workers,
        "targets": max(1, len(worker.targets)),
        "ramp_s": config.ramp_s,
    }
    if config.run_s:
        options["runtime_s"] = config.run_s
    if worker.sectors:
        options["size"] = worker.sectors * _sector(worker.targets)
    if worker.pattern in (0, 1):
        options["data_pattern"] = worker.pattern
    if worker.seed is not None:
        options["seed"] = worker.seed
    if _own_targets(workers_of_test):
        options["own_targets"] = True
    return options


def _own_targets(workers: Sequence[Worker]) -> bool:
    """True if each worker has targets that no other has."""
    every = [name for worker in workers for name in worker.targets]
    return len(workers) > 1 and bool(every) and len(set(every)) == len(every)


def _swept_options(
    config: Config, worker: Worker, workers: int
) -> tuple[dict[str, list[int]], list[str]]:
    notes = []
    if not worker.sectors:
        notes.append("the file sets size 0 (all free space): set a size, or use a raw volume")
    elif worker.sectors * _sector(worker.targets) % 4096:
        notes.append("the size is not a multiple of 4096 bytes")
    if not config.run_s:
        notes.append("the file sets run time 0 (until stopped): set a run time")
    if worker.pattern not in (0, 1):
        notes.append("full random data is broken in dynamo on Linux; random data (1) is used")
    if worker.transactions:
        notes.append(
            f"the test of connection rate, which opens each target again after {worker.transactions} I/Os, is left "
            "out: opening and closing are not measured"
        )
    if worker.seed is not None:
        notes.append(
            f"fixed seed {worker.seed}: all runs here use the same random offsets, but not those of IOmeter"
        )
    if worker.start:
        notes.append(f"the starting sector {worker.start} is left out")
    if config.test_type == "NORMAL":
        return {}, notes
    if config.test_type not in CYCLES:
        notes.append(f"the test type {config.test_type} is not supported and left out")
        return {}, notes
    option, which = CYCLES[config.test_type]
    cycle: Cycle = getattr(config, which)
    ends = {"workers": workers, "targets": max(1, len(worker.targets))}
    values = _active_counts(cycle, ends[option]) if option in ends else list(_cycle_values(cycle))
    return ({option: values} if values else {}), notes


def _active_counts(cycle: Cycle, count: int) -> list[int]:
    """Numbers of workers or targets, out of `count`, that IOmeter runs; a step beyond the last runs all once."""
    values = list(_cycle_values(replace(cycle, end=count)))
    if not values or values[-1] < count:
        further = _next_value(cycle, values[-1]) if values else cycle.start
        values += [count] if further > count else []
    return values


def _cycle_trouble(config: Config) -> str:
    """The reason that the file's cycling cannot be run; "" if it can."""
    if config.test_type not in CYCLES:
        return ""
    option, which = CYCLES[config.test_type]
    cycle: Cycle = getattr(config, which)
    if cycle.start < 1:
        return f"cycling of {option}: it starts at {cycle.start}, and must start at 1 or more"
    if option == "workers" and len(config.managers) > 1:
        return "cycling of workers: IOmeter cycles those of each manager, and here is only one host"
    if option != "outstanding_ios":
        return ""
    at, points = cycle.start, 0
    while at <= cycle.end:
        at, last, points = _next_value(cycle, at), at, points + 1
        if at <= last:
            return f"cycling of {option}: step {cycle.step} never reaches the end {cycle.end}"
        if points > MOST_POINTS:
            return f"cycling of {option}: it has more than {MOST_POINTS} values"
    return ""


def _build_workload(config: Config, number: int, test: _Test) -> Workload:
    spec = config.specs[number]
    worker, workers, notes = _representative_worker(config, test.workers)
    sweep, more = _swept_options(config, worker, workers)
    shared = _shared_options(config, worker, test.workers, workers)
    trouble = test.trouble or _cycle_trouble(config)
    try:
        specs.check_access(spec)
    except DynamoError as error:
        trouble = trouble or str(error)
    options = {**_access_options(spec), **shared}
    first, last = config.places[number]
    return Workload(
        spec.name,
        options,
        sweep,
        (*notes, *more),
        trouble,
        config.description,
        first=first,
        last=last,
    )


def _access_options(spec: AccessSpec) -> dict[str, int | tuple[str, ...]]:
    """The three plain options if they express the access fully, so that they can be swept."""
    line = spec.lines[0] if len(spec.lines) == 1 else None
    if line is not None and line == _plain_line(line.size, line.reads, line.random):
        return {"block_size": line.size, "read_percent": line.reads, "random_percent": line.random}
    return {"access": tuple(specs.format_access_line(line) for line in spec.lines)}


def _access_lines(options: Mapping[str, Any]) -> tuple[AccessLine, ...]:
    if options.get("access"):
        return tuple(specs.parse_access_line(line) for line in options["access"])
    size = int(options.get("block_size", 8192))
    reads, random = (int(options.get(key, 50)) for key in ("read_percent", "random_percent"))
    return (_plain_line(size, reads, random),)


def _plain_line(size: int, reads: int, random: int) -> AccessLine:
    return AccessLine(size, 100, reads, random, 0, 1, specs.default_align(size))
