# SPDX-License-Identifier: Apache-2.0
"""The compare page: a choice of campaigns and lines, and a chart for each thing that was done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from benchlab.campaigns.models import Campaign
from benchlab.charts import request_params
from benchlab.charts.cards import Card, build_cards, with_differences
from benchlab.charts.conditions import line_differences
from benchlab.charts.queries import Group, Person, read_groups
from benchlab.topologies import moments
from benchlab.web import lists

# the parameter with the words to search for campaigns
CAMPAIGN_SEARCH = "pick"


def line_choices(
    request: HttpRequest, line_filter: request_params.Filter, every: Sequence[Group]
) -> dict[str, Any]:
    """Context for templates/charts/_chosen.html. `every`: the lines of the wanted campaigns. One query.

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
        "topologies": _choices(every, "topology"),
        "hosts": _choices(every, "host"),
        "workloads": _choices(every, "workload"),
        "stages": _stage_choices(every, line_filter),
    }


def _choices(every: Sequence[Group], part: str) -> list[tuple[int, str]]:
    pairs = {(getattr(group, part), getattr(group, f"{part}_name")) for group in every}
    return sorted(pairs, key=itemgetter(1))


def _stage_choices(
    every: Sequence[Group], line_filter: request_params.Filter
) -> list[tuple[str, str, bool]]:
    """Return (value, words, whether ticked) of the measured moments, in the order of time."""
    stages = {group.stage for group in every}
    codes = sorted(stages, key=lambda code: moments.parse_moment(code).time_order)
    words = {code: moments.describe_moment(code, codes) or "as built" for code in codes}
    return [
        (code or request_params.BUILT, words[code], code in line_filter.stages) for code in codes
    ]


@require_GET
def compare(request: HttpRequest) -> HttpResponse:
    """?campaign=1&campaign=2, narrowed down by ?topology=, ?host=, ?workload=, ?stage=."""
    line_filter = request_params.line_filter(request.GET)
    every = read_groups(request.user, line_filter.campaigns)
    context = {
        **line_choices(request, line_filter, every),
        "wanted": line_filter,
        "lines": line_filter.select_styled(every),
        "explore_url": f"{reverse('explore')}?{line_filter.full_query()}",
        "cards": _compared_cards(
            request.user, line_filter, every, request_params.requested_metric(request.GET)
        ),
    }
    return render(request, "charts/compare.html", context)


def _compared_cards(
    user: Person, line_filter: request_params.Filter, every: list[Group], metric: str
) -> list[Card]:
    """Build a chart for each kind of work, across workloads. Each states the conditions in which its lines differ."""
    unequal = line_differences(user, line_filter.select(every))
    groups = replace(line_filter, moment=None).select(every)
    urls = reverse("compare-figure"), reverse("compare-csv")
    return with_differences(build_cards(groups, *urls, line_filter, metric), unequal)
