# SPDX-License-Identifier: Apache-2.0
"""API tokens. The holder acts as the token's person, within its limits, and until it expires.

The database has only a token's SHA-256: 256 random bits need no slow hash.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from datetime import timedelta

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import Q
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from benchlab.team import current_roles
from benchlab.team.models import ApiToken, Team
from benchlab.team.roles import Role, limit_user

PREFIX = "blab_"
DEFAULT_DAYS, MAX_DAYS = 90, 366
SCHEMES = (b"token", b"bearer")
BASIC_USER = b"token"
# a write for each request would cost more than the request
USE_INTERVAL = timedelta(minutes=1)


def key_digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def create_token(
    user: AbstractBaseUser,
    name: str,
    role: Role,
    days: int = DEFAULT_DAYS,
    team: Team | None = None,
) -> tuple[ApiToken, str]:
    """Create a token. Return the row, and the key, which is stored nowhere.

    `role` is the most it may; `team`: the only one it sees.
    """
    key = PREFIX + secrets.token_urlsafe(32)
    token = ApiToken.objects.create(
        user_id=user.pk,
        name=name,
        role=role,
        team=team,
        digest=key_digest(key),
        shown=key[: len(PREFIX) + 4],
        expires_at=timezone.now() + timedelta(days=min(days, MAX_DAYS)),
    )
    return token, key


def revoke_all(user_id: int) -> int:
    """Revoke every token of a person; return how many there were."""
    return ApiToken.objects.filter(user_id=user_id).delete()[0]


class TokenAuthentication(BaseAuthentication):
    """Authentication by `Authorization: Token blab_…`, or Bearer.

    Tools that take only a URL use Basic with the user `token`.
    """

    def authenticate(self, request: Request) -> tuple[AbstractBaseUser, ApiToken] | None:
        words = get_authorization_header(request).split()
        if words and words[0].lower() == b"basic":
            words = [b"token", _token_of_basic(words[1:])]
        if not words or words[0].lower() not in SCHEMES:
            return None
        if len(words) != 2:
            raise AuthenticationFailed("The Authorization header must be: Token KEY")
        try:
            key = words[1].decode("ascii")
        except UnicodeDecodeError:
            raise AuthenticationFailed("That token is not valid.") from None
        token = (
            ApiToken.objects.select_related("user")
            .annotate(**current_roles.role_columns(current_roles.TOKEN_USER_COLUMN))
            .filter(digest=key_digest(key), user__is_active=True)
            .first()
        )
        if token is None:
            raise AuthenticationFailed("There is no such token, or it was revoked.")
        if token.expired:
            raise AuthenticationFailed(
                f"The token {token.name!r} expired on {token.expires_at:%Y-%m-%d}."
            )
        _note_use(token)
        current_roles.copy_roles(token, token.user)
        limit_user(token.user, Role(token.role), token.team_id)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return "Token"


def _token_of_basic(words: list[bytes]) -> bytes:
    """Token in place of the password. Raises AuthenticationFailed."""
    try:
        user, colon, key = base64.b64decode(b"".join(words), validate=True).partition(b":")
    except ValueError:
        user = colon = key = b""
    if user != BASIC_USER or not colon:
        raise AuthenticationFailed("With Basic, the user is: token, and the password the token.")
    return key


def _note_use(token: ApiToken) -> None:
    now = timezone.now()
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - USE_INTERVAL)
    if token.last_used_at is None or now - token.last_used_at > USE_INTERVAL:
        ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)
