# SPDX-License-Identifier: Apache-2.0
"""{% load verdicts %}{% answers campaign %}: what a campaign's numbers say, in sentences and places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django import template
from django.core.exceptions import BadRequest
from django.http import HttpRequest

from benchlab.analysis.ratio_words import times
from benchlab.campaigns.models import Campaign
from benchlab.charts import request_params
from benchlab.charts.queries import Group, Person
from benchlab.charts.request_params import Filter
from benchlab.findings.left_out import LeftOut
from benchlab.findings.templatetags.findings import may_add
from benchlab.runs.repeat_offers import Offer, Wanted, offers
from benchlab.verdicts import baselines, by_itself, dismissals, matrix, ranks
from benchlab.verdicts.answers import Answer, answers_of, lines_of
from benchlab.verdicts.dismissals import Look, Noted
from benchlab.verdicts.ranks import Table
from benchlab.verdicts.sentences import (
    Sentence,
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
PAGES = {"campaign-detail": "campaign", "campaign-report": "report", "compare": "compare"}


@dataclass(frozen=True, slots=True)
class Card:
    """`campaign`: under which whoever sees it may dismiss it; None: they may not."""

    answer: Answer
    says: list[Sentence]
    table: Table
    noted: Noted
    look: Look = Look.PLAIN
    offer: Offer | None = None
    campaign: int | None = None


@register.inclusion_tag("verdicts/_answers.html", takes_context=True)
def answers(context: dict[str, Any], campaign: Campaign) -> dict[str, Any]:
    """Of one campaign; ?baseline= is a key of benchlab.verdicts.baselines. A page that has its lines says them as
    `campaign_lines`."""
    request: HttpRequest = context["request"]
    wanted = Filter((campaign.pk,), moment=request_params.requested_moment(request.GET))
    lines = context.get("campaign_lines")
    kept = lines_of(request.user, wanted) if lines is None else wanted.select(lines)
    found = _context(request, kept)
    cards: list[Card] = found["answers"]
    # What was dismissed needs no more repeats.
    counted = [None if one.noted.holds else one.answer for one in cards]
    offered = _offers(campaign, counted) if may_add(context, campaign) else {}
    may = campaign.pk if _may_dismiss(context, {campaign.team_id}) else None
    found["answers"] = [
        replace(one, offer=offered.get(at), campaign=may) for at, one in enumerate(cards)
    ]
    if not found["answers"] and (kept or campaign.question):
        found |= _alone(kept)
    return _to_read(context, found) | {
        "campaign_id": campaign.pk,
        "csrf_token": context.get("csrf_token"),
        "asked": urlencode(_asked(request, ("metric", "moment", "baseline"))),
        "on": PAGES.get(_page(request), "campaign"),
    }


@register.inclusion_tag("verdicts/_answers.html", takes_context=True)
def answers_compared(context: dict[str, Any], lines: Sequence[Group]) -> dict[str, Any]:
    """Of what the compare page shows. A report of it tells what was dismissed, and takes nothing."""
    request: HttpRequest = context["request"]
    found = _context(request, lines)
    if _page(request) == "compare":
        teams = _teams(found["answers"])
        found["answers"] = [
            replace(one, campaign=_under(context, one.answer, teams)) for one in found["answers"]
        ]
    return _to_read(context, found) | {
        "csrf_token": context.get("csrf_token"),
        "asked": urlencode(_asked(request, (*KEPT, "baseline"))),
        "on": "compare",
    }


@register.inclusion_tag("verdicts/_answers.html", takes_context=True)
def answers_shared(context: dict[str, Any], lines: Sequence[Group]) -> dict[str, Any]:
    """Of what a link shares, to who opened it: by the names that guests read, and leading nowhere."""
    request: HttpRequest = context["request"]
    wanted = Filter(moment=request_params.requested_moment(request.GET))
    try:
        found = _context(request, wanted.select(lines), context["link"].guest)
    except BadRequest:
        # the charts show such a metric all the same
        return {}
    kept = [pair for pair in found["kept"] if pair[0] in ("metric", "moment")]
    factors = context["link"].hiding.deep(found["factors"])
    if not found["answers"] and lines:
        found |= _alone(wanted.select(lines))
    return _to_read(context, found | {"kept": kept, "factors": factors, "guest": True})


def _alone(lines: Sequence[Group]) -> dict[str, Any]:
    """Context where nothing can be compared."""
    return {"alone": by_itself.of_workloads(lines), "why_alone": by_itself.why_alone(lines)}


def _to_read(context: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Each as this page shows it: a report leaves out what was dismissed, and counts it. In a file nobody is there to
    answer who asks for another baseline, or dismisses."""
    left_out: LeftOut | None = context.get("left_out")
    cards = [
        replace(one, look=dismissals.look(one.noted, worked_on=left_out is None))
        for one in found["answers"]
    ]
    shown = [one for one in cards if one.look is not Look.LEFT_OUT]
    if left_out is not None:
        left_out.answers = len(cards) - len(shown)
    if context.get("in_file"):
        found, shown = found | {"choices": []}, [replace(one, campaign=None) for one in shown]
    return found | {"answers": shown, "factors": found["factors"] if cards else []}


def _page(request: HttpRequest) -> str:
    return (request.resolver_match.url_name or "") if request.resolver_match else ""


def _asked(request: HttpRequest, names: Sequence[str]) -> list[tuple[str, str]]:
    """By which these answers are found again, whatever else the page was asked for."""
    return [(name, value) for name in names for value in request.GET.getlist(name) if value]


def _may_dismiss(context: dict[str, Any], teams: set[int]) -> bool:
    return not context.get("link") and bool(teams) and teams <= set(context["may"].operator)


def _teams(cards: Sequence[Card]) -> dict[int, int]:
    """{campaign: its team}; nobody's are the library's. One query where there are answers."""
    campaigns = {row.group.campaign for one in cards for row in one.answer.rows}
    if not campaigns:
        return {}
    rows = Campaign.objects.filter(pk__in=campaigns, team__library=False)
    return dict(rows.order_by().values_list("pk", "team"))


def _under(context: dict[str, Any], answer: Answer, teams: Mapping[int, int]) -> int | None:
    """The baseline's campaign, or another one where that is the library's; None: the person is no operator in each."""
    rows = [answer.baseline, *answer.others]
    own = [row.group.campaign for row in rows if row.group.campaign in teams]
    return own[0] if _may_dismiss(context, {teams[one] for one in own}) else None


def _offers(campaign: Campaign, made: Sequence[Answer | None]) -> dict[int, Offer | None]:
    """By the place of the answer, of those that more repeats would probably decide."""
    wanted = {
        at: Wanted(one.open_runs, one.more) for at, one in enumerate(made) if one and one.more
    }
    return dict(zip(wanted, offers(campaign, list(wanted.values())), strict=True))


def _context(
    request: HttpRequest, found: Sequence[Group], person: Person | None = None
) -> dict[str, Any]:
    """`person`: who looks, where that is not who asks."""
    baseline = baselines.wanted(request.GET)
    metric = request_params.requested_metric(request.GET)
    made = answers_of(found, metric, baseline)
    said = dismissals.of_answers(person or request.user, made)
    choices: dict[str, str] = {}
    for key, name in (pair for one in made for pair in one.choices):
        choices.setdefault(key, name)
    first = made[0].baseline.key if made else ""
    return {
        "answers": [
            Card(one, sentences(one), ranks.table(one), noted)
            for one, noted in zip(made, said, strict=True)
        ],
        "choices": list(choices.items()) if len(choices) > 1 else [],
        "baseline": next((key for key in choices if key == baseline), first),
        "kept": [(k, v) for k in KEPT for v in request.GET.getlist(k) if v],
        "factors": matrix.factors_of(found, metric, matrix.SHOWN),
        "so_far": not all(one.over for one in made),
    }
