# SPDX-License-Identifier: Apache-2.0
"""The last results as Home tells them: of each campaign that is over one sentence, its verdict, and a small chart.

An answer that was dismissed is not told: the next one is, else what the first line says by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from django.core.cache import cache
from redis.exceptions import RedisError

from benchlab.analysis.verdicts import Conclusion
from benchlab.campaigns.models import Campaign
from benchlab.charts import line_analysis, sparkline
from benchlab.charts.queries import Group, Person, line_labels, line_styles, read_groups
from benchlab.pages.campaigns import heat_metric
from benchlab.verdicts import dismissals, single_line_summary
from benchlab.verdicts.answers import Answer, answers_of, medians_of
from benchlab.verdicts.dismissals import Presentation
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
    said = dismissals.dismissed_by_campaign(user, [one.pk for one in campaigns])
    keys = {_cache_key(one, said.get(one.pk, [])): one for one in campaigns}
    try:
        known = cache.get_many(list(keys))
        new = {key: one.pk for key, one in keys.items() if key not in known}
        made = _compute_results(user, new, said)
        cache.set_many(made, CACHE_SECONDS)
    except RedisError:
        return {}
    return {keys[key].pk: told for key, told in {**known, **made}.items() if told}


def _cache_key(campaign: Campaign, said: Sequence[DismissedAnswer]) -> str:
    """Another one as soon as a layout ends anew, and where an answer is dismissed or taken back."""
    ended = vars(campaign)["ended"]
    times = (at.timestamp() if at else 0 for at in (campaign.created_at, ended))
    return "-".join(map(str, ("latest", campaign.pk, *times, dismissals.rows_version(said))))


def _compute_results(
    user: Person, keys: Mapping[str, int], said: Mapping[int, Sequence[DismissedAnswer]]
) -> dict[str, dict[str, Any]]:
    if not keys:
        return {}
    lines: dict[int, list[Group]] = {pk: [] for pk in keys.values()}
    for line in read_groups(user, lines, names=heat_metric.NAMES):
        lines[line.campaign].append(line)
    told = {key: _campaign_result(lines[pk], said.get(pk, [])) for key, pk in keys.items()}
    return {key: asdict(one) if one else {} for key, one in told.items()}


def _campaign_result(
    found: Sequence[Group], said: Sequence[DismissedAnswer]
) -> CampaignResult | None:
    """Of the lines of one campaign: the first answer that is decided, else what its first line says by itself."""
    answers = _visible_answers(answers_of(found), said)
    if answers:
        return _comparison_result(next((one for one in answers if one.decided), answers[0]), found)
    name = next(iter(heat_metric.metric_choices(found)), "")
    known = [line for line in found if name in line.units and medians_of(line, name)]
    of_one = [line for line in known if line.workload == known[0].workload]
    return _single_line_result(of_one, name) if of_one else None


def _visible_answers(made: Sequence[Answer], said: Sequence[DismissedAnswer]) -> list[Answer]:
    noted = zip(made, dismissals.notes_from_rows(made, said), strict=True)
    return [
        one
        for one, of in noted
        if dismissals.choose_presentation(of, worked_on=False) is not Presentation.LEFT_OUT
    ]


def _comparison_result(answer: Answer, found: Sequence[Group]) -> CampaignResult:
    said = sentences(answer)
    told = [one for one in said if one.conclusion != Conclusion.UNKNOWN]
    shown = (told or [one for one in said if one.exceptions] or said)[0]
    rows = list(answer.rows[:MAX_LINES])
    if all(row.against for row in rows):
        rows[-1] = answer.baseline
    return CampaignResult(
        ", ".join(filter(None, [shown.head, shown.exceptions])),
        CONCLUSIVE if told else NOT_CONCLUSIVE,
        "Conclusive" if told else "Not conclusive",
        _small_chart(
            [row.group for row in rows], [row.label for row in rows], found, answer.metric
        ),
    )


def _single_line_result(known: Sequence[Group], name: str) -> CampaignResult:
    """Nothing to hold it against: the knee of its first line, else the best figure."""
    names, first = line_labels(known), known[0]
    knee = line_analysis.curve_answer(first).knee
    says = f"Knee of {names[0]}: {line_analysis.knee_text(knee)}" if knee else ""
    repeats = max(sample.repeat for line in known for sample in line.samples)
    return CampaignResult(
        says or f"{names[0]}: {single_line_summary.best_text(first, name)}",
        NOT_CONCLUSIVE if repeats == 1 else "",
        "1 run each" if repeats == 1 else f"{repeats} repeats",
        _small_chart(known[:MAX_LINES], names[:MAX_LINES], known, name),
    )


def _small_chart(
    lines: Sequence[Group], names: Sequence[str], found: Sequence[Group], name: str
) -> sparkline.SparkChart | None:
    """In the colours that the workload's chart has on the campaign's page."""
    beside = [line for line in found if line.workload == lines[0].workload]
    styles = dict(zip((one.identity for one in beside), line_styles(beside), strict=True))
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
