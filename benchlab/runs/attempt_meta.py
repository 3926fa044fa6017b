# SPDX-License-Identifier: Apache-2.0
"""Keys in the meta of an attempt beside what its runner recorded, and settings in force during that attempt alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Of one that was measured elsewhere: [[artifact, kind in agents/readers/, name of its file], …];
# of one point of a sweep the labels that tell it apart come behind: {"outstanding": "4"}
READERS = "readers"
# Likewise, where the source names them: {role: kernel names of the disks that had it, in order}
DISKS = "disks"
# Likewise what they are rated for: {role: {"iops": op/s, "bandwidth": B/s}}, either of them
RATED = "rated"
# Of one whose samples cannot all be read: {sampler, or "samples" where it is all of them: why}
NOT_SAMPLED = "not_sampled"
# Of one whose output was too large to be fetched: in words, what stays where on its host
ON_HOST = "on_host"
# Of one whose spool directory is gone from its host, with all that could run in it
REMOVED = "removed"


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
