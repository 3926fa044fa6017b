# SPDX-License-Identifier: Apache-2.0
"""Authentication backend: the user's row with the person's roles in all teams (current_roles.py), in one query."""

from __future__ import annotations

from typing import Any

from allauth.account.auth_backends import AuthenticationBackend
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User

from benchlab.team import current_roles


class Backend(AuthenticationBackend):  # type: ignore[misc]
    def get_user(self, user_id: Any) -> User | None:
        """Return the user; None for a deactivated one, whose sessions end with the next request."""
        user = User.objects.filter(pk=user_id).annotate(**current_roles.role_columns()).first()
        return user if user is not None and self.user_can_authenticate(user) else None

    async def aget_user(self, user_id: Any) -> User | None:
        return await sync_to_async(self.get_user)(user_id)
