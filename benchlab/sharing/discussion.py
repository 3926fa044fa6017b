# SPDX-License-Identifier: Apache-2.0
"""Comments, tags, notes and stars. Callers have checked access to the row (benchlab/sharing/targets.py)."""

from __future__ import annotations

import re
from typing import Any, TypeVar

from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import BadRequest, PermissionDenied, ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from benchlab.sharing import targets
from benchlab.sharing.models import COLOURS, Comment, Kind, Note, Star, Tag, Tagging
from benchlab.team.models import Team, has_role
from benchlab.team.roles import Role
from benchlab.web.filters import unknown_word_message
from benchlab.web.texts import clean_text

SPACES = re.compile(r"\s+")


def tag_name(text: str) -> str:
    """Return the name as one line, without characters that would make two tags look the same."""
    return clean_text(SPACES.sub(" ", text), 40)


def add_comment(row: Any, by: AbstractBaseUser, text: str) -> Comment:
    return Comment.objects.create(
        **_row_key(row), team=targets.row_team(row), by_id=by.pk, text=clean_text(text)
    )


def edit_comment(comment: Comment, by: AbstractBaseUser, text: str) -> None:
    """Edit a comment. Raises PermissionDenied if it is somebody else's."""
    if comment.by_id != by.pk:
        raise PermissionDenied("Only the author of a comment may change it.")
    comment.text, comment.edited_at = clean_text(text), timezone.now()
    comment.save(update_fields=["text", "edited_at"])


def may_delete(by: AbstractBaseUser, author_id: int | None, team_id: int) -> bool:
    """True for one's own comment; owners may delete anybody's."""
    return author_id == by.pk or has_role(by, team_id, Role.OWNER)


def delete_comment(comment: Comment, by: AbstractBaseUser) -> None:
    """Raises PermissionDenied."""
    if not may_delete(by, comment.by_id, comment.team_id):
        raise PermissionDenied(
            "Only the author of a comment, or an owner of the team, may delete it."
        )
    comment.delete()


def make_tag(team: Team, name: str, colour: int | None = None) -> Tag:
    """Return the team's tag of that name, or create it in the next colour of the palette."""
    name = tag_name(name)
    existing = Tag.objects.filter(team=team, name=name).first()
    if existing is not None:
        return existing
    chosen = Tag.objects.filter(team=team).count() % COLOURS if colour is None else colour
    return Tag.objects.get_or_create(team=team, name=name, defaults={"colour": chosen})[0]


def tag_row(row: Any, name: str) -> Tagging:
    return add_tag(row, make_tag(targets.row_team(row), name))


def add_tag(row: Any, tag: Tag) -> Tagging:
    """Tag a row; idempotent. Raises ValidationError for another team's tag."""
    if tag.team_id != targets.row_team(row).pk:
        raise ValidationError("That tag is another team's.")
    return Tagging.objects.get_or_create(**_row_key(row), tag=tag)[0]


def untag_row(row: Any, tag_id: int) -> None:
    """Remove a tag from a row; idempotent. A tag that no row has any more is deleted."""
    Tagging.objects.filter(**_row_key(row), tag=tag_id).delete()
    Tag.objects.filter(pk=tag_id, team=targets.row_team(row), taggings=None).delete()


def write_note(row: Any, by: AbstractBaseUser, text: str) -> Note:
    values = {"text": clean_text(text, empty=True), "by_id": by.pk, "team": targets.row_team(row)}
    return Note.objects.update_or_create(**_row_key(row), defaults=values)[0]


def set_star(row: Any, by: AbstractBaseUser, starred: bool) -> None:
    """Twice is as once."""
    mine = {**_row_key(row), "user_id": by.pk}
    if not starred:
        Star.objects.filter(**mine).delete()
        return
    try:
        with transaction.atomic():
            Star.objects.get_or_create(**mine)
    except IntegrityError:
        # two clicks at the same moment
        pass


def _row_key(row: Any) -> dict[str, Any]:
    return {"kind": targets.row_kind(row), "object_id": row.pk}


M = TypeVar("M", bound=Model)
TAG = "tag"


def filter_by_tag(request: HttpRequest, kind: Kind, rows: QuerySet[M]) -> QuerySet[M]:
    """Keep the rows with the tag of that name; all without ?tag=. Raises BadRequest for an unknown tag."""
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
