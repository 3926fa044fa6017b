# SPDX-License-Identifier: Apache-2.0
"""A person's own account: e-mail address, sessions, password, and API tokens with the API's page.

Tokens end with the old password, whichever way a new one is set, unless the person keeps them. Who changes a password
may do so because somebody else knew it, and whoever logged in with it may have made a token.
"""

from __future__ import annotations

from typing import Any

from allauth.account.adapter import get_adapter
from allauth.account.decorators import reauthentication_required
from allauth.account.forms import ChangePasswordForm, SetPasswordForm
from allauth.core import context
from allauth.usersessions.adapter import get_adapter as get_session_adapter
from allauth.usersessions.models import UserSession
from django import forms
from django.contrib import messages
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.defaultfilters import pluralize
from django.views.decorators.http import require_GET, require_POST

from benchlab.audit import chain, request_notes
from benchlab.pages.shared import get_or_post
from benchlab.team import api_docs as docs
from benchlab.team import api_permission_rows, tokens
from benchlab.team.forms import EmailForm
from benchlab.team.models import ApiToken, Team
from benchlab.team.roles import Role, role_rank
from benchlab.team.services import requesting_user
from benchlab.web import lists
from benchlab.web.texts import parse_row_id

KEEP_TOKENS, END_TOKENS = "keep", "end"
# of a user whose new password is being set, said by the person
KEEPS_TOKENS = "keeps_tokens"


class TokenEndingValidator:
    """Among the password's validators, which Django tells of each new one: pages, links, `manage.py changepassword`."""

    def validate(self, password: str, user: Any = None) -> None:
        """Takes any."""

    def get_help_text(self) -> str:
        return "A new password ends the account's API tokens, unless you choose to keep them."

    def password_changed(self, password: str, user: AbstractBaseUser | None = None) -> None:
        if user is not None and not getattr(user, KEEPS_TOKENS, False):
            _end_tokens(user)


@transaction.atomic
def _end_tokens(user: AbstractBaseUser) -> None:
    """End the tokens and record it in the audit log, or do neither."""
    if not (ended := tokens.revoke_all(user.pk)):
        return
    name = user.get_username()
    subject = f"{token_count_text(ended)} of {name}: a new password"
    chain.add_entry("tokens-end", actor_id=user.pk, actor=name, via="password", subject=subject)


class TokenChoiceForm(forms.Form):
    """Asks a person who has tokens and sets a new password what becomes of them."""

    user: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.user is not None and (have := ApiToken.objects.filter(user=self.user.pk).count()):
            self.fields["tokens"] = forms.ChoiceField(
                label=f"Your {token_count_text(have)}",
                choices=[
                    ("", "Choose"),
                    (END_TOKENS, "End them all, with the old password"),
                    (KEEP_TOKENS, "Keep them: nobody else knew the password"),
                ],
                help_text="Who knew your password may have made some. Notebooks and scripts stop with theirs.",
            )

    def save(self) -> None:
        """Says on the next page, and in the audit log, what became of them."""
        request, have = context.request, ApiToken.objects.filter(user=self.user.pk).count()
        setattr(self.user, KEEPS_TOKENS, self.cleaned_data.get("tokens") == KEEP_TOKENS)
        super().save()  # type: ignore[misc]  # of allauth's form
        if have:
            outcome = "kept" if getattr(self.user, KEEPS_TOKENS) else "ended"
            request_notes.note_subject(request, None, f"{token_count_text(have)} {outcome}")
            messages.info(request, f"{token_count_text(have)} {outcome}.")


class ChangePassword(TokenChoiceForm, ChangePasswordForm):  # type: ignore[misc]
    """Knows the old one."""


class SetPassword(TokenChoiceForm, SetPasswordForm):  # type: ignore[misc]
    """Had none: logs in by single sign-on."""


def token_count_text(number: int) -> str:
    return f"{number} API token{pluralize(number)}"


# By the word that the list's address has for each column.
SESSIONS = {
    "since": lists.key_column("Since (UTC)", lambda session: session.created_at),
    "address": lists.key_column("Address", lambda session: session.ip),
    "browser": lists.key_column("Browser", lambda session: session.user_agent),
    "actions": lists.SortColumn("Actions"),
}


@require_GET
def account_page(request: HttpRequest) -> HttpResponse:
    sessions = UserSession.objects.filter(user=requesting_user(request)).count()
    return render(request, "account/account.html", {"sessions": sessions})


@get_or_post
@reauthentication_required  # type: ignore[untyped-decorator]
def change_email(request: HttpRequest) -> HttpResponse:
    """A link to set a new password goes there, so the password is asked for first."""
    form = EmailForm(
        request.POST or None, instance=User.objects.get(pk=requesting_user(request).pk)
    )
    if request.method == "POST" and form.is_valid():
        form.instance.save(update_fields=["email"])
        messages.success(request, "E-mail address changed.")
        return redirect("account")
    return render(request, "account/email.html", {"form": form})


@get_or_post
def session_list(request: HttpRequest) -> HttpResponse:
    """POST with `session` ends that one; without, all but this one."""
    user = requesting_user(request)
    if request.method == "POST" and (session_id := request.POST.get("session", "")):
        mine = UserSession.objects.filter(user=user)
        ended = get_object_or_404(mine, pk=parse_row_id(session_id))
        _end_sessions(request, [ended])
        return redirect("usersessions_list")
    if request.method == "POST":
        others = [row for row in UserSession.objects.filter(user=user) if not row.is_current()]
        _end_sessions(request, others)
        messages.success(request, "Signed out of all other sessions.")
        return redirect("usersessions_list")
    user_sessions = sorted(
        UserSession.objects.purge_and_list(user), key=lambda user_session: user_session.created_at
    )
    listed = lists.filter_in_memory(request, user_sessions, SESSIONS, _session_texts)
    context = {"sessions": listed.rows, "listed": listed, "several": len(user_sessions) > 1}
    return render(request, "usersessions/usersession_list.html", context)


def _end_sessions(request: HttpRequest, rows: list[UserSession]) -> None:
    """End the sessions, and log the person out if this session is among them."""
    includes_current = any(row.is_current() for row in rows)
    get_session_adapter().end_sessions(rows)
    if includes_current:
        adapter = get_adapter()
        adapter.add_message(request, messages.SUCCESS, "account/messages/logged_out.txt")
        adapter.logout(request)


def _session_texts(session: UserSession) -> tuple[str, ...]:
    return f"{session.created_at:%Y-%m-%d %H:%M}", session.ip, session.user_agent


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


@get_or_post
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
    request_notes.note_subject(request, None, token_count_text(ended))
    messages.success(request, f"{token_count_text(ended)} ended.")
    return redirect("api-token")
