# SPDX-License-Identifier: Apache-2.0
"""Decide the steps on a host that only dynamo reaches: nothing is built, and whoever plays reports the end."""

from __future__ import annotations

from agents.contracts import Reason
from benchlab.engine.decide.built import collect_or_pause, finish_layout
from benchlab.engine.decisions import (
    BeginTeardown,
    Build,
    Decision,
    LayoutState,
    Poll,
    RetryRun,
    StartRun,
    TakeDown,
)
from benchlab.runs.states import AttemptPhase, Outcome, Player

LOOK_S = 1.0


def decide_provisioning(state: LayoutState) -> Decision:
    if state.cancelled:
        return BeginTeardown(Outcome.CANCELLED, Reason.CANCELLED, "cancelled")
    return Build()


def decide_ready(state: LayoutState) -> Decision:
    current = state.current
    if current is None or state.cancelled:
        return finish_layout(state)
    if current.phase is AttemptPhase.RUNNING:
        return Poll() if current.player is Player.PLAYING else RetryRun()
    return collect_or_pause(state, current) or StartRun()


def decide_tearing_down(state: LayoutState) -> Decision:
    return TakeDown(nothing=True)
