"""From a free host to a verified layout. What was cut off is taken back, and begun anew."""

from __future__ import annotations

from agents.contracts import Reason
from benchlab.engine.checks.cut_off import cut_off
from benchlab.engine.decisions import Build, CheckPerson, Decision, Move, TakeBack, Wait
from benchlab.engine.scene import Person, Scene
from benchlab.runs.states import Outcome

WAITS_S = 60.0  # a word from a person wakes the layout at once; this is for a word that got lost
REBUILDS = 3  # a host that cuts off every build is not one to measure on


def decide(scene: Scene) -> Decision:
    if scene.cancelled:
        return Move(Outcome.CANCELLED, Reason.CANCELLED, "cancelled")
    if scene.person is Person.ASKED:
        return Wait(WAITS_S)
    if scene.begun != scene.applied:
        return _cut_off(scene)
    return CheckPerson() if scene.person is Person.SAID_DONE else Build()


def _cut_off(scene: Scene) -> Decision:
    if not scene.asked and scene.rebuilds < REBUILDS:
        return TakeBack()
    error = cut_off(
        scene.trouble, "the layout was built", "What it left is taken down; retry the runs."
    )
    return Move(Outcome.INTERRUPTED, error.reason, str(error))
