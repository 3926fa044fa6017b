# SPDX-License-Identifier: Apache-2.0
"""Choices of lines on pages that compare several campaigns: campaigns, and parts of what is in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import Q
from django.http import HttpRequest

from benchlab.campaigns.models import Campaign
from benchlab.charts import request_params
from benchlab.charts.queries import Group
from benchlab.topologies import moments
from benchlab.web import lists

# the parameter with words that campaigns are found by
CAMPAIGN_SEARCH = "pick"


def line_choices(
    request: HttpRequest, line_filter: request_params.Filter, every: Sequence[Group]
) -> dict[str, Any]:
    """For templates/charts/_chosen.html. `every`: the lines of the wanted campaigns. One query.

    With ?pick= those whose names have its words, and those that are ticked. Raises BadRequest: too long.
    """
    visible = Campaign.objects.visible_to(request.user)
    if text := lists.search_text(request, CAMPAIGN_SEARCH):
        visible = visible.filter(
            lists.match_words(("name",), text) | Q(pk__in=line_filter.campaigns)
        )
    # What the address names, too
    visible = visible.filter(Q(archived_at=None) | Q(pk__in=line_filter.campaigns))
    campaigns = list(visible.only("name", "created_at", "source"))
    library = [row for row in campaigns if row.source == Campaign.Source.LIBRARY]
    return {
        "pick": text,
        "picks": bool(text) or len(campaigns) > lists.MAX_UNSEARCHED_CHOICES,
        "campaigns": [row for row in campaigns if row.source != Campaign.Source.LIBRARY],
        "library": library,
        "topologies": _sorted_choices((group.topology, group.topology_name) for group in every),
        "hosts": _sorted_choices((group.host, group.host_name) for group in every),
        "workloads": _sorted_choices((group.workload, group.workload_name) for group in every),
        "stages": _stage_choices(every, line_filter),
    }


def _sorted_choices(pairs: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    return sorted(set(pairs), key=lambda pair: pair[1])


def _stage_choices(
    every: Sequence[Group], line_filter: request_params.Filter
) -> list[tuple[str, str, bool]]:
    """(value, words, whether ticked) of the moments that were measured, in the order of time."""
    codes = sorted(
        {group.stage for group in every}, key=lambda code: moments.parse_moment(code).time_order
    )
    return [
        (
            code or request_params.BUILT,
            moments.describe_moment(code, codes) or "as built",
            code in line_filter.stages,
        )
        for code in codes
    ]
