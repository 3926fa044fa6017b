# SPDX-License-Identifier: Apache-2.0
"""Context of every template. `may.operator` and its like hold ids of teams: {% if host.team_id in may.operator %}."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from benchlab.team import current_roles


def may(request: HttpRequest) -> dict[str, object]:
    """Lazy object with the user's roles: a page that does not ask pays nothing."""
    return {
        "may": SimpleLazyObject(lambda: current_roles.user_roles(request.user)),
        "single_sign_on": settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"],
        "sends_mail": settings.SENDS_MAIL,
        "open_diagnosis": settings.BENCHLAB_OPEN_DIAGNOSIS,
    }
