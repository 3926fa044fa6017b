# SPDX-License-Identifier: Apache-2.0
"""{% load charts %}{% campaign_charts campaign %}: every chart of a campaign with its table."""

from __future__ import annotations

from typing import Any

from django import template

from benchlab.campaigns.models import Campaign
from benchlab.charts.cards import campaign_cards

register = template.Library()


@register.inclusion_tag("charts/_cards.html", takes_context=True)
def campaign_charts(context: dict[str, Any], campaign: Campaign) -> dict[str, Any]:
    return {"cards": campaign_cards(context["request"].user, campaign.pk)}
