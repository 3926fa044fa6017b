# SPDX-License-Identifier: Apache-2.0
"""Comparison of an md array in the facts with what was asked for."""

from __future__ import annotations

from collections.abc import Sequence

from agents.contracts import Part, Progress
from agents.facts.graph import Graph
from agents.facts.model import HostFacts, MdArray


def array_at(node: str, facts: HostFacts) -> MdArray | None:
    device = Graph(facts).find_device(node)
    return next((a for a in facts.md_arrays if device and a.name == device.name), None)


def array_differences(
    array: MdArray, level: int, chunk: int, layout: str, bitmap: bool
) -> list[str]:
    wrong = []
    if array.state != "active":
        wrong.append(f"{array.name} is {array.state}, not active")
    # a reshape of RAID 0, seen in the middle
    passing = level == 0 and array.level == "raid4"
    if array.level != f"raid{level}" and not passing:
        wrong.append(f"{array.name} is {array.level or 'without a level'}, not raid{level}")
    if array.chunk != chunk:
        wrong.append(f"{array.name} has chunks of {array.chunk} B, not {chunk} B")
    if level == 10 and array.layout != layout:
        wrong.append(f"{array.name} has the layout {array.layout or '?'}, not {layout}")
    if array.bitmap != bitmap and not passing:
        wrong.append(f"{array.name} has {'a' if array.bitmap else 'no'} bitmap")
    return wrong


def wrong_members(
    array: MdArray, data: Sequence[Part], spares: Sequence[Part], facts: HostFacts
) -> list[str]:
    """Differences between the members and the disks. A slot that is not in sync yet may be on its way."""
    graph = Graph(facts)
    wished = [d.name if (d := graph.find_device(p.node)) else p.node for p in [*data, *spares]]
    wrong = lost_members(array, wished, len(spares))
    inside = {member.device for member in array.members}
    wrong += [f"{name} is in {array.name} too" for name in sorted(inside - set(wished))]
    if array.slots and array.slots != len(data) and not array.action:
        wrong.append(f"{array.name} has {array.slots} slots, not {len(data)}")
    return wrong


def lost_members(array: MdArray, wished: Sequence[str], spares: int) -> list[str]:
    """Members (kernel names) that are not in the array or have failed, and spares that were taken, in words."""
    flags = {member.device: member.flags for member in array.members}
    wrong = [f"{name} is not in {array.name}" for name in sorted(set(wished) - flags.keys())]
    wrong += [f"{name} has failed in {array.name}" for name, state in flags.items() if "F" in state]
    idle = sum("S" in state for state in flags.values())
    if idle != spares and not array.action:
        wrong.append(f"{array.name} has {idle} spares, not {spares}")
    return wrong


def progress(array: MdArray, level: int, name: str) -> Progress | None:
    if array.action:
        return Progress(f"{array.action} of {name}", array.done, array.finish_s)
    if level == 0 and array.level == "raid4":
        return Progress(f"return of {name} to RAID 0", 1.0)
    usable = sum("F" not in member.flags for member in array.members)
    if array.up < array.slots <= usable:
        return Progress(f"recovery of {name}, which has not begun", 0.0)
    return None
