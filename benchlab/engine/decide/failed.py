# SPDX-License-Identifier: Apache-2.0
"""Decide after a step that failed: because the host or a tool refused, or because our own code broke."""

from __future__ import annotations

from agents.contracts import RETRYABLE, Reason
from benchlab.engine.decisions import (
    BeginTeardown,
    Decision,
    Discard,
    LayoutState,
    MarkStuck,
    RetryTeardown,
    RollBackBuild,
    Wait,
)
from benchlab.runs.states import AttemptPhase, LayoutPhase, Outcome

BACKOFF_S = 5.0
BETWEEN_TRIES_S = 5.0
# of a teardown, after the first one
MAX_TEARDOWN_TRIES = 3
# What only a person can mend. Not at once: a disk may be back in seconds, and the kernel lets go of some by itself;
# but where it does not, each try takes half a minute.
MAX_TRIES_BY_REASON = {Reason.DISK_GONE: 1, Reason.NEEDS_REBOOT: 2}
NOT_RETRIED = {Reason.HOST_LOST, Reason.HOST_KEY_CHANGED}
INTERRUPTIONS = {Reason.HOST_LOST, Reason.HOST_REBOOTED, Reason.WORKER_LOST}


def decide_after_refusal(
    state: LayoutState, host: str, reason: Reason, text: str, during: Decision
) -> Decision:
    """Decide after the host or a tool refused. What may pass is tried again until the host counts as lost."""
    if reason in RETRYABLE:
        if state.phase == LayoutPhase.WAITING or state.silent_s < _patience_s(state):
            return Wait(BACKOFF_S, text)
        minutes = state.silent_s / 60
        reason, text = (
            Reason.HOST_LOST,
            f"{host} did not answer for {minutes:.0f} minutes; last time: {text}",
        )
    elif isinstance(during, RollBackBuild) and _may_retry(state, reason):
        return RetryTeardown(BETWEEN_TRIES_S, text)
    outcome = Outcome.INTERRUPTED if reason in INTERRUPTIONS else Outcome.FAILED
    return _end_layout(state, outcome, reason, text)


def decide_after_crash(state: LayoutState, text: str) -> Decision:
    """Decide after our own code broke: what stands is taken down all the same."""
    return _end_layout(state, Outcome.ERRORED, Reason.INTERNAL, f"BenchLab itself failed: {text}")


def _patience_s(state: LayoutState) -> float:
    """A job that runs on a silent host goes on without us, to its own limit."""
    current = state.current
    runs = current is not None and current.phase is AttemptPhase.RUNNING
    return state.lost_after_s + (current.timeout_s if current and runs else 0.0)


def _may_retry(state: LayoutState, reason: Reason) -> bool:
    return (
        state.teardown_tries < MAX_TRIES_BY_REASON.get(reason, MAX_TEARDOWN_TRIES)
        and reason not in NOT_RETRIED
    )


def _end_layout(state: LayoutState, outcome: Outcome, reason: Reason, text: str) -> Decision:
    if state.phase == LayoutPhase.WAITING:
        return Discard(outcome, reason, text)
    if state.phase == LayoutPhase.TEARING_DOWN:
        return (
            RetryTeardown(BETWEEN_TRIES_S, text) if _may_retry(state, reason) else MarkStuck(text)
        )
    return BeginTeardown(outcome, reason, text)
