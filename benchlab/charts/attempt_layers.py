# SPDX-License-Identifier: Apache-2.0
"""Uses of the disks of an attempt: by its plan, else as told by who imported it."""

from __future__ import annotations

from agents.contracts import AgentError
from agents.plans import as_json, chain
from agents.plans.stack import Placed
from benchlab.analysis.evidence import Layer
from benchlab.charts import device_work
from benchlab.charts.device_work import Use
from benchlab.runs.attempt_meta import DISKS
from benchlab.runs.models import Attempt
from benchlab.topologies import moments


def placed_of(attempt: Attempt) -> tuple[Placed, ...] | None:
    """Of its plan, at its moment; None where that cannot be read, as of a result from elsewhere."""
    try:
        plan = as_json.from_json(attempt.layout.plan or {})
    except AgentError:
        return None
    return tuple(plan.at(moments.parse(attempt.run.stage).stage))


def layers_of(attempt: Attempt) -> list[Layer]:
    """As they were when the plan was made, else as whoever imported it said; of what neither tells none are known."""
    placed = placed_of(attempt)
    if placed is not None:
        return device_work.planned(placed)
    told = attempt.meta.get(DISKS) or {}
    return device_work.described(chain.specs(attempt.layout.stack), told) if told else []


def uses_of(attempt: Attempt) -> list[Use]:
    return device_work.uses(layers_of(attempt))
