# SPDX-License-Identifier: Apache-2.0
"""State of one layout at the beginning of a step, and the decisions that rest on it alone: values, frozen.

The function of its name in access.py, or in the room of another access, carries each decision out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import dataclass_transform

from agents.contracts import AgentError, Reason
from agents.jobs.job import State
from benchlab.runs.states import AttemptPhase, LayoutPhase, Outcome, Player


@dataclass_transform(frozen_default=True)
class Decision:
    """Decision on the next step; each kind is a frozen dataclass."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)


class Nothing(Decision):
    """There is nothing left to do."""


class Wait(Decision):
    """Look again in so many seconds. `note`: the trouble to show meanwhile; None: it stays."""

    seconds: float
    note: str | None = None


class AcquireHost(Decision):
    """Take the host, unless another layout holds it."""


class Discard(Decision):
    """End a layout that made nothing on its host, and its runs."""

    outcome: Outcome
    reason: Reason | str
    text: str


class Build(Decision):
    """Plan anew, compare with the confirmed plan, apply and check again: up to a layer that only a person can make."""


class CheckManualStep(Decision):
    """Check a manual step that somebody reported as done, then build on."""


class RollBackBuild(Decision):
    """Roll back an interrupted build: nobody knows how far it came, and only blank disks are certain."""


class BeginTeardown(Decision):
    """Begin the teardown: from here on nothing else is possible."""

    outcome: Outcome
    reason: Reason | str = ""
    text: str = ""


class Stop(Decision):
    """Stop what runs after a cancellation, keep its output, and begin the teardown."""


class ReportProgress(Decision):
    """Report the kernel's progress and start nothing: the campaign is paused."""

    seconds: float


class SkipRun(Decision):
    """Decision to skip the next run: what it was to measure is over."""


class GrowStage(Decision):
    """Begin the next stage."""


class SettleStage(Decision):
    """Check whether the kernel is through; then the upper layers follow."""


class StartRun(Decision):
    """Check once more that nothing changed under us, then start the tool. Starting twice starts once."""


class Poll(Decision):
    """Ask the host for the job's end and its samples: the answer comes by itself.

    `fetches`: with what it wrote, if it is over. `waits`: for its end, a while.
    """

    fetches: bool = True
    waits: bool = True


class CheckOverdue(Decision):
    """Check the layout of a run that takes longer than expected. The run goes on either way."""


class StopTool(Decision):
    """Stop the processes of a tool that hangs after its session is over, and go on as usual."""


class RetryRun(Decision):
    """Decision to try the run again: the process that played the console died."""


class CollectOutput(Decision):
    """Collect the output, then the figures, then the verdict."""


class EndAttempt(Decision):
    """End the current attempt. `stop`: what still runs of it first."""

    outcome: Outcome
    reason: Reason
    text: str
    stop: bool = False


class TakeDown(Decision):
    """Take our layers down, the top one first, and prove that the disks are blank. `nothing`: no command ever began."""

    nothing: bool = False


class RetryTeardown(Decision):
    """Try again in so many seconds after a teardown that failed."""

    seconds: float
    text: str


class MarkStuck(Decision):
    """Mark a layout that cannot be taken down: its host stays locked until a person has looked."""

    text: str


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


def interruption_error(trouble: str, during: str, then: str) -> AgentError:
    """Error of an interrupted step: the host was lost if there is a last trouble, otherwise the worker ended."""
    if trouble:
        return AgentError(f"{trouble} That was while {during}. {then}", Reason.HOST_LOST)
    return AgentError(f"BenchLab's worker ended while {during}. {then}", Reason.WORKER_LOST)
