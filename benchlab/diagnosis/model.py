# SPDX-License-Identifier: Apache-2.0
"""Diagnosis as a type, and the registry of rules, which the chapters of benchlab.diagnosis.rules declare.

A rule is a function with `rule` above it. Its id ("R04") is stable: API, docs/diagnosis.md and tests name it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import cache
from typing import Any

from benchlab.diagnosis import rules
from benchlab.diagnosis.evidence import Evidence


class Verdict(StrEnum):
    # The figure is not what it seems.
    DOUBT = "doubt"
    # The figure is right, and this holds it back.
    LIMIT = "limit"
    # Nothing is wrong: such hardware does that.
    FINE = "fine"


class Stage(IntEnum):
    """Order in which causes are considered. An earlier one explains away a later one on the same result."""

    # a clock jumped
    CLOCK = 1
    # results that were measured in different ways
    COMPARED = 2
    # memory, holes, zeros, shared blocks: no medium was measured
    BELIEVABLE = 3
    # a rate, a think time, a short run: it did as asked
    ASKED = 4
    # what was really in flight
    IN_FLIGHT = 5
    # a resync, a slow member: somebody holds the others up
    DISTURBED = 6
    # a cap, credits, a link, a CPU
    CAP = 7
    # parity, block sizes, alignment, cache layers
    LAYOUT = 8
    # what the medium does
    DEVICE = 9
    # worth knowing, whatever else is found
    NOTE = 10


@dataclass(frozen=True, slots=True)
class Proof:
    """One sentence of evidence with its figures, and the lines of the paste that show them."""

    text: str
    lines: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NextStep:
    """A measurement to run next. `expect`: what its result would mean.

    `options` are the tool's options for a campaign of one click: a list is swept ({"iodepth": [1, 4, 16]}).
    `risk`: what the command changes and may cost; a command that may change anything is not shown without it.
    """

    text: str
    command: str = ""
    expect: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    risk: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One cause. `claim` is a sentence that answers the question, `meaning` what follows from it."""

    verdict: Verdict
    claim: str
    meaning: str = ""
    proofs: tuple[Proof, ...] = ()
    # what else it could be, a sentence each
    alternatives: tuple[str, ...] = ()
    next_steps: tuple[NextStep, ...] = ()
    # share of the time, or of the figure, that it explains: 0 to 1
    share: float = 1.0
    # 0 to 1
    confidence: float = 0.8
    # indices in Evidence.results that it is about
    results: tuple[int, ...] = ()
    # ids of rules that say the same of these results with less knowledge
    silences: tuple[str, ...] = ()
    rule: str = ""
    label: str = ""
    stage: Stage = Stage.NOTE


Check = Callable[[Evidence], Iterable[Diagnosis]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the catalogue, docs/diagnosis.md. `label` says in a few words what it looks for."""

    id: str
    label: str
    stage: Stage
    check: Check


_rules: dict[str, Rule] = {}


def rule(id: str, label: str, stage: Stage) -> Callable[[Check], Check]:
    """Declare a rule."""

    def declare(check: Check) -> Check:
        if id in _rules:
            raise ValueError(f"two rules have the id {id}")
        _rules[id] = Rule(id, label, stage, check)
        return check

    return declare


@cache
def all_rules() -> Mapping[str, Rule]:
    """The rules by id, in the order of their stages."""
    for chapter in pkgutil.iter_modules(rules.__path__):
        importlib.import_module(f"{rules.__name__}.{chapter.name}")
    return dict(sorted(_rules.items(), key=lambda pair: (pair[1].stage, pair[0])))
