# SPDX-License-Identifier: Apache-2.0
"""The fingerprint: hash of all that must be equal for two results to compare without a warning (METHOD)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from agents.contracts import NOTHING, claims_of
from agents.drivers import registry
from agents.facts.model import HostFacts
from agents.facts.sysfs import Queues
from agents.plans.stack import StackPlan
from benchlab.runs.models import Attempt, Layout
from benchlab.topologies import moments


def fingerprint_parts(
    layout: Layout,
    plan: StackPlan,
    attempt: Attempt,
    facts: HostFacts,
    ails: Sequence[str] = (),
    queues: Queues = NOTHING,
) -> dict[str, Any]:
    """Parts of the fingerprint, so that a page can say in which of these two results differ.

    `ails`: what was not in order when the run began. `queues`: what was set for it, of disks whose facts are of before.
    """
    moment = moments.parse_moment(attempt.run.stage)
    claims = claims_of(plan.target_at(moment.stage))
    parts = {
        "host": layout.host_id,
        "kernel": facts.kernel,
        "cpu": f"{facts.cpus} x {facts.cpu_model}",
        "memory": facts.memory,
        "devices": [_device_parts(facts, claim.node, queues) for claim in claims],
        "stack": layout.stack,
        "tool": attempt.run.tool,
        "tool_version": tool_version(attempt.run.tool, facts),
        "options": attempt.run.options,
    }
    # Without a key of its own, what was measured before there were stages stays equal
    if moment != moments.Moment():
        parts |= {"stage": attempt.run.stage, "stages": layout.stages[: moment.stage]}
    # No key of its own either: a run on a layout in order stays equal to earlier ones.
    if ails:
        parts["degraded"] = sorted(ails)
    return parts


def degraded_digest(digested: str, marks: Sequence[Mapping[str, str]]) -> str:
    """Digest of a run during which something failed.

    It differs from that of every run in which nothing, or something else, failed.
    """
    return parts_digest({"began": digested, "degraded": list(marks)})


def parts_digest(parts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def tool_version(kind: str, facts: HostFacts) -> str:
    """Version line of the tool's first program on that host; "" if it reported none."""
    needs = registry.tool(kind).NEEDS
    return facts.tools.get(needs[0].program, "") if needs else ""


def _device_parts(facts: HostFacts, node: str, queues: Queues = NOTHING) -> dict[str, Any]:
    device = facts.find_device(node)
    if device is None:
        return {"node": node}
    parts = {
        "identity": device.identity,
        "model": device.model,
        "size": device.size,
        "scheduler": queues.get(device.name, {}).get("scheduler", device.scheduler),
        "sectors": [device.logical_sector, device.physical_sector],
    }
    # Without a key of its own, what was measured on disks that tell none stays equal.
    return parts | ({"firmware": device.firmware} if device.firmware else {})
