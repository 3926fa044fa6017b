"""While another layout may hold the host."""

from __future__ import annotations

from benchlab.engine.decisions import Decision, Drop, Take, Wait
from benchlab.engine.scene import Scene
from benchlab.runs.states import Outcome

BUSY_S = 3.0


def decide(scene: Scene) -> Decision:
    if scene.cancelled:
        return Drop(Outcome.CANCELLED, "", "cancelled while it waited for its host")
    # The campaign's random order of layouts is part of its method; and a package manager beside a benchmark would be
    # measured.
    if scene.paused or scene.behind or scene.installing:
        return Wait(BUSY_S)
    return Take()
