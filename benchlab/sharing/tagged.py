# SPDX-License-Identifier: Apache-2.0
"""Lists by tag: ?tag=."""

from __future__ import annotations

from typing import TypeVar

from django.core.exceptions import BadRequest
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from benchlab.sharing.models import Kind, Tag, Tagging
from benchlab.web.filters import unknown_word_message

M = TypeVar("M", bound=Model)
TAG = "tag"


def filter_by_tag(request: HttpRequest, kind: Kind, rows: QuerySet[M]) -> QuerySet[M]:
    """Those that have the tag of that name; all of them without ?tag=. Raises BadRequest for a tag that nobody made."""
    name = request.GET.get(TAG, "").replace("\0", "")
    if not name:
        return rows
    mine = Tag.objects.for_user(request.user)
    if not mine.filter(name=name).exists():
        raise BadRequest(
            f"{TAG}: {unknown_word_message(name, mine.values_list('name', flat=True))}"
        )
    having = Tagging.objects.for_user(request.user).filter(kind=kind, tag__name=name)
    return rows.filter(pk__in=having.values("object_id"))
