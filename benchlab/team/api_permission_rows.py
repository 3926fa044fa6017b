# SPDX-License-Identifier: Apache-2.0
"""The permission table for the page of the API: who may do what, by API noun and by page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.urls import get_resolver, resolve

from benchlab.team import permissions
from benchlab.team.api_docs import Operation
from benchlab.team.levels import Level

# From the least to the most: each may do what those before it may. Nothing of the API is open to strangers.
LEVELS = (Level.VIEWER, Level.OPERATOR, Level.OWNER, Level.SITE_ADMIN)
ACTION_WORDS = {
    "retrieve": "read",
    "create": "make",
    "partial_update": "change",
    "destroy": "delete",
}


@dataclass(frozen=True, slots=True)
class Noun:
    """`actions`: in words, one entry for each of LEVELS."""

    address: str
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """Row of a page. `see` and `do`: levels in words; empty where there is no such method."""

    address: str
    see: str
    do: str


def noun_rows(groups: Mapping[str, Iterable[Operation]]) -> list[Noun]:
    """A line for each noun of the schema (benchlab.team.api_docs.operation_groups), in its order."""
    actions_by_noun: dict[str, dict[str, list[str]]] = {}
    for what, kind, level in permissions.permission_rows():
        if kind == "API":
            noun, _, action = what.partition(".")
            word = ACTION_WORDS.get(action, action.replace("_", " "))
            actions_by_noun.setdefault(noun, {}).setdefault(level, []).append(word)
    return [
        Noun(
            f"/api/{prefix}/",
            tuple(
                ", ".join(actions_by_noun[_noun(prefix)].get(level.value, ())) for level in LEVELS
            ),
        )
        for prefix in groups
        if _noun(prefix)
    ]


def page_rows() -> list[Page]:
    """One row for each page, in the order of the table."""
    levels_by_page: dict[str, dict[str, str]] = {}
    for what, kind, level in permissions.permission_rows():
        if kind != "API":
            levels_by_page.setdefault(what, {})[kind] = level
    return [
        Page(address, levels.get("see", ""), levels.get("do", ""))
        for name, levels in levels_by_page.items()
        if (address := _page_address(name))
    ]


def _noun(prefix: str) -> str:
    """The noun of these operations; "" of a view without rows, which the table has as a page."""
    function: Any = resolve(f"/api/{prefix}/").func
    view: Any = function.cls
    if (queryset := getattr(view, "queryset", None)) is None:
        return ""
    return str(getattr(view, "noun", queryset.model._meta.model_name))


def _page_address(name: str) -> str:
    """/hosts/{pk}/; empty where this installation has none (single sign-on is not set up)."""
    patterns = get_resolver().reverse_dict.getlist(name)
    if not patterns:
        return ""
    return "/" + re.sub(r"%\((\w+)\)s", r"{\1}", patterns[0][0][0][0])
