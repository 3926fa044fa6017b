# SPDX-License-Identifier: Apache-2.0
"""Decisions of the engine. Each is carried out by the function of its name in act.py, or in the room of an access."""

from __future__ import annotations

from dataclasses import dataclass

from agents.contracts import Reason
from benchlab.runs.states import Outcome


@dataclass(frozen=True, slots=True)
class Nothing:
    """There is nothing left to do."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again in so many seconds. `note`: the trouble that is told meanwhile; None: it stays."""

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
    """Plan anew, compare with what was confirmed, apply, look again: up to a layer that only a person can make."""


@dataclass(frozen=True, slots=True)
class CheckManualStep:
    """Somebody says that it is done: look whether it is so, then build on."""


@dataclass(frozen=True, slots=True)
class RollBackBuild:
    """A build that was cut off: nobody knows how far it came, blank disks are sure."""


@dataclass(frozen=True, slots=True)
class BeginTeardown:
    """Leave the way down only."""

    outcome: Outcome
    reason: Reason | str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """Cancelled: stop what runs, keep its output, and leave the way down only."""


@dataclass(frozen=True, slots=True)
class ReportProgress:
    """Tell how far the kernel is, start nothing: the campaign is paused."""

    seconds: float


@dataclass(frozen=True, slots=True)
class SkipRun:
    """Decision to skip the next run: what it was to measure is over."""


@dataclass(frozen=True, slots=True)
class GrowStage:
    """Begin the next stage."""


@dataclass(frozen=True, slots=True)
class SettleStage:
    """Look whether the kernel is through; then the upper layers follow."""


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
    """It takes longer than expected: is its layout still in order? It goes on either way."""


@dataclass(frozen=True, slots=True)
class StopTool:
    """The session is over and the tool hangs: stop its processes, and go on as ever."""


@dataclass(frozen=True, slots=True)
class RetryRun:
    """Decision to try the run again: the process that played the console died."""


@dataclass(frozen=True, slots=True)
class CollectOutput:
    """Output first, then figures, then the verdict."""


@dataclass(frozen=True, slots=True)
class EndAttempt:
    """End the current attempt. `stop`: what still runs of it first."""

    outcome: Outcome
    reason: Reason
    text: str
    stop: bool = False


@dataclass(frozen=True, slots=True)
class TakeDown:
    """Top first, ours only, and prove that the disks are blank. `nothing`: no command of it ever began."""

    nothing: bool = False


@dataclass(frozen=True, slots=True)
class RetryTeardown:
    """A try to take it down failed: so many seconds later there is another one."""

    seconds: float
    text: str


@dataclass(frozen=True, slots=True)
class MarkStuck:
    """It cannot be taken down: its host stays locked until a person looked."""

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
