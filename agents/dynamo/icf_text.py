# SPDX-License-Identifier: Apache-2.0
"""The lines of an .icf file as IOmeter 1.1.0 writes them. Pure; icf_lines.py reads them."""

from __future__ import annotations

from agents.dynamo.icf_lines import ASSIGNMENTS, Config, Cycle, Manager, Worker
from agents.dynamo.messages import AccessSpec

OUTSTANDING = (
    "Number of outstanding IOs,test connection rate,transactions per connection,use fixed seed,"
    "fixed seed value"
)
# columns of a section's heading
WIDE = 80
# What IOmeter shows while it runs: it reads this section, and we have no use for it.
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
