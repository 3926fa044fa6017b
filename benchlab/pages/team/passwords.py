# SPDX-License-Identifier: Apache-2.0
"""A new password and the API tokens: they end with the old one, whichever way it is set, unless the person keeps them.

Who changes a password may do so because somebody else knew it, and whoever logged in with it may have made a token.
"""

from __future__ import annotations

from typing import Any

from allauth.account.forms import ChangePasswordForm, SetPasswordForm
from allauth.core import context
from django import forms
from django.contrib import messages
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.template.defaultfilters import pluralize

from benchlab.audit import chain, request_notes
from benchlab.team import tokens
from benchlab.team.models import ApiToken

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
