# SPDX-License-Identifier: Apache-2.0
"""A stack without its cache or its log device, which is made beside it in one go: to tell what that is worth. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.drivers import registry
from benchlab.topologies import acts, stage_forms
from benchlab.topologies.acts import Act
from benchlab.topologies.looked_at import look
from benchlab.topologies.reckoned import Shelf
from benchlab.web.free_names import MAX_NAME_LENGTH

USES = {"cache": "without the cache", "log": "without the log device"}
Entries = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Variant:
    words: str
    stack: list[dict[str, Any]]
    stages: list[dict[str, Any]]

    def variant_name(self, of: str) -> str:
        end = f", {self.words}"
        return of[: MAX_NAME_LENGTH - len(end)] + end


def find_variant(stack: Entries, stages: Entries, shelf: Shelf) -> Variant | None:
    """None: it has neither, or what is left could not be built."""
    for at, entry in enumerate(stack):
        has = {group["use"] for group in entry.get("devices", ()) if acts.count(group)}
        for use in USES:
            found = _remove_use(stack, stages, at, use, shelf) if use in has else None
            if found and look(found.stack, shelf).valid:
                return found
    return None


def _remove_use(stack: Entries, stages: Entries, at: int, use: str, shelf: Shelf) -> Variant:
    """Without those disks where the layer can do without them, else without the layer."""
    entries, growths = [dict(entry) for entry in stack], [dict(stage) for stage in stages]
    if registry.layer(entries[at]["kind"]).USES[use].least:
        act = Act("remove", at)
        order = acts.order(act, len(entries))
        return Variant(USES[use], acts.done(act, entries, shelf), stage_forms.moved(growths, order))
    entries[at]["devices"] = [one for one in entries[at]["devices"] if one["use"] != use]
    return Variant(USES[use], entries, growths)
