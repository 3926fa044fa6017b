# SPDX-License-Identifier: Apache-2.0
"""{% load verdicts %}{% answers campaign %}: the answers of a campaign, in sentences and in ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django import template
from django.core.exceptions import BadRequest
from django.http import HttpRequest

from benchlab.analysis.formats import times_text
from benchlab.campaigns.models import Campaign
from benchlab.charts import request_params
from benchlab.charts.queries import Group, Person
from benchlab.charts.request_params import Filter
from benchlab.findings.display import OmittedCounts
from benchlab.findings.templatetags.findings import may_add
from benchlab.runs.repeat_offers import Offer, RepeatGoal, repeat_offers
from benchlab.verdicts import (
    baselines,
    dismissals,
    headlines,
    matrix,
    ranks,
    single_line_summary,
)
from benchlab.verdicts.answers import Answer, ToolTest, answers_of, compare_tests, lines_of
from benchlab.verdicts.conclusion import conclude_campaign
from benchlab.verdicts.dismissals import DismissalNote, Presentation
from benchlab.verdicts.headlines import Headline
from benchlab.verdicts.ranks import RankTable
from benchlab.verdicts.sentences import (
    Sentence,
    interval_words,
    needed_words,
    ratio_text,
    repeats_number,
    sentences,
)
from benchlab.web.lists import ALL, LINES

register = template.Library()
register.filter("times", times_text)
register.filter("ratio", ratio_text)
register.filter("interval", interval_words)
register.filter("repeats", repeats_number)
register.filter("needed", needed_words)
register.filter("has_efficiency", headlines.has_efficiency)

KEPT_PARAMS = ("metric", "moment", "campaign", "topology", "host", "workload", "stage")
PAGES = {"campaign-detail": "campaign", "campaign-report": "report", "compare": "compare"}


@dataclass(frozen=True, slots=True)
class Card:
    """An answer with everything that its card shows.

    `shown`: the answer with the set-ups that the page shows. `campaign`: the campaign in which the viewer may dismiss
    the answer; None if the viewer may not.
    """

    answer: Answer
    shown: Answer
    sentences: list[Sentence]
    table: RankTable
    headlines: tuple[Headline, ...]
    tests: list[ToolTest]
    note: DismissalNote
    presentation: Presentation = Presentation.PLAIN
    offer: Offer | None = None
    campaign: int | None = None

    @property
    def hidden(self) -> int:
        """Number of set-ups that the page does not show."""
        return len(self.answer.rows) - len(self.shown.rows)


@register.inclusion_tag("verdicts/_answers.html", takes_context=True)
def answers(context: dict[str, Any], campaign: Campaign) -> dict[str, Any]:
    """Show the answers of one campaign; ?baseline= is a key of benchlab.verdicts.baselines.

    A page that has the lines of the campaign passes them as `campaign_lines`.
    """
    request: HttpRequest = context["request"]
    line_filter = Filter((campaign.pk,), moment=request_params.requested_moment(request.GET))
    lines = context.get("campaign_lines")
    groups = lines_of(request.user, line_filter) if lines is None else line_filter.select(lines)
    result = _answers_context(request, groups, every=_shows_every_line(context))
    cards: list[Card] = result["answers"]
    # Dismissed answers need no more repeats.
    counted = [None if card.note.holds else card.answer for card in cards]
    offers_by_index = _repeat_offers(campaign, counted) if may_add(context, campaign) else {}
    may = campaign.pk if _may_dismiss(context, {campaign.team_id}) else None
    result["answers"] = [
        replace(card, offer=offers_by_index.get(at), campaign=may) for at, card in enumerate(cards)
    ]
    if not result["answers"] and (groups or campaign.question):
        result |= _uncompared_context(groups)
    return _context_for_page(context, result) | {
        "campaign_id": campaign.pk,
        "csrf_token": context.get("csrf_token"),
        "asked": urlencode(
            _query_pairs(request, ("metric", "moment", "baseline", *headlines.PARAMS))
        ),
        "on": PAGES.get(_page_name(request), "campaign"),
    }


@register.inclusion_tag("verdicts/_answers.html", takes_context=True)
def answers_compared(context: dict[str, Any], lines: Sequence[Group]) -> dict[str, Any]:
    """Show the answers of the compare page. A report of it shows what was dismissed, but takes no dismissals."""
    request: HttpRequest = context["request"]
    result = _answers_context(request, lines, every=_shows_every_line(context))
    if _page_name(request) == "compare":
        teams = _teams(result["answers"])
        result["answers"] = [
            replace(card, campaign=_dismissal_campaign(context, card.answer, teams))
            for card in result["answers"]
        ]
    return _context_for_page(context, result) | {
        "csrf_token": context.get("csrf_token"),
        "asked": urlencode(_query_pairs(request, (*KEPT_PARAMS, "baseline", *headlines.PARAMS))),
        "on": "compare",
    }


@register.inclusion_tag("verdicts/_answers.html", takes_context=True)
def answers_shared(context: dict[str, Any], lines: Sequence[Group]) -> dict[str, Any]:
    """Show the answers that a link shares to whoever opened it, by the names that guests read and without links."""
    request: HttpRequest = context["request"]
    line_filter = Filter(moment=request_params.requested_moment(request.GET))
    try:
        result = _answers_context(request, line_filter.select(lines), context["link"].guest)
    except BadRequest:
        # The charts show such a metric nevertheless.
        return {}
    hidden_fields = [pair for pair in result["kept"] if pair[0] in ("metric", "moment")]
    factors = context["link"].redaction.redact(result["factors"])
    if not result["answers"] and lines:
        result |= _uncompared_context(line_filter.select(lines))
    return _context_for_page(
        context, result | {"kept": hidden_fields, "factors": factors, "guest": True}
    )


def _uncompared_context(lines: Sequence[Group]) -> dict[str, Any]:
    """Context for lines that cannot be compared."""
    return {
        "alone": single_line_summary.summarize_workloads(lines),
        "why_alone": single_line_summary.why_not_compared(lines),
    }


def _context_for_page(context: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Adapt the cards to the page: a report leaves out dismissed answers, and counts them.

    A file offers neither another baseline nor a dismissal, as no server answers.
    """
    left_out: OmittedCounts | None = context.get("left_out")
    cards = [
        replace(
            card, presentation=dismissals.choose_presentation(card.note, worked_on=left_out is None)
        )
        for card in result["answers"]
    ]
    visible = [card for card in cards if card.presentation is not Presentation.LEFT_OUT]
    if left_out is not None:
        left_out.answers = len(cards) - len(visible)
    if context.get("in_file"):
        result, visible = (
            result | {"choices": [], "depths": []},
            [replace(card, campaign=None) for card in visible],
        )
    counted = [card.answer for card in visible if card.presentation is not Presentation.FOLDED]
    return result | {
        "answers": visible,
        "conclusion": conclude_campaign(counted),
        # A report is printed, and paper cannot be unfolded.
        "unfolded": left_out is not None,
        "factors": result["factors"] if cards else [],
    }


def _shows_every_line(context: Mapping[str, Any]) -> bool:
    """True in a report, which is printed, and where the viewer asked for all with ?lines=all."""
    return "left_out" in context or context["request"].GET.get(LINES) == ALL


def _page_name(request: HttpRequest) -> str:
    return (request.resolver_match.url_name or "") if request.resolver_match else ""


def _query_pairs(request: HttpRequest, names: Sequence[str]) -> list[tuple[str, str]]:
    """Query parameters that lead to these answers again, whatever else the page was asked for."""
    return [(name, value) for name in names for value in request.GET.getlist(name) if value]


def _may_dismiss(context: dict[str, Any], teams: set[int]) -> bool:
    return not context.get("link") and bool(teams) and teams <= set(context["may"].operator)


def _teams(cards: Sequence[Card]) -> dict[int, int]:
    """{campaign: its team}, without campaigns of the library, which are nobody's. One query if there are answers."""
    campaigns = {row.group.campaign for card in cards for row in card.answer.rows}
    if not campaigns:
        return {}
    rows = Campaign.objects.filter(pk__in=campaigns, team__library=False)
    return dict(rows.order_by().values_list("pk", "team"))


def _dismissal_campaign(
    context: dict[str, Any], answer: Answer, teams: Mapping[int, int]
) -> int | None:
    """The baseline's campaign, or another one if that is the library's.

    None unless the viewer is an operator in every team involved.
    """
    rows = [answer.baseline, *answer.others]
    own = [row.group.campaign for row in rows if row.group.campaign in teams]
    return own[0] if _may_dismiss(context, {teams[pk] for pk in own}) else None


def _repeat_offers(campaign: Campaign, answers: Sequence[Answer | None]) -> dict[int, Offer | None]:
    """Offers of more repeats for the answers that these would probably decide, by the index of the answer."""
    requests = {
        at: RepeatGoal(answer.open_runs, answer.needed_repeats)
        for at, answer in enumerate(answers)
        if answer and answer.needed_repeats
    }
    return dict(zip(requests, repeat_offers(campaign, list(requests.values())), strict=True))


def _answers_context(
    request: HttpRequest,
    groups: Sequence[Group],
    person: Person | None = None,
    *,
    every: bool = True,
) -> dict[str, Any]:
    """Context of the answers. `person`: the viewer, if that is not the user of the request.

    `every`: all set-ups are shown, however many they are.
    """
    baseline = baselines.requested_baseline(request.GET)
    metric = request_params.requested_metric(request.GET)
    terms = headlines.requested_terms(request.GET)
    answers = answers_of(groups, metric, baseline)
    shown = answers if every else [ranks.shorten(answer) for answer in answers]
    of_answers = headlines.headlines_of(shown, terms)
    kept_terms = _query_pairs(request, headlines.PARAMS)
    notes = dismissals.notes_of_answers(person or request.user, answers)
    choices: dict[str, str] = {}
    for key, name in (pair for answer in answers for pair in answer.choices):
        choices.setdefault(key, name)
    first = answers[0].baseline.key if answers else ""
    return {
        "answers": [
            Card(
                answer,
                few,
                sentences(few),
                ranks.rank_table(answer, some, few.rows),
                some,
                compare_tests(few),
                noted,
            )
            for answer, few, some, noted in zip(answers, shown, of_answers, notes, strict=True)
        ],
        "terms": terms,
        "statistics": headlines.STATISTICS,
        "depths": headlines.common_depths(of_answers),
        "kept_terms": kept_terms,
        "choices": list(choices.items()) if len(choices) > 1 else [],
        "baseline": next((key for key in choices if key == baseline), first),
        "kept": [(k, v) for k in KEPT_PARAMS for v in request.GET.getlist(k) if v],
        "factors": matrix.factors_of(groups, metric, matrix.MAX_EFFECTS),
        "so_far": not all(answer.is_over for answer in answers),
        "every_line": urlencode(
            [*_query_pairs(request, (*KEPT_PARAMS, "baseline", *headlines.PARAMS)), (LINES, ALL)]
        ),
    }
