"""What to do next, by a scene alone: one module a phase. Pure; tests/cases/engine holds a case for each rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchlab.engine.decide import provisioning, ready, tearing_down, waiting
from benchlab.engine.decisions import Decision
from benchlab.engine.scene import Scene
from benchlab.runs.states import LayoutPhase

Rules = Mapping[str, Callable[[Scene], Decision]]

BUILT: Rules = {
    LayoutPhase.WAITING: waiting.decide,
    LayoutPhase.PROVISIONING: provisioning.decide,
    LayoutPhase.READY: ready.decide,
    LayoutPhase.TEARING_DOWN: tearing_down.decide,
}
