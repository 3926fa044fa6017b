# SPDX-License-Identifier: Apache-2.0
"""Confirmation phrase as it was mistyped: kept for the field that asks for it again.

It is kept in the session and not in the address: a link must not fill the field in.
"""

from __future__ import annotations

from typing import TypedDict

from django.http import HttpRequest

from benchlab.audit import request_notes
from benchlab.topologies import plan_view

SESSION_KEY = "agreeing"
# characters that are kept
MAX_TYPED_LENGTH = 200


class MistypedPhrase(TypedDict):
    """`wrong`: what is to be put right, in words."""

    phrase: str
    typed: str
    error: str


def is_confirmed(request: HttpRequest, phrase: str) -> bool:
    """True when the form's `typed` is the phrase, or none is wanted. If not, the page that is shown next says why."""
    typed = request.POST.get("typed", "")
    if not phrase or plan_view.is_agreed(typed, phrase):
        return True
    wrong = plan_view.agreement_error(typed, phrase)
    request_notes.mark_refused(request)
    request.session[SESSION_KEY] = MistypedPhrase(
        phrase=phrase, typed=typed[:MAX_TYPED_LENGTH], error=wrong
    )
    return False


def pop_mistyped(request: HttpRequest, phrase: str) -> MistypedPhrase | None:
    """Fault in what was typed, once: of that phrase, and no other."""
    mistyped: MistypedPhrase | None = request.session.get(SESSION_KEY)
    if mistyped is None or mistyped["phrase"] != phrase:
        return None
    del request.session[SESSION_KEY]
    return mistyped
