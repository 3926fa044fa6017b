"""Stacks as the builder makes them: button by button."""

from __future__ import annotations

from typing import Any

from agents.plans.fits import Disk
from benchlab.topologies.stack_edits import DiskSupply, apply_edit, parse_edit

EXAMPLE = DiskSupply()
TIB = 2**40


def built(*words: str, shelf: DiskSupply = EXAMPLE) -> list[dict[str, Any]]:
    """The stack after these buttons, from nothing."""
    stack: list[dict[str, Any]] = []
    for text in words:
        act = parse_edit(text, len(stack))
        assert act is not None, text
        stack = apply_edit(act, stack, shelf)
    return stack


def kinds(stack: list[dict[str, Any]]) -> list[str]:
    return [entry["kind"] for entry in stack]


def disks(entry: dict[str, Any]) -> dict[str, tuple[str, int]]:
    """Use -> (role, count) of those that it takes."""
    groups = entry["devices"]
    return {one["use"]: (one["role"], one["count"]) for one in groups if one["count"]}


def of_host(**roles: int) -> DiskSupply:
    """A host with so many spare disks of each role."""
    there = {
        role: [
            Disk(f"{role[0]}d{n}", role, 2 * TIB if role == "hdd" else TIB) for n in range(count)
        ]
        for role, count in roles.items()
    }
    return DiskSupply("lab1", there)
