# SPDX-License-Identifier: Apache-2.0
"""Guest who opens a share link: has no account, and sees the rows of that link and no others."""

from __future__ import annotations

from collections.abc import Mapping

from django.contrib.auth.models import AnonymousUser
from django.db.models import Model, Q


class Guest(AnonymousUser):
    """Guest as a user. Only `OwnedQuerySet.visible_to` knows it; to all else it is a stranger without an account."""

    def __init__(self, sees: Mapping[str, Q]) -> None:
        """`sees`: "runs.Attempt" -> which of them; a model that is not named is not seen at all."""
        super().__init__()
        self._sees = dict(sees)

    def rows_of(self, model: type[Model]) -> Q:
        return self._sees.get(model._meta.label, Q(pk__in=[]))
