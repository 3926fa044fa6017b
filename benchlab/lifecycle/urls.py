# SPDX-License-Identifier: Apache-2.0
"""URLs of what becomes of campaigns, topologies and workloads: the same five for each."""

from __future__ import annotations

from collections.abc import Iterator

from django.urls import URLPattern, path

from benchlab.lifecycle import views
from benchlab.lifecycle.managed_kinds import MANAGED_KINDS, ManagedKind


def _noun_paths(noun: ManagedKind) -> Iterator[URLPattern]:
    for word, view in (
        ("rename", views.rename),
        ("archive", views.archive),
        ("restore", views.restore_row),
        ("delete", views.delete),
        ("bring-back", views.bring_back),
    ):
        yield path(
            f"{noun.plural}/<int:pk>/{word}/",
            view,
            {"kind": noun.kind},
            name=f"{noun.kind}-{word}",
        )


urlpatterns = [
    path("deleted/", views.deleted_list, name="deleted-list"),
    *(pattern for noun in MANAGED_KINDS.values() for pattern in _noun_paths(noun)),
]
