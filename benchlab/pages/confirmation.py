# SPDX-License-Identifier: Apache-2.0
"""Confirmation phrase as it was mistyped: kept for the field that asks for it again.

It is kept in the session and not in the address: a link must not fill the field in.
"""

from __future__ import annotations

from typing import TypedDict

from django.http import HttpRequest

from benchlab.audit import view_notes
from benchlab.topologies import planned

KEY = "agreeing"
# characters that are kept
MOST = 200


class Agreeing(TypedDict):
    """`wrong`: what is to be put right, in words."""

    phrase: str
    typed: str
    wrong: str


def agreed(request: HttpRequest, wanted: str) -> bool:
    """True when the form's `typed` is the phrase, or none is wanted. If not, the page that is shown next says why."""
    typed = request.POST.get("typed", "")
    if not wanted or planned.agreed(typed, wanted):
        return True
    wrong = planned.not_agreed(typed, wanted)
    view_notes.refused(request)
    request.session[KEY] = Agreeing(phrase=wanted, typed=typed[:MOST], wrong=wrong)
    return False


def told(request: HttpRequest, wanted: str) -> Agreeing | None:
    """Fault in what was typed, once: of that phrase, and no other."""
    kept: Agreeing | None = request.session.get(KEY)
    if kept is None or kept["phrase"] != wanted:
        return None
    del request.session[KEY]
    return kept
