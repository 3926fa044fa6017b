# SPDX-License-Identifier: Apache-2.0
"""Disks that an import's source tells of, and what they are rated for: what the reference library says in its hosts.

A layer of the topology that asks for their role stands on them, in their order. Nobody looked at them: they are names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agents.plans import chain
from benchlab.topologies.services import ROLE

MOST_NAMES = 256
NAME_MOST = 64
# op/s or B/s, far above anything
MOST_RATED = 10**15


@dataclass(frozen=True, slots=True)
class SourceDisks:
    """The disks of one role, alike."""

    role: str
    names: tuple[str, ...]
    # op/s, of each
    rated_iops: int | None = None
    # B/s, of each
    rated_bandwidth: int | None = None


@dataclass(frozen=True, slots=True)
class ResultDisks:
    """Disks of a result as a person named them; `topology` is the name of what stands on them."""

    index: int
    disks: tuple[SourceDisks, ...]
    topology: str
    stack: Sequence[Mapping[str, Any]]


def disk_errors(results: Iterable[ResultDisks]) -> Iterator[tuple[int, int, str]]:
    """(index of the result, which of its disks, what is wrong). Of results of which the same was said, some must stand
    on each role; it is told at the first of them."""
    alike: dict[tuple[SourceDisks, ...], list[ResultDisks]] = {}
    for result in results:
        alike.setdefault(result.disks, []).append(result)
    for disks, same in alike.items():
        stacks = {result.topology: result.stack for result in same}
        errors = _own_errors(disks) or [
            (number, message)
            for number, row in enumerate(disks)
            if (message := _topology_mismatch(row, stacks))
        ]
        yield from ((same[0].index, number, message) for number, message in errors)


def _own_errors(disks: Sequence[SourceDisks]) -> list[tuple[int, str]]:
    return [
        *(
            (number, message)
            for number, disk in enumerate(disks)
            for message in _field_errors(disk)
        ),
        *_duplicate_errors([[disk.role] for disk in disks], "role"),
        *_duplicate_errors([disk.names for disk in disks], "disk"),
    ]


def _field_errors(disks: SourceDisks) -> Iterator[str]:
    if not ROLE.fullmatch(disks.role):
        yield f"{disks.role!r} is not a role: use the short word of the topology, such as ssd or hdd."
    if not disks.names:
        yield "Name the disks of this role, as the source does: sda sdb."
    if len(disks.names) > MOST_NAMES:
        yield f"Name at most {MOST_NAMES} disks."
    for name in disks.names:
        if not name.isprintable() or not 0 < len(name) <= NAME_MOST:
            yield f"{name[:NAME_MOST]!r} is not a name: give 1 to {NAME_MOST} printable characters."
    for what, value in (("IOPS", disks.rated_iops), ("throughput", disks.rated_bandwidth)):
        if value is not None and not 1 <= value <= MOST_RATED:
            yield f"The rated {what} must be from 1 to {MOST_RATED:.0e}, in op/s and B/s."


def _duplicate_errors(groups: Sequence[Sequence[str]], what: str) -> Iterator[tuple[int, str]]:
    """Report each duplicate where it appears the second time."""
    counts: Counter[str] = Counter()
    for number, group in enumerate(groups):
        counts.update(group)
        for name in group:
            if counts[name] > 1:
                yield number, f"The {what} {name} is listed twice."


def _topology_mismatch(
    disks: SourceDisks, stacks: Mapping[str, Sequence[Mapping[str, Any]]]
) -> str:
    """Reason why these disks mean nothing to any of the topologies, by name; "" where one stands on them."""
    counts = {name: _disk_counts(stack)[disks.role] for name, stack in stacks.items()}
    least = min(filter(None, counts.values()), default=0)
    if not least:
        which = ", ".join(sorted(filter(None, counts))) or "the topology"
        return f"No layer of {which} asks for the role {disks.role}: choose a topology that does, or make it first."
    if len(disks.names) < least:
        name = next(name for name, count in counts.items() if count == least)
        return f"{name} uses {least} disks of the role {disks.role}; {len(disks.names)} named."
    return ""


def _disk_counts(stack: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """Number of disks of each role that a topology stands on."""
    counts: Counter[str] = Counter()
    for request in (request for layer in chain.specs(stack) for request in layer.devices):
        counts[request.role] += request.count
    return counts


def names_and_ratings(
    source_disks: Iterable[SourceDisks],
) -> tuple[dict[str, Sequence[str]], dict[str, Mapping[str, float]]]:
    """Disks and ratings by role, as in benchlab.imports.services.Result."""
    disks: dict[str, Sequence[str]] = {}
    rated: dict[str, Mapping[str, float]] = {}
    for row in source_disks:
        disks[row.role] = row.names
        most = {"iops": row.rated_iops, "bandwidth": row.rated_bandwidth}
        if given_ratings := {name: value for name, value in most.items() if value is not None}:
            rated[row.role] = given_ratings
    return disks, rated


def to_json(source_disks: Iterable[SourceDisks]) -> list[dict[str, Any]]:
    return [asdict(row) for row in source_disks]


def from_json(rows: Iterable[Mapping[str, Any]]) -> tuple[SourceDisks, ...]:
    return tuple(
        SourceDisks(row["role"], tuple(row["names"]), row["rated_iops"], row["rated_bandwidth"])
        for row in rows
    )
