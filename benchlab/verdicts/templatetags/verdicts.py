"""{% load verdicts %}{% answers campaign %}: what a campaign's numbers say, in sentences and places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django import template
from django.http import HttpRequest
from django.urls import reverse

from benchlab.campaigns.models import Campaign
from benchlab.charts import request_params
from benchlab.charts.queries import Group
from benchlab.charts.request_params import Filter
from benchlab.verdicts import matrix
from benchlab.verdicts.answers import Answer, answers_of, lines_of
from benchlab.verdicts.sentences import (
    interval_words,
    needed_words,
    repeats_number,
    sentences,
    times,
)

register = template.Library()
register.filter("times", times)
register.filter("interval", interval_words)
register.filter("repeats", repeats_number)
register.filter("needed", needed_words)

KEPT = ("metric", "moment", "campaign", "topology", "host", "workload", "stage")


@register.inclusion_tag("verdicts/_answers.html", takes_context=True)
def answers(context: dict[str, Any], campaign: Campaign) -> dict[str, Any]:
    """Of one campaign; ?baseline= is a topology."""
    request: HttpRequest = context["request"]
    wanted = Filter((campaign.pk,), moment=request_params.moment(request.GET))
    again = "" if campaign.source else reverse("campaign-new")
    return _context(request, lines_of(request.user, wanted), again)


@register.inclusion_tag("verdicts/_answers.html", takes_context=True)
def answers_compared(context: dict[str, Any], lines: Sequence[Group]) -> dict[str, Any]:
    """Of what the compare page shows."""
    return _context(context["request"], lines)


def _context(request: HttpRequest, found: Sequence[Group], again: str = "") -> dict[str, Any]:
    baseline = request_params.number(request.GET, "baseline")
    made = answers_of(found, request_params.metric(request.GET), baseline)
    choices = dict.fromkeys(pair for one in made for pair in one.choices)
    return {
        "answers": [(one, sentences(one), _again(again, one)) for one in made],
        "choices": list(choices) if len(choices) > 1 else [],
        "baseline": baseline or (made[0].baseline.group.topology if made else None),
        "kept": [(k, v) for k in KEPT for v in request.GET.getlist(k) if v],
        "named": matrix.named(matrix.effects_of(found), matrix.SHOWN),
        "so_far": not all(one.over for one in made),
    }


def _again(url: str, one: Answer) -> str:
    """The wizard, filled in to measure the same with as many repeats as would decide."""
    if not url or not one.more:
        return ""
    rows = [row.group for row in one.rows]
    query: list[tuple[str, int]] = [
        *(("hosts", pk) for pk in dict.fromkeys(row.host for row in rows)),
        *(("topologies", pk) for pk in dict.fromkeys(row.topology for row in rows)),
        *(("workloads", pk) for pk in dict.fromkeys(row.workload for row in rows)),
        ("repeats", one.more),
    ]
    return f"{url}?{urlencode(query)}"
