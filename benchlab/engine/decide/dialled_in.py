# SPDX-License-Identifier: Apache-2.0
"""On a host that only dynamo reaches: nothing is built, and who plays tells when it is over."""

from __future__ import annotations

from agents.contracts import Reason
from benchlab.engine.decide.built import no_more, not_to_start
from benchlab.engine.decisions import (
    Build,
    Decision,
    Move,
    Poll,
    Replay,
    Start,
    TakeDown,
)
from benchlab.engine.scene import Scene
from benchlab.runs.states import AttemptPhase, Outcome, Player

LOOK_S = 1.0


def provisioning(scene: Scene) -> Decision:
    if scene.cancelled:
        return Move(Outcome.CANCELLED, Reason.CANCELLED, "cancelled")
    return Build()


def ready(scene: Scene) -> Decision:
    current = scene.current
    if current is None or scene.cancelled:
        return no_more(scene)
    if current.phase is AttemptPhase.RUNNING:
        return Poll() if current.player is Player.PLAYING else Replay()
    return not_to_start(scene, current) or Start()


def tearing_down(scene: Scene) -> Decision:
    return TakeDown(nothing=True)
