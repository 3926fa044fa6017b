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
    for one in results:
        alike.setdefault(one.disks, []).append(one)
    for disks, same in alike.items():
        stacks = {one.topology: one.stack for one in same}
        found = _own_errors(disks) or [
            (number, said)
            for number, one in enumerate(disks)
            if (said := _topology_mismatch(one, stacks))
        ]
        yield from ((same[0].index, number, said) for number, said in found)


def _own_errors(disks: Sequence[SourceDisks]) -> list[tuple[int, str]]:
    return [
        *((number, said) for number, one in enumerate(disks) for said in _field_errors(one)),
        *_duplicate_errors([[one.role] for one in disks], "role"),
        *_duplicate_errors([one.names for one in disks], "disk"),
    ]


def _field_errors(one: SourceDisks) -> Iterator[str]:
    if not ROLE.fullmatch(one.role):
        yield f"{one.role!r} is not a role: use the short word of the topology, such as ssd or hdd."
    if not one.names:
        yield "Name the disks of this role, as the source does: sda sdb."
    if len(one.names) > MOST_NAMES:
        yield f"Name at most {MOST_NAMES} disks."
    for name in one.names:
        if not name.isprintable() or not 0 < len(name) <= NAME_MOST:
            yield f"{name[:NAME_MOST]!r} is not a name: give 1 to {NAME_MOST} printable characters."
    for what, value in (("IOPS", one.rated_iops), ("throughput", one.rated_bandwidth)):
        if value is not None and not 1 <= value <= MOST_RATED:
            yield f"The rated {what} must be from 1 to {MOST_RATED:.0e}, in op/s and B/s."


def _duplicate_errors(groups: Sequence[Sequence[str]], what: str) -> Iterator[tuple[int, str]]:
    """Told where it comes the second time."""
    counts: Counter[str] = Counter()
    for number, group in enumerate(groups):
        counts.update(group)
        for one in group:
            if counts[one] > 1:
                yield number, f"The {what} {one} is listed twice."


def _topology_mismatch(one: SourceDisks, stacks: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Reason why these disks mean nothing to any of the topologies, by name; "" where one stands on them."""
    counts = {name: _disk_counts(stack)[one.role] for name, stack in stacks.items()}
    least = min(filter(None, counts.values()), default=0)
    if not least:
        which = ", ".join(sorted(filter(None, counts))) or "the topology"
        return f"No layer of {which} asks for the role {one.role}: choose a topology that does, or make it first."
    if len(one.names) < least:
        name = next(name for name, count in counts.items() if count == least)
        return f"{name} uses {least} disks of the role {one.role}; {len(one.names)} named."
    return ""


def _disk_counts(stack: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """Number of disks of each role that a topology stands on."""
    found: Counter[str] = Counter()
    for wanted in (wanted for layer in chain.specs(stack) for wanted in layer.devices):
        found[wanted.role] += wanted.count
    return found


def names_and_ratings(
    all_told: Iterable[SourceDisks],
) -> tuple[dict[str, Sequence[str]], dict[str, Mapping[str, float]]]:
    """By role, as results keep them (benchlab.imports.services.Result)."""
    disks: dict[str, Sequence[str]] = {}
    rated: dict[str, Mapping[str, float]] = {}
    for one in all_told:
        disks[one.role] = one.names
        most = {"iops": one.rated_iops, "bandwidth": one.rated_bandwidth}
        if known := {name: value for name, value in most.items() if value is not None}:
            rated[one.role] = known
    return disks, rated


def to_json(all_told: Iterable[SourceDisks]) -> list[dict[str, Any]]:
    return [asdict(one) for one in all_told]


def from_json(told: Iterable[Mapping[str, Any]]) -> tuple[SourceDisks, ...]:
    return tuple(
        SourceDisks(one["role"], tuple(one["names"]), one["rated_iops"], one["rated_bandwidth"])
        for one in told
    )
