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
        "chosen": [_choice_to_json(choice) for choice in agreement.chosen],
        "name": agreement.name,
        "question": agreement.question,
        "origin": dict(agreement.origin),
    }


def from_json(stored: Mapping[str, Any]) -> Agreement:
    """A host or topology that is gone meanwhile is None: the same checks as at first say so."""
    hosts = Host.objects.in_bulk({row["host"] for row in stored["chosen"]} - {None})
    stacks = Topology.objects.in_bulk({row["topology"] for row in stored["chosen"]} - {None})
    chosen = [
        ResultChoice(
            key=(row["key"][0], row["key"][1]),
            host=hosts.get(row["host"]),
            topology=stacks.get(row["topology"]),
            beside=(row["beside"][0], row["beside"][1]) if row["beside"] else None,
            disks=source_disks.from_json(row.get("disks", ())),
            **{name: row[name] for name in PLAIN if name in row},
        )
        for row in stored["chosen"]
    ]
    return Agreement(chosen, stored["name"], stored["question"], stored["origin"])


def _choice_to_json(choice: ResultChoice) -> dict[str, Any]:
    return {
        "key": list(choice.key),
        "host": choice.host.pk if choice.host else None,
        "topology": choice.topology.pk if choice.topology else None,
        "beside": list(choice.beside) if choice.beside else None,
        "disks": source_disks.to_json(choice.disks),
        **{name: getattr(choice, name) for name in PLAIN},
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


def outcome_from_json(stored: Mapping[str, Any]) -> Outcome:
    failed = tuple(FailedResult(row["file"], row["first"], row["says"]) for row in stored["failed"])
    return Outcome(stored["campaign"], stored["stored"], tuple(stored["workloads"]), failed)
