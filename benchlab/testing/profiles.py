# SPDX-License-Identifier: Apache-2.0
"""Profiles of a test run (quick, ci or full), and the one seed from which everything random comes.

`manage.py test` passes both in environment variables, which every process of a run inherits. Standard library only:
tests/agents runs without anything else.
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

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
