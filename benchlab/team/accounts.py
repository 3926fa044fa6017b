# SPDX-License-Identifier: Apache-2.0
"""Accounts, as a site admin manages them."""

from __future__ import annotations

from allauth.account.forms import default_token_generator
from allauth.account.utils import user_pk_to_url_str
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.urls import reverse

from benchlab.team import invitations, tokens


@transaction.atomic
def deactivate(user: User, by: User) -> None:
    """Deactivate a user: sessions, tokens and open invitations end at once.

    Raises ValidationError: nobody locks themselves out.
    """
    if user.pk == by.pk:
        raise ValidationError("You cannot deactivate yourself; another site admin can.")
    User.objects.filter(pk=user.pk).update(is_active=False)
    for session in UserSession.objects.filter(user=user):
        session.end()
    tokens.revoke_all(user.pk)
    invitations.revoke_all_of(user.pk)


def activate(user: User) -> None:
    """Reactivate a user with the old password and roles; sessions and tokens do not come back."""
    User.objects.filter(pk=user.pk).update(is_active=True)


@transaction.atomic
def remove_second_factor(user: User) -> None:
    """Remove the app's secret and the recovery codes. Sessions end: whoever asks for it may not be the person."""
    Authenticator.objects.filter(user=user).delete()
    for session in UserSession.objects.filter(user=user):
        session.end()


def reset_path(user: User) -> str:
    """Path on which the person sets a new password; good for a day, and until it is used."""
    return reverse(
        "account_reset_password_from_key",
        kwargs={
            "uidb36": user_pk_to_url_str(user),
            "key": default_token_generator.make_token(user),
        },
    )
