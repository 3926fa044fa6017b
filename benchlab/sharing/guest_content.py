# SPDX-License-Identifier: Apache-2.0
"""Content of a share link: cards and a run's page as everywhere, with guest's addresses and hidden words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.http import Http404, HttpRequest
from django.urls import reverse

from benchlab.campaigns.models import Campaign, Run
from benchlab.charts import request_params, run_page
from benchlab.charts.cards import Card, build_cards, with_differences
from benchlab.charts.conditions import line_differences
from benchlab.charts.queries import Group, read_groups
from benchlab.runs.models import Attempt
from benchlab.runs.states import Outcome
from benchlab.sharing.links import BY_QUERY, OpenedLink


def lines_of(link: OpenedLink) -> list[Group]:
    """Return every line that the guest sees, under the guest's names."""
    return link.redaction.redact_groups(read_groups(link.guest, link.lines.campaigns))


def cards_of(link: OpenedLink, request: HttpRequest) -> list[Card]:
    """Build the cards of the shared page; ?metric= and ?moment= choose what they show without JavaScript."""
    figure, csv = (reverse(name, args=[link.token]) for name in ("shared-figure", "shared-csv"))
    groups = read_groups(link.guest, link.lines.campaigns)
    unequal = (
        link.redaction.redact_differences(line_differences(link.guest, groups)) if groups else {}
    )
    moment_filter = request_params.Filter(moment=request_params.requested_moment(request.GET))
    metric = request_params.requested_metric(request.GET)
    cards = build_cards(link.redaction.redact_groups(groups), figure, csv, moment_filter, metric)
    return with_differences(cards, unequal)


def shows_anything(link: OpenedLink) -> bool:
    """True if a campaign of the link's subject still exists."""
    return Campaign.objects.visible_to(link.guest).exists()


def campaign_of(link: OpenedLink) -> Campaign:
    """Return the link's campaign. Raises Http404 if it is gone or the link is about something else."""
    campaign = Campaign.objects.visible_to(link.guest).filter(pk=link.share.object_id or 0).first()
    if campaign is None or link.of_a_run or link.share.kind in BY_QUERY:
        raise Http404
    return campaign


def attempt_of(link: OpenedLink) -> Attempt:
    """Return the last successful attempt, else the last. Raises Http404 if there is none or the link is to no run."""
    rows = Attempt.objects.visible_to(link.guest).select_related(
        "facts", "layout", "run__campaign", "run__host", "run__topology", "run__workload"
    )
    if not link.of_a_run:
        raise Http404
    attempts = sorted(rows, key=lambda row: (row.outcome == Outcome.SUCCEEDED, row.number))
    if not attempts:
        raise Http404
    return attempts[-1]


def run_context(link: OpenedLink) -> dict[str, Any]:
    """Build the context of benchlab.charts.run_page without links into the app and without the engine's actions."""
    attempt = attempt_of(link)
    run: Run = attempt.run
    context = run_page.attempt_context(run, attempt)
    names = (
        "numbers",
        "measurements",
        "little",
        "latency",
        "devices",
        "sampled",
        "bundled",
        "work",
        "hits",
        "artifacts",
        "elsewhere",
        "meta",
    )
    plain = {name: link.redaction.redact(_as_list(context[name])) for name in names}
    return {
        **plain,
        # Without the lines of raw output, which a guest need not be given.
        "figures": [(row, None) for row in plain["measurements"]],
        "part": link.redaction.redact(replace(context["part"], tracks=())),
        "run": link.redaction.redact(run),
        "attempt": link.redaction.redact(attempt),
        "caches": context["caches"](),
        "meta": [pair for pair in plain["meta"] if pair[0] != "Boot"],
        "offered": not link.share.hide_hosts,
    }


def _as_list(value: Any) -> Any:
    """A queryset is read once, and its rows are copied when words are hidden in them."""
    return list(value) if hasattr(value, "iterator") else value
