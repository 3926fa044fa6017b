# SPDX-License-Identifier: Apache-2.0
"""Several campaigns, topologies or hosts: a chart for each thing that was done, with what differs between its lines."""

from __future__ import annotations

from dataclasses import replace

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from benchlab.charts import chosen_lines, request_params
from benchlab.charts.cards import Card, build_cards, with_differences
from benchlab.charts.conditions import line_differences
from benchlab.charts.queries import Group, Person, read_groups


@require_GET
def compare(request: HttpRequest) -> HttpResponse:
    """?campaign=1&campaign=2, narrowed down by ?topology=, ?host=, ?workload=, ?stage=."""
    line_filter = request_params.line_filter(request.GET)
    every = read_groups(request.user, line_filter.campaigns)
    context = {
        **chosen_lines.line_choices(request, line_filter, every),
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
    """A chart for each thing that was done, by whatever workload. Each says under which conditions its lines differ."""
    unequal = line_differences(user, line_filter.select(every))
    groups = replace(line_filter, moment=None).select(every)
    urls = reverse("compare-figure"), reverse("compare-csv")
    return with_differences(build_cards(groups, *urls, line_filter, metric), unequal)
