# SPDX-License-Identifier: Apache-2.0
"""Adapters for allauth: nobody signs up, secrets are encrypted at rest, a team may demand the second factor."""

from __future__ import annotations

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from benchlab import vault
from benchlab.team import invitations, login_limits
from benchlab.team.models import Membership


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    error_messages = {
        **DefaultAccountAdapter.error_messages,
        "too_many_for_account": "Too many failed login attempts for this account. Log in with a browser that you have"
        " used before, set a new password, or try again in an hour.",
    }
    attempts: list[login_limits.Attempt]

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Refuse sign-up: people join by invitation only (/join/)."""
        return False

    @transaction.atomic
    def set_password(self, user: Any, password: str) -> None:
        """Set the password and end what ends with it (benchlab/pages/team/accounts.py), or do nothing at all."""
        super().set_password(user, password)
        login_limits.forgive_account(user.get_username())

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Count the attempt before the password is checked. Raises ValidationError when there were too many.

        allauth's own limit on an account is for all addresses together, so anybody could shut its person out.
        """
        login = str(credentials.get("username", ""))
        self.attempts = []
        if device := login_limits.known_device(request, login):
            self._note(login_limits.count_device(device), "too_many_login_attempts")
            return
        self._note(login_limits.count_address(request), "too_many_login_attempts")
        attempt = login_limits.count_account_and_address(request, login)
        self._note(attempt, "too_many_login_attempts")
        if not login_limits.has_session(request, login):
            self._note(login_limits.count_stranger(login), "too_many_for_account")

    def _note(self, attempt: login_limits.Attempt | None, error: str) -> None:
        if attempt is None:
            raise self.validation_error(error)
        self.attempts.append(attempt)

    def authenticate(self, request: HttpRequest, **credentials: Any) -> Any:
        """Forgive the attempts that were counted if the password is right."""
        user = super().authenticate(request, **credentials)
        if user:
            for attempt in self.attempts:
                attempt.forgive()
        return user

    def post_login(self, request: HttpRequest, user: Any, **how: Any) -> HttpResponse:
        """Remember the browser, also after the second factor."""
        response: HttpResponse = super().post_login(request, user, **how)
        login_limits.remember_device(request, response, user.get_username())
        return response

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        return reverse("account")


class SecondFactorAdapter(DefaultMFAAdapter):  # type: ignore[misc]
    def encrypt(self, text: str) -> str:
        return vault.encrypt(text).decode()

    def decrypt(self, encrypted_text: str) -> str:
        return vault.decrypt(encrypted_text.encode())

    def get_totp_label(self, user: Any) -> str:
        return str(user.get_username())

    def build_totp_svg(self, url: str) -> str:
        """SVG to embed in a page: without the XML declaration before it."""
        svg: str = super().build_totp_svg(url)
        return svg[svg.index("<svg") :]

    def can_delete_authenticator(self, authenticator: Authenticator) -> bool:
        demanded = Membership.objects.filter(user=authenticator.user_id, team__require_mfa=True)
        return not demanded.exists()


class SingleSignOnAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Adapter of single sign-on.

    Its person connects an existing account; a new one needs an invitation, opened in this session.
    """

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        return invitations.remembered_invitation(request.session) is not None

    @transaction.atomic
    def save_user(self, request: HttpRequest, sociallogin: Any, form: Any = None) -> Any:
        user = super().save_user(request, sociallogin, form)
        invitation = invitations.remembered_invitation(request.session)
        if invitation is None:
            raise ValidationError("The invitation is no longer open.")
        invitations.accept_invitation(invitation, user)
        request.session.pop(invitations.SESSION_KEY, None)
        return user
