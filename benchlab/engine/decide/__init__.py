# SPDX-License-Identifier: Apache-2.0
"""Decisions on the next step from a scene alone, one module each. Pure; tests/cases/engine has a case for each rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchlab.engine.decide import built
from benchlab.engine.decisions import Decision
from benchlab.engine.scene import Scene
from benchlab.runs.states import LayoutPhase

Rules = Mapping[str, Callable[[Scene], Decision]]

BUILT: Rules = {
    LayoutPhase.WAITING: built.waiting,
    LayoutPhase.PROVISIONING: built.provisioning,
    LayoutPhase.READY: built.ready,
    LayoutPhase.TEARING_DOWN: built.tearing_down,
}
