# SPDX-License-Identifier: Apache-2.0
"""Decisions on the next step, from a layout's state alone. Pure; tests/cases/engine has a case for each rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchlab.engine.decide import built
from benchlab.engine.decisions import Decision, LayoutState
from benchlab.runs.states import LayoutPhase

Rules = Mapping[str, Callable[[LayoutState], Decision]]

BUILT: Rules = {
    LayoutPhase.WAITING: built.decide_waiting,
    LayoutPhase.PROVISIONING: built.decide_provisioning,
    LayoutPhase.READY: built.decide_ready,
    LayoutPhase.TEARING_DOWN: built.decide_tearing_down,
}
