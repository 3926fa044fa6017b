# SPDX-License-Identifier: Apache-2.0
"""The state of one layout at the beginning of a step: values only, loaded once, frozen.

Decisions rest on nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from agents.jobs.job import State
from benchlab.runs.states import AttemptPhase, LayoutPhase, Outcome, Player


class ManualStep(StrEnum):
    """State of a step by hand: whether the layout waits for a person."""

    NONE = "none"
    REQUESTED = "requested"
    REPORTED_DONE = "reported done"


@dataclass(frozen=True, slots=True)
class CurrentAttempt:
    """The attempt that is on the host; or else the next one, which is queued."""

    phase: AttemptPhase
    # At which moment in the layout's life it measures: see benchlab.topologies.moments
    stage: int = 0
    growing: bool = False
    # since it was started
    running_s: float = 0.0
    timeout_s: float = 0.0
    # 0 if unknown
    expected_s: float = 0.0
    # since its layout was looked at while it runs, or since it was started
    looked_s: float = 0.0
    player: Player = Player.NONE


@dataclass(frozen=True, slots=True)
class LayoutState:
    """Facts that a decision rests on. A field that the phase does not need is left as it is here."""

    phase: LayoutPhase
    outcome: Outcome | str = ""
    # Requests of people.
    cancelled: bool = False
    paused: bool = False
    # While it waits for its host: a layout, or a visit, of its campaign comes first there and is not down and proven
    # blank yet; a package manager is at work.
    waits_for_earlier: bool = False
    installing: bool = False
    # While it is built and taken down: commands that were begun, and those that a person was asked after.
    manual_step: ManualStep = ManualStep.NONE
    commands_begun: int = 0
    commands_applied: int = 0
    had_manual_step: bool = False
    rebuilds: int = 0
    teardown_tries: int = 0
    # While it is ready: stages that have begun, those that the upper layers followed; is the kernel through?
    stage: int = 0
    followed: int = 0
    settled: bool = False
    current: CurrentAttempt | None = None
    # the answer of the latest poll of the current attempt
    polled: State | None = None
    # or that it is over, perhaps, and its output cannot be had
    not_fetched: bool = False
    # Its host's silence so far, and how long one is borne.
    silent_s: float = 0.0
    lost_after_s: float = 900.0
    # why the last step made no progress
    trouble: str = ""
