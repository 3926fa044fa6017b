# SPDX-License-Identifier: Apache-2.0
"""Diagnosis of campaigns that are over: a worker makes it and stores it, and pages only read it.

It is made anew when results changed since, and when BenchLab's rules did.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from hashlib import sha256

from django.db import InterfaceError, OperationalError
from django.db.models import Exists, OuterRef, QuerySet

from benchlab import __version__
from benchlab.analysis.finding import Severity
from benchlab.campaigns.models import Campaign
from benchlab.diagnosis import campaigns
from benchlab.diagnosis.answer_json import AnswerJson, answer_to_json, merge_answers
from benchlab.diagnosis.answers import MAX_SHOWN, NOTHING_WRONG, Answer, diagnose
from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.model import Diagnosis, Verdict, all_rules
from benchlab.diagnosis.models import CampaignAnswer
from benchlab.findings.models import Finding, Looked
from benchlab.workers.lease import Lock, lease

log = logging.getLogger(__name__)

# Campaigns per sweep: after an upgrade, an old lab is looked at in small steps.
AT_ONCE = 10


@cache
def rules_digest() -> str:
    """Digest of BenchLab's version and its rules: another one means that a stored answer is outdated."""
    return sha256(" ".join([__version__, *all_rules()]).encode()).hexdigest()[:32]


def sweep_campaigns() -> None:
    """Diagnose the campaigns whose set-ups were compared since: AT_ONCE of them, the newest first."""
    current = CampaignAnswer.objects.filter(
        campaign=OuterRef("campaign"), rules=rules_digest(), compared_at=OuterRef("at")
    )
    due = Looked.objects.filter(~Exists(current)).order_by("-campaign")
    for pk, at in list(due.values_list("campaign", "at")[:AT_ONCE]):
        with lease(pk, Lock.DIAGNOSIS) as held:
            campaign = Campaign.objects.filter(pk=pk).first() if held else None
            if campaign is not None:
                store_answer(campaign, at)


def store_answer(campaign: Campaign, compared_at: datetime) -> None:
    """Diagnose the campaign and store the answer. A fault of BenchLab is logged once, and the answer is empty."""
    try:
        answer = diagnose_campaign(campaign)
    except (OperationalError, InterfaceError):
        # the database is gone, not the campaign
        raise
    except Exception:
        log.exception("diagnosis of campaign %s", campaign.pk)
        answer = merge_answers([])
    defaults = {"answer": answer, "rules": rules_digest(), "compared_at": compared_at}
    CampaignAnswer.objects.update_or_create(campaign=campaign, defaults=defaults)


def diagnose_campaign(campaign: Campaign) -> AnswerJson:
    """The answer for the campaign, with the runs that show each diagnosis."""
    answers: list[Answer] = []
    runs_by_rule: dict[str, list[int]] = defaultdict(list)
    tests: dict[str, Result] = {}
    for evidence in campaigns.read_spread_evidence(campaign):
        answers.append(diagnose(evidence))
        test = evidence.results[0]
        for diagnosis in (*answers[-1].shown, *answers[-1].folded):
            runs_by_rule[diagnosis.rule].append(test.run)
            tests.setdefault(diagnosis.claim, test)
    merged = _without_all_clear(campaigns.merge_answers(answers))
    answer = answer_to_json(*_with_tests(merged, tests))
    for row in (*answer["shown"], *answer["folded"]):
        row["runs"] = sorted(set(runs_by_rule[row["rule"]]))
    explained = any(map(_has_finding, answers)) or _standing_findings(campaign).exists()
    if answer["nothing_unusual"] and explained:
        return {
            **answer,
            "headline": "No cause beyond what the findings above say.",
            "nothing_unusual": False,
        }
    return answer


def _standing_findings(campaign: Campaign) -> QuerySet[Finding]:
    """Findings that doubt or limit the campaign's figures."""
    severities = (Severity.DOUBT, Severity.LIMIT)
    rows = Finding.objects.filter(campaign=campaign, stands=True, severity__in=severities)
    return rows.filter(dismissed_at=None)


def _without_all_clear(answer: Answer) -> Answer:
    """The answer without "nothing unusual" of some runs, where other runs have a cause."""
    rows = [*answer.shown, *answer.folded]
    causes = [row for row in rows if row.rule != NOTHING_WRONG]
    kept = tuple(causes or rows)
    return replace(answer, shown=kept[:MAX_SHOWN], folded=kept[MAX_SHOWN:])


def _with_tests(answer: Answer, tests: Mapping[str, Result]) -> tuple[Answer, Evidence]:
    """The answer with each diagnosis about the test that shows it, and evidence of these tests."""
    places = {claim: at for at, claim in enumerate(tests)}

    def placed(rows: Sequence[Diagnosis]) -> tuple[Diagnosis, ...]:
        return tuple(replace(row, results=(places[row.claim],)) for row in rows)

    shown, folded = placed(answer.shown), placed(answer.folded)
    return replace(answer, shown=shown, folded=folded), Evidence(tuple(tests.values()))


def _has_finding(answer: Answer) -> bool:
    """True if a finding says the same as a diagnosis of this run, which the campaign's answer leaves out."""
    rows = (*answer.shown, *answer.folded)
    return any(row.rule in campaigns.SAME_CAUSE and row.verdict != Verdict.FINE for row in rows)


def campaign_answer(campaign: Campaign) -> AnswerJson | None:
    """The stored answer; None if there is none yet, or if no result of the campaign can be diagnosed."""
    row = getattr(campaign, "diagnosis", None)
    answer: AnswerJson | None = row.answer if row else None
    return answer if answer and answer["readable"] else None
