"""{% load verdicts %}{% answers campaign %}: what a campaign's numbers say, in sentences and places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import template
from django.core.exceptions import BadRequest
from django.http import HttpRequest

from benchlab.analysis.ratio_words import times
from benchlab.campaigns.models import Campaign
from benchlab.charts import request_params
from benchlab.charts.queries import Group
from benchlab.charts.request_params import Filter
from benchlab.findings.templatetags.findings import may_add
from benchlab.runs.repeat_offers import Offer, Wanted, offers
from benchlab.verdicts import baselines, by_itself, matrix, ranks
from benchlab.verdicts.answers import Answer, answers_of, lines_of
from benchlab.verdicts.sentences import (
    interval_words,
    needed_words,
    ratio,
    repeats_number,
    sentences,
)

register = template.Library()
register.filter("times", times)
register.filter("ratio", ratio)
register.filter("interval", interval_words)
register.filter("repeats", repeats_number)
register.filter("needed", needed_words)

KEPT = ("metric", "moment", "campaign", "topology", "host", "workload", "stage")


@register.inclusion_tag("verdicts/_answers.html", takes_context=True)
def answers(context: dict[str, Any], campaign: Campaign) -> dict[str, Any]:
    """Of one campaign; ?baseline= is a key of benchlab.verdicts.baselines. A page that has its lines says them as
    `campaign_lines`."""
    request: HttpRequest = context["request"]
    wanted = Filter((campaign.pk,), moment=request_params.moment(request.GET))
    lines = context.get("campaign_lines")
    kept = lines_of(request.user, wanted) if lines is None else wanted.keep(lines)
    found = _context(request, kept)
    told = [three for *three, _ in found["answers"]]
    offered = _offers(campaign, [one for one, *_ in told]) if may_add(context, campaign) else {}
    found["answers"] = [(*three, offered.get(index)) for index, three in enumerate(told)]
    if not found["answers"] and (kept or campaign.question):
        found |= _alone(kept)
    return _to_read(context, found) | {
        "campaign_id": campaign.pk,
        "csrf_token": context.get("csrf_token"),
    }


@register.inclusion_tag("verdicts/_answers.html", takes_context=True)
def answers_compared(context: dict[str, Any], lines: Sequence[Group]) -> dict[str, Any]:
    """Of what the compare page shows."""
    return _to_read(context, _context(context["request"], lines))


@register.inclusion_tag("verdicts/_answers.html", takes_context=True)
def answers_shared(context: dict[str, Any], lines: Sequence[Group]) -> dict[str, Any]:
    """Of what a link shares, to who opened it: by the names that guests read, and leading nowhere."""
    request: HttpRequest = context["request"]
    wanted = Filter(moment=request_params.moment(request.GET))
    try:
        found = _context(request, wanted.keep(lines))
    except BadRequest:  # the charts show such a metric all the same
        return {}
    kept = [pair for pair in found["kept"] if pair[0] in ("metric", "moment")]
    named = context["link"].hiding.deep(found["named"])
    if not found["answers"] and lines:
        found |= _alone(wanted.keep(lines))
    return found | {"kept": kept, "named": named, "guest": True}


def _alone(lines: Sequence[Group]) -> dict[str, Any]:
    """What is said where nothing can be compared."""
    return {"alone": by_itself.of_workloads(lines), "why_alone": by_itself.why_alone(lines)}


def _to_read(context: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """In a file nobody is there to answer who asks for another baseline."""
    return found | {"choices": []} if context.get("in_file") else found


def _offers(campaign: Campaign, made: Sequence[Answer]) -> dict[int, Offer | None]:
    """By the place of the answer, of those that more repeats would probably decide."""
    wanted = {at: Wanted(one.open_runs, one.more) for at, one in enumerate(made) if one.more}
    return dict(zip(wanted, offers(campaign, list(wanted.values())), strict=True))


def _context(request: HttpRequest, found: Sequence[Group]) -> dict[str, Any]:
    baseline = baselines.wanted(request.GET)
    made = answers_of(found, request_params.metric(request.GET), baseline)
    choices: dict[str, str] = {}
    for key, name in (pair for one in made for pair in one.choices):
        choices.setdefault(key, name)
    first = made[0].baseline.key if made else ""
    return {
        "answers": [(one, sentences(one), ranks.table(one), None) for one in made],
        "choices": list(choices.items()) if len(choices) > 1 else [],
        "baseline": next((key for key in choices if key == baseline), first),
        "kept": [(k, v) for k in KEPT for v in request.GET.getlist(k) if v],
        "named": matrix.named(matrix.effects_of(found), matrix.SHOWN),
        "so_far": not all(one.over for one in made),
    }
