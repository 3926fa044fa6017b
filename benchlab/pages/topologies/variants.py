# SPDX-License-Identifier: Apache-2.0
"""A stack without its cache or its log device, which is made beside it in one go: to tell what that is worth. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.drivers import registry
from benchlab.topologies import stack_edits, stage_forms
from benchlab.topologies.inspection import inspect_stack
from benchlab.topologies.size_estimates import DiskSupply
from benchlab.topologies.stack_edits import StackEdit
from benchlab.web.free_names import MAX_NAME_LENGTH

USES = {"cache": "without the cache", "log": "without the log device"}
Entries = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Variant:
    words: str
    stack: list[dict[str, Any]]
    stages: list[dict[str, Any]]

    def variant_name(self, topology: str) -> str:
        end = f", {self.words}"
        return topology[: MAX_NAME_LENGTH - len(end)] + end


def find_variant(stack: Entries, stages: Entries, shelf: DiskSupply) -> Variant | None:
    """None: it has neither, or what is left could not be built."""
    for at, entry in enumerate(stack):
        has = {group["use"] for group in entry.get("devices", ()) if stack_edits.group_count(group)}
        for use in USES:
            variant = _remove_use(stack, stages, at, use, shelf) if use in has else None
            if variant and inspect_stack(variant.stack, shelf).valid:
                return variant
    return None


def _remove_use(stack: Entries, stages: Entries, at: int, use: str, shelf: DiskSupply) -> Variant:
    """Without those disks where the layer can do without them, else without the layer."""
    entries, growths = [dict(entry) for entry in stack], [dict(stage) for stage in stages]
    if registry.layer(entries[at]["kind"]).USES[use].least:
        act = StackEdit("remove", at)
        order = stack_edits.order_after(act, len(entries))
        return Variant(
            USES[use],
            stack_edits.apply_edit(act, entries, shelf),
            stage_forms.move_stages(growths, order),
        )
    entries[at]["devices"] = [group for group in entries[at]["devices"] if group["use"] != use]
    return Variant(USES[use], entries, growths)
