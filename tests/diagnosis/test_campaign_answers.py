"""The diagnosis of a campaign that is over: a worker stores it, and the campaign's page shows it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from benchlab.campaigns.models import Campaign
from benchlab.diagnosis import answers, campaign_answers, campaigns
from benchlab.diagnosis.campaign_answers import sweep_campaigns
from benchlab.diagnosis.models import CampaignAnswer
from benchlab.findings.models import Finding, Looked
from benchlab.runs.models import Attempt
from tests.charts import made
from tests.diagnosis.made import RULES, four_diagnoses  # noqa: F401


@pytest.fixture
def campaign(team) -> Campaign:
    row = made.campaign(team)
    host, stack = made.host(team), made.topology(team, "raw")
    made.swept(row, host, stack, made.workload(team), depths=(1, 4), repeats=2)
    Looked.objects.create(campaign=row)
    return row


@pytest.fixture
def diagnosed(campaign, four_diagnoses):  # noqa: F811
    sweep_campaigns()
    return campaign


def shown(web, campaign: Campaign) -> str:
    text = web.get(f"/campaigns/{campaign.pk}/").content.decode()
    return text[text.index('id="diagnosis"') :].partition("</section>")[0]


def test_its_page_shows_three_with_their_runs(web, diagnosed):
    section = shown(web, diagnosed)
    first, _, folded = section.partition("<details>")
    assert first.count("<article") == 3 and folded.count("<article") == 1
    runs = list(diagnosed.runs.values_list("pk", flat=True))
    assert len(runs) == 4 and all(f"/runs/{run}/" in first for run in runs)
    assert "4 of the 4 runs" in first


def test_nothing_unusual_is_one_line(web, campaign, monkeypatch):
    fine = next(rule for rule in RULES if rule.id == "T3")
    monkeypatch.setattr(answers, "all_rules", lambda: {"T3": fine})
    sweep_campaigns()
    section = shown(web, campaign)
    assert section.index("Nothing unusual in 4 results.") < section.index("<details>")
    assert section.index("<details>") < section.index("<article")


@pytest.mark.parametrize(("severity", "all_clear"), [("doubt", False), ("note", True)])
def test_nothing_is_unusual_only_without_findings(web, campaign, monkeypatch, severity, all_clear):
    fine = next(rule for rule in RULES if rule.id == "T3")
    monkeypatch.setattr(answers, "all_rules", lambda: {"T3": fine})
    attempt = Attempt.objects.filter(run__campaign=campaign).first()
    Finding.objects.create(
        campaign=campaign, attempt=attempt, kind="above_ceiling", severity=severity, says="More"
    )
    sweep_campaigns()
    assert ("Nothing unusual" in shown(web, campaign)) is all_clear


def test_a_run_s_page_names_its_causes(web, diagnosed):
    text = web.get(f"/runs/{diagnosed.runs.first().pk}/").content.decode()
    causes = text[text.index('id="causes-title"') :].partition("</section>")[0]
    assert "Cap of the cloud" in causes and "Pace of the medium" not in causes
    assert f"/campaigns/{diagnosed.pk}/#diagnosis" in causes


def test_a_next_step_keeps_the_options_of_the_run(diagnosed):
    answer = CampaignAnswer.objects.get().answer
    steps = [step for row in answer["shown"] for step in row["next_steps"]]
    (workload,) = (step["workload"] for step in steps)
    assert workload["sweep"] == {"iodepth": [1, 4, 16]} and workload["options"]["direct"] is True


def test_it_is_made_once_until_results_or_rules_change(diagnosed, monkeypatch):
    made_for: list[Campaign] = []
    monkeypatch.setattr(
        campaign_answers, "store_answer", lambda campaign, at: made_for.append(campaign)
    )
    sweep_campaigns()
    assert made_for == []
    Looked.objects.update(at=timezone.now() + timedelta(seconds=1))
    sweep_campaigns()
    assert made_for == [diagnosed]
    CampaignAnswer.objects.update(compared_at=Looked.objects.get().at, rules="earlier")
    sweep_campaigns()
    assert made_for == [diagnosed] * 2


def test_a_fault_is_stored_as_no_answer(web, campaign, monkeypatch):
    def fail(campaign):
        raise RuntimeError

    monkeypatch.setattr(campaign_answers, "diagnose_campaign", fail)
    sweep_campaigns()
    assert CampaignAnswer.objects.get().answer["readable"] == 0
    assert b'id="diagnosis"' not in web.get(f"/campaigns/{campaign.pk}/").content


def test_a_campaign_without_an_answer_has_its_page(web, campaign):
    assert b'id="diagnosis"' not in web.get(f"/campaigns/{campaign.pk}/").content


def test_what_findings_say_is_not_called_unusual(campaign, monkeypatch, four_diagnoses):  # noqa: F811
    same = {"T1": "a finding", "T2": "a finding", "T4": "a finding"}
    monkeypatch.setattr(campaigns, "SAME_CAUSE", same)
    sweep_campaigns()
    answer = CampaignAnswer.objects.get().answer
    assert [row["rule"] for row in answer["shown"]] == ["T3"]
    assert not answer["nothing_unusual"] and "findings" in answer["headline"]
