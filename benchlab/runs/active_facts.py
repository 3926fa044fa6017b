# SPDX-License-Identifier: Apache-2.0
"""Settings in force during one attempt alone, which its host's facts do not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# In the meta of an attempt that asked for an I/O scheduler: {"sdb": {"scheduler": "none", "nr_requests": "256"}}
QUEUES = "queues"


def facts_during_attempt(facts: Mapping[str, Any], meta: Mapping[str, Any]) -> Mapping[str, Any]:
    """The host's facts as they were while an attempt with that meta ran."""
    queues: Mapping[str, Mapping[str, str]] = meta.get(QUEUES) or {}
    if not queues or not facts:
        return facts
    devices = [
        {**device, "scheduler": queues[device["name"]]["scheduler"]}
        if device.get("name") in queues
        else device
        for device in facts.get("devices", ())
    ]
    return {**facts, "devices": devices}


def describe_queues(queues: Mapping[str, Mapping[str, str]]) -> str:
    """Words such as "sdb none (nr_requests 256), sdc none (nr_requests 256)"."""
    return ", ".join(
        f"{name} {queue['scheduler']} (nr_requests {queue['nr_requests'] or 'not told'})"
        for name, queue in queues.items()
    )
