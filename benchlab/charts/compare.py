# SPDX-License-Identifier: Apache-2.0
"""Several campaigns, topologies or hosts: a chart for each thing that was done, with what differs between its lines."""

from __future__ import annotations

from dataclasses import replace

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from benchlab.charts import chosen_lines, request_params
from benchlab.charts.cards import Card, cards, with_differences
from benchlab.charts.conditions import differences
from benchlab.charts.queries import Group, Person, groups


@require_GET
def compare(request: HttpRequest) -> HttpResponse:
    """?campaign=1&campaign=2, narrowed down by ?topology=, ?host=, ?workload=, ?stage=."""
    wanted = request_params.lines(request.GET)
    every = groups(request.user, wanted.campaigns)
    context = {
        **chosen_lines.offered(request, wanted, every),
        "wanted": wanted,
        "lines": wanted.seated(every),
        "explore_url": f"{reverse('explore')}?{wanted.whole()}",
        "cards": _cards(request.user, wanted, every, request_params.metric(request.GET)),
    }
    return render(request, "charts/compare.html", context)


def _cards(
    user: Person, wanted: request_params.Filter, every: list[Group], metric: str
) -> list[Card]:
    """A chart for each thing that was done, by whatever workload. Each says under which conditions its lines differ."""
    unequal = differences(user, wanted.keep(every))
    found = replace(wanted, moment=None).keep(every)
    urls = reverse("compare-figure"), reverse("compare-csv")
    return with_differences(cards(found, *urls, wanted, metric), unequal)
