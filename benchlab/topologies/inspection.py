# SPDX-License-Identifier: Apache-2.0
"""Inspection of a stack while it is built: what is wrong, what is missing on top, and its computed sizes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.drivers import registry
from agents.plans import chain
from agents.plans.chain import ChainFault, LayerSpec
from benchlab.topologies.size_estimates import (
    DiskSupply,
    SizeEstimate,
    estimate_sizes,
    placeholder_options,
)
from benchlab.topologies.stack_edits import StackEdit, apply_edit, group_count

Stack = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Inspection:
    """Result of an inspection.

    `wrong`: layers that cannot stand on what is below them; where all can, those that cannot be made (`unmade`).

    `missing`: nothing is wrong so far, and a layer on top is missing.
    """

    wrong: tuple[ChainFault, ...]
    missing: ChainFault | None
    reckoned: SizeEstimate
    unmade: bool = False

    @property
    def valid(self) -> bool:
        return not (self.wrong or self.missing)

    @property
    def score(self) -> int:
        """Score, the lower the better; 0 if the stack can be built.

        Layers on a wrong base count most, a missing top layer least.
        """
        return (2 if self.unmade else 4 * len(self.wrong)) + bool(self.missing)

    def trouble_at(self, layer: int) -> ChainFault | None:
        """Trouble of one layer, from 1."""
        return next((trouble for trouble in self.wrong if trouble.layer == layer), None)


def inspect_stack(stack: Stack, shelf: DiskSupply) -> Inspection:
    """Inspect a stack: whether its layers can stand on each other and, if they can, whether they can be made."""
    specs = specs_of(stack)
    troubles = list(chain.troubles(specs))
    missing = next((trouble for trouble in troubles if trouble.unfinished), None)
    wrong = [trouble for trouble in troubles if not trouble.unfinished]
    reckoned = estimate_sizes(specs, shelf)
    unmade = bool(reckoned.error and not wrong)
    if unmade:
        wrong.append(_size_trouble(specs, reckoned))
    return Inspection(tuple(wrong), None if wrong else missing, reckoned, unmade)


def _size_trouble(specs: Sequence[LayerSpec], reckoned: SizeEstimate) -> ChainFault:
    label = registry.layer(specs[reckoned.layer - 1].kind).LABEL
    return ChainFault(reckoned.layer, f"layer {reckoned.layer} ({label}): {reckoned.error}")


def specs_of(stack: Stack) -> list[LayerSpec]:
    """Layers of the stack. An option that nobody wrote yet has a placeholder; a use without disks is left out."""
    return chain.specs(
        {
            "kind": entry["kind"],
            "options": {
                **placeholder_options(registry.layer(entry["kind"])),
                **entry.get("options", {}),
            },
            "devices": [
                {**group, "count": group_count(group)}
                for group in entry.get("devices", ())
                if group_count(group)
            ],
        }
        for entry in stack
    )


def inspect_after(act: StackEdit, stack: Stack, shelf: DiskSupply) -> Inspection:
    """Inspect the stack as it would be after the edit."""
    return inspect_stack(apply_edit(act, stack, shelf), shelf)
