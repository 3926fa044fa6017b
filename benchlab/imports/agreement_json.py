# SPDX-License-Identifier: Apache-2.0
"""Agreement to an import and its outcome, as JSON: for the time between a request and the worker that stores it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchlab.hosts.models import Host
from benchlab.imports import source_disks
from benchlab.imports.checking import Agreement, ResultChoice
from benchlab.topologies.models import Topology

PLAIN = ("take", "new_host", "new_topology", "workload", "outstanding", "log_unit")


@dataclass(frozen=True, slots=True)
class FailedResult:
    """A result that could not be stored, and why. Its file was kept with the others."""

    file: str
    # line
    first: int
    message: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """`campaign` is None where only workloads were taken. `stored` counts results and workloads."""

    campaign: int | None
    stored: int
    workloads: tuple[int, ...] = ()
    failed: tuple[FailedResult, ...] = ()


def to_json(agreement: Agreement) -> dict[str, Any]:
    return {
        "chosen": [_choice_to_json(one) for one in agreement.chosen],
        "name": agreement.name,
        "question": agreement.question,
        "origin": dict(agreement.origin),
    }


def from_json(told: Mapping[str, Any]) -> Agreement:
    """A host or topology that is gone meanwhile is None: the same checks as at first say so."""
    hosts = Host.objects.in_bulk({one["host"] for one in told["chosen"]} - {None})
    stacks = Topology.objects.in_bulk({one["topology"] for one in told["chosen"]} - {None})
    chosen = [
        ResultChoice(
            key=(one["key"][0], one["key"][1]),
            host=hosts.get(one["host"]),
            topology=stacks.get(one["topology"]),
            beside=(one["beside"][0], one["beside"][1]) if one["beside"] else None,
            disks=source_disks.from_json(one.get("disks", ())),
            **{name: one[name] for name in PLAIN if name in one},
        )
        for one in told["chosen"]
    ]
    return Agreement(chosen, told["name"], told["question"], told["origin"])


def _choice_to_json(one: ResultChoice) -> dict[str, Any]:
    return {
        "key": list(one.key),
        "host": one.host.pk if one.host else None,
        "topology": one.topology.pk if one.topology else None,
        "beside": list(one.beside) if one.beside else None,
        "disks": source_disks.to_json(one.disks),
        **{name: getattr(one, name) for name in PLAIN},
    }


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    failed = [
        {"file": result.file, "first": result.first, "says": result.message}
        for result in outcome.failed
    ]
    return {
        "campaign": outcome.campaign,
        "stored": outcome.stored,
        "workloads": list(outcome.workloads),
        "failed": failed,
    }


def outcome_from_json(told: Mapping[str, Any]) -> Outcome:
    failed = tuple(FailedResult(row["file"], row["first"], row["says"]) for row in told["failed"])
    return Outcome(told["campaign"], told["stored"], tuple(told["workloads"]), failed)
