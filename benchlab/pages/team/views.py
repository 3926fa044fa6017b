# SPDX-License-Identifier: Apache-2.0
"""The API's page and a person's token."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from benchlab.audit import request_notes
from benchlab.pages.team import passwords
from benchlab.team import api_docs as docs
from benchlab.team import api_permission_rows, tokens
from benchlab.team.models import ApiToken, Team
from benchlab.team.roles import Role, role_rank
from benchlab.web import lists

# By the word that the list's address has for each column.
TOKENS = {
    "name": lists.name_column("Token"),
    "begins": lists.sort_column("Begins", "shown"),
    "role": lists.SortColumn("Role", role_rank()),
    "team": lists.name_column("Team", "team__name"),
    "made": lists.sort_column("Made (UTC)", "created_at"),
    "expires": lists.sort_column("Expires (UTC)", "expires_at"),
    "last": lists.sort_column("Last used (UTC)", "last_used_at"),
    "actions": lists.SortColumn("Actions"),
}


@require_GET
def api_docs(request: HttpRequest) -> HttpResponse:
    """Every operation of the schema, rendered by the server: no script, no foreign style."""
    groups = docs.operation_groups()
    context = {
        "groups": groups,
        "levels": [level.value for level in api_permission_rows.LEVELS],
        "nouns": api_permission_rows.noun_rows(groups),
        "pages": api_permission_rows.page_rows(),
    }
    return render(request, "team/api_docs.html", context)


class TokenForm(forms.ModelForm):  # type: ignore[type-arg]
    days = forms.IntegerField(
        min_value=1,
        max_value=tokens.MAX_DAYS,
        initial=tokens.DEFAULT_DAYS,
        label="Expires after",
        help_text="Days; a year at most.",
    )

    class Meta:
        model = ApiToken
        fields = ("name", "role", "team")

    def __init__(self, user: AbstractBaseUser | AnonymousUser, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["team"]
        assert isinstance(field, forms.ModelChoiceField)
        field.queryset, field.empty_label = Team.objects.for_user(user), "All of mine"


@require_http_methods(["GET", "POST"])
def api_tokens(request: HttpRequest) -> HttpResponse:
    """A person's tokens; a new one is shown this once."""
    # nobody comes here without a name
    assert isinstance(request.user, AbstractBaseUser)
    form, fresh = TokenForm(request.user, request.POST or None), ""
    if request.method == "POST" and form.is_valid():
        values = form.cleaned_data
        token, fresh = tokens.create_token(
            request.user, values["name"], Role(values["role"]), values["days"], values["team"]
        )
        request_notes.note_subject(request, token.team_id, f"token {token}, {token.role} at most")
        request_notes.mark_done(request)
        form = TokenForm(request.user)
    mine = ApiToken.objects.filter(user_id=request.user.pk).select_related("team")
    listed = lists.filter_rows(request, mine, TOKENS, ("name", "shown", "team__name"))
    context = {"fresh": fresh, "tokens": listed.rows, "listed": listed, "form": form}
    answer = render(request, "team/api_token.html", context)
    answer["Cache-Control"] = "no-store"
    return answer


@require_POST
def revoke_token(request: HttpRequest, pk: int) -> HttpResponse:
    """Delete a token; from now on it is unknown."""
    row = get_object_or_404(ApiToken, pk=pk, user_id=request.user.pk)
    request_notes.note_subject(request, row.team_id, f"token {row}")
    row.delete()
    return redirect("api-token")


@require_POST
def end_tokens(request: HttpRequest) -> HttpResponse:
    """All of the person's at once: somebody else may have one."""
    ended = tokens.revoke_all(request.user.pk or 0)
    request_notes.note_subject(request, None, passwords.token_count_text(ended))
    messages.success(request, f"{passwords.token_count_text(ended)} ended.")
    return redirect("api-token")
