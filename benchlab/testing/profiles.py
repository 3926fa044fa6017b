# SPDX-License-Identifier: Apache-2.0
"""Profiles of a test run (quick, ci or full), and the one seed from which everything random comes.

`manage.py test` passes both in environment variables, which every process of a run inherits. Standard library only:
tests/agents runs without anything else. Groups of tests are one pytest call each, chosen by marks: first what needs
neither host nor browser, then what boots hosts, then pages, and last what measures.
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import psutil

PROFILE, SEED = "BENCHLAB_TESTS", "BENCHLAB_TEST_SEED"
# set where a profile chooses the tests, not a person by name
WHOLE_GROUP = "BENCHLAB_TEST_GROUP"
QUICK, CI, FULL = "quick", "ci", "full"
PROFILES = (QUICK, CI, FULL)
# Two runs of one tree try the same inputs: quick and ci have this seed. `full` and `--explore` draw new ones.
STORED_SEED = 20261127
# ci tries one in so many of the examples of a nightly run, quick half as many; never fewer than these.
ONE_IN = 25
FEWEST = 20

Case = TypeVar("Case", bound=Hashable)


def profile() -> str:
    """The profile: `quick` unless the environment names another. Raises ValueError for an unknown one."""
    chosen = os.environ.get(PROFILE) or QUICK
    if chosen not in PROFILES:
        raise ValueError(f"{PROFILE}={chosen}: there are {', '.join(PROFILES)}")
    return chosen


def seed() -> int:
    """The run's seed: the environment's, else the profile's, left there for the processes that follow."""
    if not os.environ.get(SEED):
        os.environ[SEED] = str(seed_of(profile()))
    return int(os.environ[SEED])


def seed_of(profile: str) -> int:
    """The fixed seed; for `full` a new one."""
    return new_seed() if profile == FULL else STORED_SEED


def new_seed() -> int:
    return secrets.randbelow(2**31)


def examples(night: int) -> int:
    """Number of examples that Hypothesis makes of a property that `full` tries with `night`."""
    if profile() == FULL:
        return night
    halved = 2 if profile() == QUICK else 1
    return max(min(night, FEWEST // halved), night // ONE_IN // halved)


def random_for(what: str) -> random.Random:
    """Random numbers of this run for one purpose: the same for the same seed, whatever else is drawn."""
    return random.Random(f"{seed()} {what}")  # noqa: S311  # nothing is kept secret with it


def drawn(
    what: str,
    cases: Sequence[Case],
    *,
    quick: int,
    more: int,
    proves: Callable[[Case], Iterable[Hashable]] = lambda case: (),
) -> list[Case]:
    """Some of the cases, in their order; all of them in `full`.

    `quick` takes so many. `ci` takes one case for each thing that cases `prove`, and so many `more`. The seed chooses
    among equal cases, so that exploration tries every case in time. `what` names the purpose.
    """
    if profile() == FULL:
        return list(cases)
    shuffled = list(cases)
    random_for(what).shuffle(shuffled)
    chosen = covering(shuffled, proves) if profile() == CI else []
    rest = [case for case in shuffled if case not in chosen]
    cases_to_run = {*chosen, *rest[: more if profile() == CI else quick]}
    return [case for case in cases if case in cases_to_run]


def share(what: str, cases: Sequence[Case], one_in: int) -> list[Case]:
    """One in so many of the cases, in their order, drawn by the seed; all of them in `full`.

    With fewer cases than that, the seed decides whether there is one: over as many seeds each is tried once.
    """
    if profile() == FULL:
        return list(cases)
    draws = random_for(what)
    whole, rest = divmod(len(cases), one_in)
    chosen = set(draws.sample(range(len(cases)), whole + (draws.randrange(one_in) < rest)))
    return [case for number, case in enumerate(cases) if number in chosen]


def dealt(what: str, cases: Iterable[Case], hands: Sequence[str]) -> dict[str, set[Case]]:
    """Hand -> its cases: all of them in `full`, else each case goes to one hand, which the seed draws.

    This is for things that can be proven in several equal ways: over some seeds every way meets every case.
    """
    every = sorted(cases, key=repr)
    if profile() == FULL:
        return {hand: set(every) for hand in hands}
    random_for(what).shuffle(every)
    return {hand: set(every[at :: len(hands)]) for at, hand in enumerate(hands)}


def covering(cases: Sequence[Case], proves: Callable[[Case], Iterable[Hashable]]) -> list[Case]:
    """A few cases that together prove all that any of them does (greedy set cover)."""
    unproven = {thing for case in cases for thing in proves(case)}
    chosen = []
    while unproven:
        best = max(cases, key=lambda case: len(unproven & set(proves(case))))
        chosen.append(best)
        unproven -= set(proves(best))
    return chosen


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
