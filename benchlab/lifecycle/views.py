# SPDX-License-Identifier: Apache-2.0
"""Pages: another name, archive and restore, delete and bring back; and what is deleted and can be brought back."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from benchlab.audit import request_notes
from benchlab.lifecycle import archiving, deleting, losses, renaming
from benchlab.lifecycle.managed_kinds import MANAGED_KINDS, ManagedKind, Refused, managed_kind_of
from benchlab.topologies import plan_view
from benchlab.web import lists
from benchlab.web.deleted_rows import DeletedRow

# what a field showed when the page was made
PREVIOUS_PREFIX = "was-"
# of each noun on the page of what is deleted
MAX_ROWS = 100
DeletedEntry = tuple[ManagedKind, DeletedRow]
# By the word that the list's address has for each column.
COLUMNS = {
    "name": lists.key_column("Name", lambda entry: str(entry[1].row)),
    "type": lists.key_column("Type", lambda entry: entry[1].noun),
    "team": lists.key_column("Team", lambda entry: str(entry[1].row.team)),
    "by": lists.key_column("Deleted by", lambda entry: entry[1].row.deleted_by),
    "on": lists.key_column("On (UTC)", lambda entry: entry[1].row.deleted_at),
    "until": lists.key_column("Until (UTC)", lambda entry: entry[1].until),
    "actions": lists.SortColumn("Actions"),
}


def _noun_and_row(request: HttpRequest, kind: str, pk: int) -> tuple[ManagedKind, Any]:
    noun = MANAGED_KINDS[kind]
    return noun, get_object_or_404(noun.model.objects.for_user(request.user), pk=pk)


class RenameForm(forms.Form):
    """A name, and what else is said of the row; each with what the person saw, so that nothing is lost unseen."""

    def __init__(self, row: Any, data: Any = None) -> None:
        self.noun: ManagedKind = managed_kind_of(row)
        super().__init__(
            data, initial={name: getattr(row, name) for name in self.noun.editable_fields}
        )
        for name in self.noun.editable_fields:
            of_model = row._meta.get_field(name)
            self.fields[name] = (
                forms.CharField(max_length=of_model.max_length)
                if name == "name"
                else forms.CharField(required=False, widget=forms.Textarea(attrs={"rows": 3}))
            )

    @property
    def previous_values(self) -> dict[str, str]:
        """Previous values that the browser sends back, with its line endings (CRLF) converted to newlines."""
        return {
            name: self.data.get(f"{PREVIOUS_PREFIX}{name}", "").replace("\r\n", "\n")
            for name in self.noun.editable_fields
        }

    @property
    def new_values(self) -> dict[str, str]:
        return {
            name: self.cleaned_data[name].replace("\r\n", "\n")
            for name in self.noun.editable_fields
        }


@require_http_methods(["GET", "POST"])
def rename(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    """GET asks; `was-name` and its like are what the person saw. Only the form, to htmx."""
    noun, row = _noun_and_row(request, kind, pk)
    form = RenameForm(row, request.POST if request.method == "POST" else None)
    if not (form.is_bound and form.is_valid()):
        return _rename_page(request, noun, row, form)
    try:
        change = renaming.rename(row, form.previous_values, form.new_values)
    except ValidationError as error:
        form.add_error(None, ValidationError(error.message_dict))
        return _rename_page(request, noun, row, form)
    except Refused as refused:
        return _rename_page(request, noun, row, form, refused.why, 409)
    request_notes.note_subject(request, row.team_id, change)
    messages.success(request, f"It is called {row} now.")
    if request.htmx:  # type: ignore[attr-defined]
        answer = HttpResponse(status=204)
        answer["HX-Redirect"] = noun.detail_url(pk)
        return answer
    return redirect(noun.detail_url(pk))


def _rename_page(
    request: HttpRequest,
    noun: ManagedKind,
    row: Any,
    form: RenameForm,
    clash: str = "",
    status: int = 200,
) -> HttpResponse:
    """After a clash with what is there now as what was seen: whoever saves once more means it."""
    values = form.previous_values if form.is_bound and not clash else form.initial
    now = {name: getattr(row, name) for name in noun.editable_fields} if clash else values
    context = {
        "noun": noun,
        "row": row,
        "form": form,
        "was": [(f"{PREVIOUS_PREFIX}{name}", now[name]) for name in noun.editable_fields],
        "now": now if clash else None,
        "clash": clash,
        "url": noun.detail_url(row.pk),
    }
    # htmx puts no answer in place that is an error.
    part = "#rename-form" if request.htmx else ""  # type: ignore[attr-defined]
    return render(request, f"lifecycle/rename.html{part}", context, status=200 if part else status)


@require_POST
def archive(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    noun, row = _noun_and_row(request, kind, pk)
    try:
        archiving.archive(row, request.user)
    except Refused as refused:
        request_notes.mark_refused(request, refused.why)
    else:
        messages.success(
            request, f"{row} is archived: it has left lists and pickers, and stays readable here."
        )
    return redirect(noun.detail_url(pk))


@require_POST
def restore_row(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    noun, row = _noun_and_row(request, kind, pk)
    archiving.restore_row(row)
    messages.success(request, f"{row} is back in lists and pickers.")
    return redirect(noun.detail_url(pk))


@require_http_methods(["GET", "POST"])
def delete(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    """GET says what goes and what stays, and asks; POST deletes. `typed`: the phrase."""
    noun, row = _noun_and_row(request, kind, pk)
    if request.method != "POST":
        return _delete_page(request, noun, row)
    try:
        deleting.delete(row, request.user, str(request.POST.get("typed", "")))
    except Refused as refused:
        # a 410 where somebody else deleted it just now
        noun, row = _noun_and_row(request, kind, pk)
        expected = deleting.delete_phrase(row)
        typed = str(request.POST.get("typed", ""))
        wrong = "" if refused.uses else plan_view.agreement_error(typed, expected)
        more = {"typed": typed, "wrong": wrong}
        return _delete_page(request, noun, row, 409 if refused.uses else 200, **more)
    days = settings.BENCHLAB_GRACE_DAYS
    messages.success(request, f"{row} is deleted. It can be brought back for {days} days.")
    return redirect("deleted-list")


def _delete_page(
    request: HttpRequest, noun: ManagedKind, row: Any, status: int = 200, **more: str
) -> HttpResponse:
    context = {
        "noun": noun,
        "row": row,
        "uses": list(deleting.find_uses(row)),
        "losses": losses.count_losses(row),
        "phrase": deleting.delete_phrase(row),
        "days": settings.BENCHLAB_GRACE_DAYS,
        "url": noun.detail_url(row.pk),
        **more,
    }
    return render(request, "lifecycle/delete.html", context, status=status)


@require_POST
def bring_back(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    noun = MANAGED_KINDS[kind]
    row = get_object_or_404(noun.model.even_deleted.for_user(request.user), pk=pk)
    try:
        message = deleting.bring_back(row)
    except Refused as refused:
        request_notes.mark_refused(request, refused.why)
        return redirect("deleted-list")
    messages.success(request, f"{row} is back. {message}".strip())
    return redirect(noun.detail_url(pk))


@require_GET
def deleted_list(request: HttpRequest) -> HttpResponse:
    """Page of what was deleted: that it was there, who deleted it, and until when it can come back."""
    rows: list[DeletedEntry] = [
        (noun, DeletedRow(row))
        for noun in MANAGED_KINDS.values()
        for row in noun.model.even_deleted.for_user(request.user)
        .exclude(deleted_at=None)
        .select_related("team")
        .order_by("-deleted_at")[:MAX_ROWS]
    ]
    rows.sort(key=lambda entry: entry[1].row.deleted_at, reverse=True)
    listed = lists.filter_in_memory(request, rows, COLUMNS, _searched_texts)
    context = {"rows": listed.rows, "listed": listed, "days": settings.BENCHLAB_GRACE_DAYS}
    return render(request, "lifecycle/deleted.html", context)


def _searched_texts(entry: DeletedEntry) -> tuple[str, ...]:
    deleted = entry[1]
    return str(deleted.row), deleted.noun, str(deleted.row.team), deleted.row.deleted_by
