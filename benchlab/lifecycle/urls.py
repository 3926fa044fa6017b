# SPDX-License-Identifier: Apache-2.0
"""URLs of what becomes of campaigns, topologies and workloads: the same five for each."""

from __future__ import annotations

from collections.abc import Iterator

from django.urls import URLPattern, path

from benchlab.lifecycle import views
from benchlab.lifecycle.kinds import NOUNS, Noun


def _of(noun: Noun) -> Iterator[URLPattern]:
    for word, view in (
        ("rename", views.rename),
        ("archive", views.archive),
        ("restore", views.restore),
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
    *(one for noun in NOUNS.values() for one in _of(noun)),
]
