# SPDX-License-Identifier: Apache-2.0
"""Comments, tags, notes and stars, with the forms on a row's page that send them.

`visible_row` and `owned_row` are the one place that turns (kind, id) into a row, and say who may see and change it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from django.apps import apps
from django.contrib.auth.models import AbstractBaseUser, User
from django.core.exceptions import BadRequest, PermissionDenied, ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_http_methods, require_POST

from benchlab.audit import request_notes
from benchlab.sharing.models import COLOURS, Comment, Kind, Note, Star, Tag, Tagging
from benchlab.team.models import Team, has_role
from benchlab.team.roles import Role
from benchlab.team.services import Person, requesting_user
from benchlab.web.filters import unknown_word_message
from benchlab.web.texts import clean_text

SPACES = re.compile(r"\s+")


def tag_name(text: str) -> str:
    """Return the name as one line, without characters that would make two tags look the same."""
    return clean_text(SPACES.sub(" ", text), 40)


def add_comment(row: Any, by: AbstractBaseUser, text: str) -> Comment:
    return Comment.objects.create(
        **_row_key(row), team=row_team(row), by_id=by.pk, text=clean_text(text)
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
    return add_tag(row, make_tag(row_team(row), name))


def add_tag(row: Any, tag: Tag) -> Tagging:
    """Tag a row; idempotent. Raises ValidationError for another team's tag."""
    if tag.team_id != row_team(row).pk:
        raise ValidationError("That tag is another team's.")
    return Tagging.objects.get_or_create(**_row_key(row), tag=tag)[0]


def untag_row(row: Any, tag_id: int) -> None:
    """Remove a tag from a row; idempotent. A tag that no row has any more is deleted."""
    Tagging.objects.filter(**_row_key(row), tag=tag_id).delete()
    Tag.objects.filter(pk=tag_id, team=row_team(row), taggings=None).delete()


def write_note(row: Any, by: AbstractBaseUser, text: str) -> Note:
    values = {"text": clean_text(text, empty=True), "by_id": by.pk, "team": row_team(row)}
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
    return {"kind": row_kind(row), "object_id": row.pk}


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


MODELS = {
    Kind.HOST: "hosts.Host",
    Kind.TOPOLOGY: "topologies.Topology",
    Kind.WORKLOAD: "campaigns.Workload",
    Kind.CAMPAIGN: "campaigns.Campaign",
    Kind.RUN: "campaigns.Run",
}
GREATEST = 2**63 - 1


def model_of_kind(kind: str) -> Any:
    """Return the model of a kind. Raises Http404 for an unknown kind."""
    if kind not in MODELS:
        raise Http404(f"{kind[:20]!r} cannot have comments, tags or links.")
    return apps.get_model(MODELS[Kind(kind)])


def target_models() -> list[Any]:
    return [apps.get_model(label) for label in MODELS.values()]


def row_kind(row: Model) -> Kind:
    return next(kind for kind, label in MODELS.items() if label == row._meta.label)


def owned_row(user: Person, kind: str, pk: int) -> Any:
    """Return the row of a team in which the user has the role for this request. Raises Http404."""
    return _row_or_404(rows_of_kind(kind).for_user(user), kind, pk)


def visible_row(user: Person, kind: str, pk: int) -> Any:
    """Return the row, which may also be one of the reference library. Raises Http404."""
    return _row_or_404(rows_of_kind(kind).visible_to(user), kind, pk)


def rows_of_kind(kind: str) -> Any:
    rows = model_of_kind(kind)._default_manager.all()
    if kind == Kind.RUN:
        return rows.select_related("campaign__team", "topology", "workload")
    return rows.select_related("team")


def _row_or_404(rows: QuerySet[Any], kind: str, pk: int) -> Any:
    row = rows.filter(pk=pk).first() if 0 < pk <= GREATEST else None
    if row is None:
        raise Http404(f"There is no {kind} {pk}.")
    return row


def row_team(row: Any) -> Team:
    team: Team = row.campaign.team if row_kind(row) is Kind.RUN else row.team
    return team


def audit_name(row: Model) -> str:
    """ "campaign 12 (Stripe sizes)", as the audit log has it."""
    return f"{row._meta.verbose_name} {row.pk} ({row})"


def row_url(kind: str, pk: int) -> str:
    return reverse(f"{Kind(kind).value}-detail", args=[pk])


def visible_names(user: Person, pairs: Iterable[tuple[str, int]]) -> dict[tuple[str, int], str]:
    """Return {(kind, id): name} of the rows that the user sees. A query per kind."""
    return _names_by_key(pairs, lambda kind: rows_of_kind(kind).visible_to(user))


def current_names(user: Person, pairs: Iterable[tuple[str, int]]) -> dict[tuple[str, int], str]:
    """Return the same without archived rows."""
    return _names_by_key(pairs, lambda kind: rows_of_kind(kind).visible_to(user).current())


def _names_by_key(
    pairs: Iterable[tuple[str, int]], visible_rows: Callable[[str], QuerySet[Any]]
) -> dict[tuple[str, int], str]:
    ids: dict[str, list[int]] = {}
    for kind, pk in pairs:
        ids.setdefault(kind, []).append(pk)
    return {
        (kind, row.pk): str(row)
        for kind, some in ids.items()
        for row in visible_rows(kind).filter(pk__in=some)
    }


def delete_discussion(sender: Any, instance: Model, **rest: Any) -> None:
    """Delete the discussion about a deleted row."""
    for model in (Comment, Tagging, Note, Star):
        model.objects.filter(kind=row_kind(instance), object_id=instance.pk).delete()


@require_http_methods(["GET", "POST"])
def comment_edit(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(Comment.objects.for_user(request.user), pk=pk)
    text, message = row.text, ""
    if request.method == "POST":
        text = request.POST.get("text", "")
        try:
            edit_comment(row, requesting_user(request), text)
            return _redirect_back(row.kind, row.object_id)
        except ValidationError as error:
            message = error.messages[0]
    elif row.by_id != request.user.pk:
        # shows why not
        edit_comment(row, requesting_user(request), text)
    context = {
        "comment": row,
        "text": text,
        "said": message,
        "back": _talk_url(row.kind, row.object_id),
    }
    return render(request, "sharing/comment.html", context)


@require_POST
def comment_delete(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(Comment.objects.for_user(request.user), pk=pk)
    delete_comment(row, requesting_user(request))
    return _redirect_back(row.kind, row.object_id)


def _talk_form(change: Callable[[Any, User, QueryDict], object]) -> Callable[..., HttpResponse]:
    """Build the view of a form that changes what is said of a row, and comes back to it."""

    @require_POST
    def respond(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
        row = owned_row(request.user, kind, pk)
        _record_subject(request, row)
        try:
            change(row, requesting_user(request), request.POST)
        except ValidationError as error:
            request_notes.mark_refused(request, error.messages[0])
        return _redirect_back(kind, pk)

    return respond


def _remove_tag(row: Any, by: User, form: QueryDict) -> None:
    mine = Tag.objects.for_user(by).filter(team=row_team(row))
    if tag := mine.filter(name=form.get("tag", "")).first():
        untag_row(row, tag.pk)


comment_add = _talk_form(lambda row, by, form: add_comment(row, by, form.get("text", "")))
tag_add = _talk_form(lambda row, by, form: tag_row(row, form.get("name", "")))
tag_remove = _talk_form(_remove_tag)
note_save = _talk_form(lambda row, by, form: write_note(row, by, form.get("text", "")))


@require_POST
def star_set(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    """`on`: "yes" or "no". Also of the reference library's rows."""
    row = visible_row(request.user, kind, pk)
    _record_subject(request, row)
    set_star(row, requesting_user(request), request.POST.get("on") != "no")
    return redirect(row_url(kind, pk))


def _record_subject(request: HttpRequest, row: Any) -> None:
    """Name the subject for the audit log, which cannot resolve `kind` and `pk` of these URLs."""
    request_notes.note_subject(request, row_team(row).pk, audit_name(row))


def _talk_url(kind: str, pk: int) -> str:
    return f"{row_url(kind, pk)}#talk"


def _redirect_back(kind: str, pk: int) -> HttpResponse:
    return redirect(_talk_url(kind, pk))


ADDRESS = re.compile(r"https?://[^\s<>\"'`\\]{1,500}", re.IGNORECASE)
# belongs to the sentence more often than to the address
ENDS = ".,;:!?)]}"


def text_to_html(text: str) -> SafeString:
    """Return `text` as HTML. Only line breaks and links become markup; search engines do not follow the links."""
    parts: list[str] = []
    at = 0
    for match in ADDRESS.finditer(text):
        address = match.group().rstrip(ENDS)
        parts += [escape(text[at : match.start()]), _link(address)]
        at = match.start() + len(address)
    parts.append(escape(text[at:]))
    lines = "".join(parts).replace("\r\n", "\n").replace("\r", "\n")
    return mark_safe(lines.replace("\n", "<br>\n"))  # noqa: S308  # escaped above, part by part


def _link(address: str) -> str:
    if len(address) <= len("https://"):
        return escape(address)
    safe = escape(address)
    return f'<a href="{safe}" rel="nofollow noopener noreferrer">{safe}</a>'
