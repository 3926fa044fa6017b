# SPDX-License-Identifier: Apache-2.0
"""Sessions in the database. A cookie may hold any text, NUL included, which PostgreSQL refuses."""

from __future__ import annotations

from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import VALID_KEY_CHARS

# characters of a key that Django makes
MIN_KEY_CHARS = 8


class SessionStore(db.SessionStore):
    def _validate_session_key(self, key: str | None) -> bool:
        """False for a key that Django never made; the request then has no session."""
        return key is not None and len(key) >= MIN_KEY_CHARS and set(key) <= set(VALID_KEY_CHARS)
