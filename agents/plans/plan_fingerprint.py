# SPDX-License-Identifier: Apache-2.0
"""The fingerprint of a plan: it changes when a command does, or a claimed disk with anything on it. And which disks
changed since. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from agents.contracts import Claim, Step
from agents.facts.graph import Graph
from agents.facts.model import HostFacts
from agents.plans.blank import not_blank


def plan_fingerprint(steps: Sequence[Step], claims: Sequence[Claim], facts: HostFacts) -> str:
    """Hash of every command, and of each disk with all that is on it."""
    graph = Graph(facts)
    disks = []
    for claim in claims:
        device = graph.find_device(claim.node)
        on_it = sorted(graph.stack_on(device.name)) if device else []
        # The scheduler and such may change without harm.
        disks.append([asdict(claim), [_device_state(graph, name) for name in on_it]])
    content = json.dumps([_step_words(steps), disks], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def changed_claims(claims: Sequence[Claim], then: HostFacts | None, now: HostFacts) -> list[Claim]:
    """Disks on which there is `now` what was not there `then`. A blank one has lost nothing that anybody needs, and of
    one that is gone, or not the only one of its identity, the guard speaks. None: nobody knows how it was then.
    """
    before, after = Graph(then) if then else None, Graph(now)
    changes = []
    for claim in claims:
        state = _stack_on_claim(claim, after)
        if state is None or (before and state == _stack_on_claim(claim, before)):
            continue
        # As of no layout: that something else carries its name is no matter here.
        if not_blank((claim,), now, ""):
            changes.append(claim)
    return changes


def _stack_on_claim(claim: Claim, graph: Graph) -> list[Any] | None:
    """The claimed disk, whatever its name, with all that stands on it; None unless it is there exactly once."""
    kernel_names = [d.name for d in graph.facts.devices if d.identity == claim.identity]
    if len(kernel_names) != 1:
        return None
    names = sorted(graph.stack_on(kernel_names[0]))
    read = [d.signatures_known for name in names if (d := graph.devices.get(name))]
    return [[_device_state(graph, name) for name in names], read]


def _device_state(graph: Graph, name: str) -> list[Any]:
    device = graph.devices.get(name)
    if device is None:
        return [name]
    signatures = sorted([s.type, s.offset, s.label, s.uuid] for s in device.signatures)
    return [
        name,
        device.identity,
        device.path,
        device.size,
        device.model,
        signatures,
        sorted(device.holders),
        sorted(device.mounts),
        device.swap,
        graph.facts.members.get(name, ""),
    ]


def _step_words(steps: Iterable[Step]) -> list[Any]:
    return [[[str(w) for w in step.argv], step.stdin, _step_words(step.undo)] for step in steps]
