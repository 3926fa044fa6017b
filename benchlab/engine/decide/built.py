# SPDX-License-Identifier: Apache-2.0
"""Decide the steps of a layout whose layers are built.

They lead from a host that others may hold to a verified layout, through its runs, to its teardown.
"""

from __future__ import annotations

from agents.contracts import Reason
from agents.jobs.job import State
from benchlab.engine.decisions import (
    AcquireHost,
    BeginTeardown,
    Build,
    CheckManualStep,
    CheckOverdue,
    CollectOutput,
    CurrentAttempt,
    Decision,
    Discard,
    EndAttempt,
    GrowStage,
    LayoutState,
    ManualStep,
    Poll,
    ReportProgress,
    RetryRun,
    RollBackBuild,
    SettleStage,
    SkipRun,
    StartRun,
    Stop,
    StopTool,
    TakeDown,
    Wait,
    interruption_error,
)
from benchlab.runs.states import AttemptPhase, Outcome, Player

BUSY_S = 3.0
# A person's report wakes the layout at once; this wait is for a report that got lost.
MANUAL_WAIT_S = 60.0
# A host that interrupts every build is not fit for measurements.
MAX_REBUILDS = 3
PAUSED_S = 3.0
# Beyond what is expected of a run; and so often from then on. What a pool or a cache wrote to a disk that is gone may
# never end, and the tool with it: its limit is half an hour and more.
OVERDUE_FACTOR = 1.5
OVERDUE_S = 60.0
# the console of a job that is over is about to store what it has
STORING_S = 0.2


def decide_waiting(state: LayoutState) -> Decision:
    """Decide while another layout may hold the host."""
    if state.cancelled:
        return Discard(Outcome.CANCELLED, "", "cancelled while it waited for its host")
    # The campaign's random order of layouts is part of its method; and a package manager beside a benchmark would be
    # measured.
    if state.paused or state.waits_for_earlier or state.installing:
        return Wait(BUSY_S)
    return AcquireHost()


def decide_provisioning(state: LayoutState) -> Decision:
    """Decide the next step towards a verified layout. A build that was interrupted is rolled back and begun again."""
    if state.cancelled:
        return BeginTeardown(Outcome.CANCELLED, Reason.CANCELLED, "cancelled")
    if state.manual_step is ManualStep.REQUESTED:
        return Wait(MANUAL_WAIT_S)
    if state.commands_begun != state.commands_applied:
        return _after_interruption(state)
    return CheckManualStep() if state.manual_step is ManualStep.REPORTED_DONE else Build()


def _after_interruption(state: LayoutState) -> Decision:
    if not state.had_manual_step and state.rebuilds < MAX_REBUILDS:
        return RollBackBuild()
    error = interruption_error(
        state.trouble, "the layout was built", "What it left is taken down; retry the runs."
    )
    return BeginTeardown(Outcome.INTERRUPTED, error.reason, str(error))


def decide_ready(state: LayoutState) -> Decision:
    """Decide while the layout stands: start, poll and collect one attempt at a time; after the last one, go down."""
    current = state.current
    if current is None or state.cancelled:
        return finish_layout(state)
    if current.phase is AttemptPhase.RUNNING:
        return _decide_running(state, current)
    if (waits := collect_or_pause(state, current)) is not None:
        return waits
    if current.phase is AttemptPhase.QUEUED and _is_moment_over(state, current):
        return SkipRun()
    return _reach_moment(state, current) or StartRun()


def finish_layout(state: LayoutState) -> Decision:
    """End a layout that is cancelled or did its work: it stood for all its runs, each of which has its own outcome."""
    return Stop() if state.cancelled else BeginTeardown(Outcome.SUCCEEDED)


def collect_or_pause(state: LayoutState, current: CurrentAttempt) -> Decision | None:
    """Decision on an attempt that is neither running nor to be started now; None of others."""
    if current.phase is AttemptPhase.COLLECTING:
        return CollectOutput()
    if current.phase is AttemptPhase.QUEUED and state.paused:
        return ReportProgress(PAUSED_S)
    return None


def _is_moment_over(state: LayoutState, current: CurrentAttempt) -> bool:
    """True when the moment at which the run measures is over for this layout."""
    over = state.stage == current.stage and current.growing and state.settled
    return over or state.stage > current.stage


def _reach_moment(state: LayoutState, current: CurrentAttempt) -> Decision | None:
    """Step towards the moment at which the run measures; None if it is reached."""
    if state.stage < current.stage:
        return GrowStage() if state.settled else SettleStage()
    return None if current.growing or state.settled else SettleStage()


def _decide_running(state: LayoutState, current: CurrentAttempt) -> Decision:
    if current.player is Player.DIED:
        return RetryRun()
    # Collecting reports what is wrong with the output.
    if state.not_fetched:
        return Poll(fetches=False, waits=False)
    again = Poll(fetches=current.player is not Player.PLAYING)
    if state.polled is None:
        return again
    if current.player is Player.PLAYING:
        return Wait(STORING_S) if state.polled.is_over else again
    if state.polled.is_over:
        return CollectOutput()
    if state.polled is State.ABSENT:
        text = "The job's directory is gone from the host."
        return EndAttempt(Outcome.INTERRUPTED, Reason.JOB_VANISHED, text)
    # The runner ends the tool in time; a host on which it did not is not waited for.
    if current.running_s > current.timeout_s + state.lost_after_s:
        text = f"The host still reports the job as running, well past its limit of {current.timeout_s:g} s."
        return EndAttempt(Outcome.FAILED, Reason.JOB_TIMEOUT, text, stop=True)
    if current.player is Player.OVERDUE:
        return StopTool()
    return CheckOverdue() if _is_check_due(current) else again


def _is_check_due(current: CurrentAttempt) -> bool:
    """True when it is time to check the layout of a run that takes longer than expected."""
    patience_s = OVERDUE_FACTOR * current.expected_s + OVERDUE_S
    has_estimate = current.expected_s > 0
    return has_estimate and current.running_s > patience_s and current.looked_s > OVERDUE_S


def decide_tearing_down(state: LayoutState) -> Decision:
    """Decide the next step of the teardown.

    A try that was interrupted anywhere is repeated: it does what is left to do.
    """
    if state.manual_step is ManualStep.REQUESTED:
        return Wait(MANUAL_WAIT_S)
    return TakeDown(nothing=not state.commands_begun)
