# SPDX-License-Identifier: Apache-2.0
"""Groups of tests: one pytest call each, chosen by marks. Which groups run, and in which order, is the profile's.

Tests that need no host and no browser come first, then those that boot hosts, then pages, and last what measures.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import psutil

from benchlab.testing.profiles import FULL, QUICK

DRIVERS, RIG, BROWSER = "tests/agents", "tests/rig", "tests/browser"
# where BENCHLAB_RIG=required
NEVER_SKIPPED = {"rig", "alone", "browser", "hosts and pages"}
# bytes: a host under QEMU, and the process that tests it
HOST_MEMORY = 3 << 30
PLAIN = "not rig and not browser and not alone"
QUICK_REST = "quick and (rig or browser)"
OF_HOSTS, OF_PAGES = "rig and not browser and not alone", "browser and not alone"
# Tests whose inputs depend on the seed. Hypothesis marks its own.
SEEDED = "hypothesis or draws or one_in or slow"
# A file's tests share a browser, and the number of a Valkey database; in the order of tests/browser/conftest.py.
FILE_BY_FILE = ("--dist", "loadfile", "--no-loadscope-reorder")


@dataclass(frozen=True)
class Group:
    """One pytest call."""

    title: str
    marks: str
    processes: int = 1
    # An idle process takes tests from the others, as only running a test shows that it is long.
    spread: tuple[str, ...] = ("--dist", "worksteal")
    # Folders with such tests, () for all: collecting all others as well takes each process half a minute.
    places: tuple[str, ...] = ()
    # Folders without such tests.
    ignored: tuple[str, ...] = ()

    def arguments(self) -> tuple[str, ...]:
        several = ("-n", str(self.processes), *self.spread) if self.processes > 1 else ()
        ignored = (f"--ignore={folder}" for folder in self.ignored)
        return ("-m", self.marks, *several, *ignored, *self.places)


def groups(profile: str) -> tuple[Group, ...]:
    """Groups that a profile runs, in this order."""
    cores = max(2, os.cpu_count() or 2)
    # One more than there are cores, as many of these tests wait for a job, a worker or a server.
    plain = Group(
        "without host or browser", _marks(PLAIN, profile), cores + 1, ignored=(RIG, BROWSER)
    )
    if profile == QUICK:
        part = replace(plain, marks=f"({plain.marks}) and not slow")
        return (part, Group("hosts and pages", QUICK_REST, cores + 1, places=(RIG, BROWSER)))
    others = (
        Group("rig", _marks(OF_HOSTS, profile), hosts_at_once(), places=(RIG,)),
        Group("browser", _marks(OF_PAGES, profile), cores + 1, FILE_BY_FILE, places=(BROWSER,)),
        Group("alone", _marks("alone", profile), places=(RIG, DRIVERS)),
    )
    # `full` begins with the longest
    return (*others, plain) if profile == FULL else (plain, *others)


def exploring(profile: str) -> tuple[Group, ...]:
    """The same groups without tests that a new seed does not change, and without those that need a quiet machine."""
    return tuple(
        # Every rig test is one of a drawn sample.
        group if group.title == "rig" else replace(group, marks=f"({group.marks}) and ({SEEDED})")
        for group in groups(profile)
        if group.title != "alone"
    )


def _marks(marks: str, profile: str) -> str:
    return marks if profile == FULL else f"({marks}) and not night"


def hosts_at_once() -> int:
    """Number of hosts that fit in memory, at most one more than there are cores, since hosts wait at times."""
    return max(1, min((os.cpu_count() or 1) + 1, psutil.virtual_memory().available // HOST_MEMORY))
