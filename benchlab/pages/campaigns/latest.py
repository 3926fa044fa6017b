# SPDX-License-Identifier: Apache-2.0
"""The last results as Home tells them: of each campaign that is over one sentence, its verdict, and a small chart.

An answer that was dismissed is not told: the next one is, else what the first line says by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from django.core.cache import cache
from redis.exceptions import RedisError

from benchlab.analysis.verdicts import Conclusion
from benchlab.campaigns.models import Campaign
from benchlab.charts import line_analysis, sparkline
from benchlab.charts.queries import Group, Person, line_labels, line_styles, read_groups
from benchlab.pages.campaigns import heat_cells
from benchlab.verdicts import dismissals, single_line_summary
from benchlab.verdicts.answers import Answer, answers_of, medians_of
from benchlab.verdicts.conclusion import conclude_campaign
from benchlab.verdicts.dismissals import Presentation
from benchlab.verdicts.headlines import row_headline
from benchlab.verdicts.models import DismissedAnswer
from benchlab.verdicts.sentences import sentences

# lines or bars of a chart
MAX_LINES = 4
# results that are over change when they are read again, or by added repeats, which end a layout anew
CACHE_SECONDS = 600
CONCLUSIVE, NOT_CONCLUSIVE = "badge-done", "badge-doubt"


@dataclass(frozen=True, slots=True)
class CampaignResult:
    """`badge`: the class of the verdict's words."""

    sentence: str
    badge: str
    verdict: str
    chart: sparkline.SparkChart | None


def latest_results(user: Person, campaigns: Sequence[Campaign]) -> Mapping[int, Mapping[str, Any]]:
    """Campaign -> its Result as plain data; those without a result, or while the cache is away, have none.

    They are annotated with `ended`. A query for what was dismissed of them, two for all that were not asked for lately,
    and four for each of those.
    """
    dismissed = dismissals.dismissed_by_campaign(user, [campaign.pk for campaign in campaigns])
    keys = {
        _cache_key(campaign, dismissed.get(campaign.pk, [])): campaign for campaign in campaigns
    }
    try:
        cached = cache.get_many(list(keys))
        new = {key: campaign.pk for key, campaign in keys.items() if key not in cached}
        computed = _compute_results(user, new, dismissed)
        cache.set_many(computed, CACHE_SECONDS)
    except RedisError:
        return {}
    return {keys[key].pk: result for key, result in {**cached, **computed}.items() if result}


def _cache_key(campaign: Campaign, dismissed: Sequence[DismissedAnswer]) -> str:
    """Another one as soon as a layout ends anew, and where an answer is dismissed or taken back."""
    ended = vars(campaign)["ended"]
    times = (at.timestamp() if at else 0 for at in (campaign.created_at, ended))
    return "-".join(map(str, ("latest", campaign.pk, *times, dismissals.rows_version(dismissed))))


def _compute_results(
    user: Person, keys: Mapping[str, int], dismissed: Mapping[int, Sequence[DismissedAnswer]]
) -> dict[str, dict[str, Any]]:
    if not keys:
        return {}
    lines: dict[int, list[Group]] = {pk: [] for pk in keys.values()}
    for line in read_groups(user, lines, names=heat_cells.NAMES):
        lines[line.campaign].append(line)
    results = {key: _campaign_result(lines[pk], dismissed.get(pk, [])) for key, pk in keys.items()}
    return {key: asdict(result) if result else {} for key, result in results.items()}


def _campaign_result(
    groups: Sequence[Group], dismissed: Sequence[DismissedAnswer]
) -> CampaignResult | None:
    """Return the conclusion of a campaign with the chart of its first conclusive answer, or a summary of a line.

    With a single answer, that is the conclusion.
    """
    answers = _visible_answers(answers_of(groups), dismissed)
    if answers:
        first = next((answer for answer in answers if answer.decided), answers[0])
        result, conclusion = _comparison_result(first, groups), conclude_campaign(answers)
        return replace(result, sentence=conclusion.sentence) if conclusion else result
    name = next(iter(heat_cells.metric_choices(groups)), "")
    measured = [line for line in groups if name in line.units and medians_of(line, name)]
    # A sweep says more than a single figure, whichever workload is older.
    measured.sort(key=lambda line: not line.swept)
    of_one = [line for line in measured if line.workload == measured[0].workload]
    return _single_line_result(of_one, name) if of_one else None


def _visible_answers(
    answers: Sequence[Answer], dismissed: Sequence[DismissedAnswer]
) -> list[Answer]:
    noted = zip(answers, dismissals.notes_from_rows(answers, dismissed), strict=True)
    return [
        answer
        for answer, note in noted
        if dismissals.choose_presentation(note, worked_on=False) is not Presentation.LEFT_OUT
    ]


def _comparison_result(answer: Answer, groups: Sequence[Group]) -> CampaignResult:
    candidates = sentences(answer)
    conclusive = [
        candidate for candidate in candidates if candidate.conclusion != Conclusion.UNKNOWN
    ]
    sentence = (
        conclusive or [candidate for candidate in candidates if candidate.exceptions] or candidates
    )[0]
    rows = list(answer.rows[:MAX_LINES])
    if all(row.against for row in rows):
        rows[-1] = answer.baseline
    badge, verdict = (
        (CONCLUSIVE, "Conclusive") if conclusive else (NOT_CONCLUSIVE, "Not conclusive")
    )
    if not answer.is_over:
        badge, verdict = "", answer.pending_text
    row = [row for row in answer.others if row.against][candidates.index(sentence)]
    headline = row_headline(answer, row) if conclusive else None
    head = headline.text if headline and headline.is_certain else sentence.head
    return CampaignResult(
        ", ".join(filter(None, [head, sentence.exceptions])),
        badge,
        verdict,
        _small_chart(
            [row.group for row in rows], [row.label for row in rows], groups, answer.metric
        ),
    )


def _single_line_result(lines: Sequence[Group], name: str) -> CampaignResult:
    """Nothing to hold it against: the knee of its first line, else the best figure."""
    names, first = line_labels(lines), lines[0]
    knee_sentence = ""
    if line_analysis.curve_answer(first).knee:
        knee_sentence = f"Knee of {names[0]}: {line_analysis.curve_answer_text(first)}"
    repeats = max(sample.repeat for line in lines for sample in line.samples)
    return CampaignResult(
        knee_sentence or f"{names[0]}: {single_line_summary.best_text(first, name)}",
        NOT_CONCLUSIVE if repeats == 1 else "",
        "1 run each" if repeats == 1 else f"{repeats} repeats",
        _small_chart(lines[:MAX_LINES], names[:MAX_LINES], lines, name),
    )


def _small_chart(
    lines: Sequence[Group], names: Sequence[str], groups: Sequence[Group], name: str
) -> sparkline.SparkChart | None:
    """Draw a small chart in the colours of the workload's chart on the campaign's page."""
    beside = [line for line in groups if line.workload == lines[0].workload]
    styles = dict(zip((line.identity for line in beside), line_styles(beside), strict=True))
    sets = [
        sparkline.SetUp(
            label, styles[line.identity], medians_of(line, name), _drawn_knee(line, name)
        )
        for line, label in zip(lines, names, strict=True)
    ]
    return sparkline.build_sparkline(sets, name, lines[0].units[name])


def _drawn_knee(line: Group, name: str) -> int | None:
    """Depth that the campaign's chart rings; None without one."""
    knee = line_analysis.curve_answer(line).knee if name == "iops" else None
    return knee.at if knee and knee.drawn else None
