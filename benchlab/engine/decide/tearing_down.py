"""The way down. A try that was cut off anywhere is done once more: what is left to do, it does."""

from __future__ import annotations

from benchlab.engine.decide.built import WAITS_S
from benchlab.engine.decisions import Decision, TakeDown, Wait
from benchlab.engine.scene import Person, Scene


def decide(scene: Scene) -> Decision:
    if scene.person is Person.ASKED:
        return Wait(WAITS_S)
    return TakeDown(nothing=not scene.begun)
