# SPDX-License-Identifier: Apache-2.0
"""Decisions of the engine. The function of its name in actions.py, or in the room of an access, carries each out."""

from __future__ import annotations

from dataclasses import dataclass

from agents.contracts import Reason
from benchlab.runs.states import Outcome


@dataclass(frozen=True, slots=True)
class Nothing:
    """There is nothing left to do."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again in so many seconds. `note`: the trouble to show meanwhile; None: it stays."""

    seconds: float
    note: str | None = None


@dataclass(frozen=True, slots=True)
class AcquireHost:
    """Take the host, unless another layout holds it."""


@dataclass(frozen=True, slots=True)
class Discard:
    """End a layout that made nothing on its host, and its runs."""

    outcome: Outcome
    reason: Reason | str
    text: str


@dataclass(frozen=True, slots=True)
class Build:
    """Plan anew, compare with the confirmed plan, apply and check again: up to a layer that only a person can make."""


@dataclass(frozen=True, slots=True)
class CheckManualStep:
    """Check a manual step that somebody reported as done, then build on."""


@dataclass(frozen=True, slots=True)
class RollBackBuild:
    """Roll back an interrupted build: nobody knows how far it came, and only blank disks are certain."""


@dataclass(frozen=True, slots=True)
class BeginTeardown:
    """Begin the teardown: from here on nothing else is possible."""

    outcome: Outcome
    reason: Reason | str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop what runs after a cancellation, keep its output, and begin the teardown."""


@dataclass(frozen=True, slots=True)
class ReportProgress:
    """Report the kernel's progress and start nothing: the campaign is paused."""

    seconds: float


@dataclass(frozen=True, slots=True)
class SkipRun:
    """Decision to skip the next run: what it was to measure is over."""


@dataclass(frozen=True, slots=True)
class GrowStage:
    """Begin the next stage."""


@dataclass(frozen=True, slots=True)
class SettleStage:
    """Check whether the kernel is through; then the upper layers follow."""


@dataclass(frozen=True, slots=True)
class StartRun:
    """Check once more that nothing changed under us, then start the tool. Starting twice starts once."""


@dataclass(frozen=True, slots=True)
class Poll:
    """Ask the host for the job's end and its samples: the answer comes by itself.

    `fetches`: with what it wrote, if it is over. `waits`: for its end, a while.
    """

    fetches: bool = True
    waits: bool = True


@dataclass(frozen=True, slots=True)
class CheckOverdue:
    """Check the layout of a run that takes longer than expected. The run goes on either way."""


@dataclass(frozen=True, slots=True)
class StopTool:
    """Stop the processes of a tool that hangs after its session is over, and go on as usual."""


@dataclass(frozen=True, slots=True)
class RetryRun:
    """Decision to try the run again: the process that played the console died."""


@dataclass(frozen=True, slots=True)
class CollectOutput:
    """Collect the output, then the figures, then the verdict."""


@dataclass(frozen=True, slots=True)
class EndAttempt:
    """End the current attempt. `stop`: what still runs of it first."""

    outcome: Outcome
    reason: Reason
    text: str
    stop: bool = False


@dataclass(frozen=True, slots=True)
class TakeDown:
    """Take our layers down, the top one first, and prove that the disks are blank. `nothing`: no command ever began."""

    nothing: bool = False


@dataclass(frozen=True, slots=True)
class RetryTeardown:
    """Try again in so many seconds after a teardown that failed."""

    seconds: float
    text: str


@dataclass(frozen=True, slots=True)
class MarkStuck:
    """Mark a layout that cannot be taken down: its host stays locked until a person has looked."""

    text: str


Decision = (
    Nothing
    | Wait
    | AcquireHost
    | Discard
    | Build
    | CheckManualStep
    | RollBackBuild
    | BeginTeardown
    | Stop
    | ReportProgress
    | SkipRun
    | GrowStage
    | SettleStage
    | StartRun
    | Poll
    | CheckOverdue
    | StopTool
    | RetryRun
    | CollectOutput
    | EndAttempt
    | TakeDown
    | RetryTeardown
    | MarkStuck
)
