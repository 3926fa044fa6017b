# SPDX-License-Identifier: Apache-2.0
"""Uses of the disks of an attempt: by its plan, else as told by who imported it."""

from __future__ import annotations

from agents.contracts import AgentError
from agents.plans import as_json, chain
from agents.plans.stack import Placed
from benchlab.analysis.evidence import Layer
from benchlab.charts import device_work
from benchlab.charts.device_work import DiskUse
from benchlab.runs.attempt_meta import DISKS
from benchlab.runs.models import Attempt
from benchlab.topologies import moments


def read_placed_layers(attempt: Attempt) -> tuple[Placed, ...] | None:
    """Of its plan, at its moment; None where that cannot be read, as of a result from elsewhere."""
    try:
        plan = as_json.from_json(attempt.layout.plan or {})
    except AgentError:
        return None
    return tuple(plan.layers_after(moments.parse_moment(attempt.run.stage).stage))


def read_layers(attempt: Attempt) -> list[Layer]:
    """As they were when the plan was made, else as whoever imported it said; of what neither tells none are known."""
    placed = read_placed_layers(attempt)
    if placed is not None:
        return device_work.plan_layers(placed)
    disks = attempt.meta.get(DISKS) or {}
    return device_work.imported_layers(chain.specs(attempt.layout.stack), disks) if disks else []


def read_disk_uses(attempt: Attempt) -> list[DiskUse]:
    return device_work.disk_uses(read_layers(attempt))
