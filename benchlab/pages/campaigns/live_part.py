# SPDX-License-Identifier: Apache-2.0
"""Live part of a campaign's page, rendered once for all who ask for the same and may do the same.

A change has every open page of the campaign ask at about the same time, and most of them show the same. What is a
person's own in it is the token of its forms, which each gets for themselves.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import render
from django.template.loader import render_to_string

from benchlab.campaigns.models import Campaign
from benchlab.runs.change_feed import change_listener
from benchlab.web.shared_answers import SharedAnswers, access_rights, may_be_shared

# Stands for the asker's token. It is in no answer that leaves, so nobody can write it into what others see.
TOKEN = secrets.token_urlsafe(32)
RENDERED_PARTS: SharedAnswers[str] = SharedAnswers()


def render_live_part(
    request: HttpRequest,
    campaign: Campaign,
    template: str,
    make: Callable[[], Mapping[str, Any]],
    *,
    own: bool,
) -> HttpResponse:
    """Render with the context of `make`. `own`: it contains something of this person's alone."""
    if own or not may_be_shared(request):
        return render(request, template, dict(make()))

    def render_shared() -> str:
        return render_to_string(template, {**make(), "csrf_token": TOKEN}, request)

    key = campaign.pk, request.META.get("QUERY_STRING", ""), access_rights(request.user)
    text = RENDERED_PARTS.get_or_make(
        key, change_listener.current_since(campaign.pk), render_shared
    )
    return HttpResponse(text.replace(TOKEN, get_token(request)) if TOKEN in text else text)
