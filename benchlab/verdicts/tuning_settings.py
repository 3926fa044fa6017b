# SPDX-License-Identifier: Apache-2.0
"""Topologies that differ in their tuning alone (schedulers of one layout) as one layout and its settings. Pure."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

# the kind of layer that sets options and builds nothing
TUNING = "tuning"
# option values that leave a setting unchanged
UNSET: tuple[Any, ...] = (None, "", -1, [], ())
AS_IT_IS = "as the host has them"

Layers = Sequence[Mapping[str, Any]]
# topology -> (layout, settings)
TuningSplit = Mapping[int, tuple[str, str]]


def split_tuning(stacks: Mapping[int, tuple[str, Layers, Layers]]) -> TuningSplit:
    """Split {topology: (name, stack, stages)} into layouts and their tuning.

    Empty if no two layouts differ in their tuning alone, or if two do not differ at all.
    """
    layouts: dict[str, dict[str, int]] = defaultdict(dict)
    for pk, (_, stack, stages) in stacks.items():
        below = [layer for layer in stack if layer["kind"] != TUNING]
        settings = _settings_text(stack)
        same = layouts[json.dumps([below, stages], sort_keys=True)]
        if settings in same:
            return {}
        same[settings] = pk
    if not any(len(layout) > 1 for layout in layouts.values()):
        return {}
    names = [
        _layout_name({stacks[pk][0]: s for s, pk in layout.items()}) for layout in layouts.values()
    ]
    if len(set(names)) < len(names):
        return {}
    return {
        pk: (name, settings)
        for name, pks_by_setting in zip(names, layouts.values(), strict=True)
        for settings, pk in pks_by_setting.items()
    }


def _settings_text(stack: Layers) -> str:
    """ "scheduler none, nr requests 64"."""
    set_ = [
        f"{name.replace('_', ' ')} {_value_text(value)}"
        for layer in stack
        if layer["kind"] == TUNING
        for name, value in sorted(layer.get("options", {}).items())
        if value not in UNSET
    ]
    return ", ".join(set_) or AS_IT_IS


def _value_text(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _layout_name(settings: Mapping[str, str]) -> str:
    """Name of the topology without tuning; else the common beginning of all names, or all of them.

    `settings`: by the topology's name.
    """
    plain = [name for name, setting in settings.items() if setting == AS_IT_IS]
    words = takewhile(
        lambda same: len(set(same)) == 1, zip(*map(str.split, settings), strict=False)
    )
    begin = " ".join(first for first, *_ in words).rstrip(",;:·-–(/ ")
    return next(iter(plain), begin or " / ".join(settings))
