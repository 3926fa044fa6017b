"""The report as one file: it holds all that it shows, fetches nothing, and runs no script but ours."""

from __future__ import annotations

import base64
import hashlib
import json
import re

import pytest
from django.urls import reverse

from benchlab.charts import figure_views
from benchlab.runs.models import Attempt, Measurement
from tests.charts import made

pytestmark = pytest.mark.django_db
MOST = 3_000_000  # bytes
HOSTILE = '</script><script>alert("x")</script> href="/x'


@pytest.fixture
def campaign(team, user):
    where, found, load = made.host(team), made.campaign(team), made.workload(team)
    found.question = HOSTILE
    found.save()
    for name in ("LVM 64 KiB", f"raw {HOSTILE[:60]}"):
        made.swept(found, where, made.topology(team, name), load, depths=(1, 4, 16))
    return found


@pytest.fixture
def file(web, campaign):
    answer = web.get(reverse("campaign-report-file", args=[campaign.pk]))
    assert answer.status_code == 200
    return answer


def text_of(answer) -> str:
    return answer.content.decode()


def test_it_is_saved_as_a_file_of_at_most_three_megabytes(file, campaign):
    said = file["Content-Disposition"]
    assert said == f'attachment; filename="campaign-{campaign.pk}-report.html"'
    assert len(file.content) < MOST


def test_it_asks_for_no_address(file):
    page = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", text_of(file), flags=re.S)
    assert not re.search(r"<(link|img|iframe|object|base)\b", page)
    assert not re.search(r"\bsrc=|<form\b", page)
    assert "url(" not in re.sub(r'url\("data:[^"]*"\)', "", _style(file))


def _style(answer) -> str:
    found = re.search(r"<style>(.*?)</style>", text_of(answer), re.S)
    assert found
    return found[1]


def test_its_policy_lets_its_own_scripts_run_and_no_other(file):
    page = text_of(file)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    allowed = set(re.findall(r"&#x27;(sha256-[^&]*)&#x27;", policy[1]))
    scripts = re.findall(r"<script>(.*?)</script>", page, re.S)
    assert len(scripts) == len(allowed) == 5
    for one in scripts:
        digest = base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()
        assert f"sha256-{digest}" in allowed
    assert "default-src &#x27;none&#x27;" in policy[1] and "unsafe-eval" not in policy[1]
    assert "alert(" not in "".join(scripts)
    assert '<script>alert("x")' not in page


def test_its_figures_hold_the_numbers_of_the_runs(file, campaign):
    kept = re.search(
        r'<script type="application/json" id="chart-\d+-figures">(.*?)</script>', text_of(file)
    )
    assert kept and "<" not in kept[1]
    figures = json.loads(kept[1])
    assert next(iter(figures)) == "iops"
    ours = Measurement.objects.filter(attempt__run__campaign=campaign, name="iops")
    smallest, largest = (
        min(ours.values_list("value", flat=True)),
        max(ours.values_list("value", flat=True)),
    )
    drawn = [y for trace in figures["iops"]["data"] for y in trace.get("y", []) if y]
    assert smallest <= max(drawn) <= largest * 1.001
    origin = figures["iops"]["layout"]["meta"]["origin"]
    runs = sorted(Attempt.objects.filter(run__campaign=campaign).values_list("run", flat=True))
    assert origin["runs"] == f"{runs[0]} to {runs[-1]}"
    assert f"(no. {campaign.pk})" in origin["campaign"]


def test_its_links_lead_to_the_lab(file):
    page = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", text_of(file), flags=re.S)
    assert 'href="http://testserver/docs/method/' in page
    assert 'href="/' not in page


def test_numbers_of_every_run_are_in_it_when_asked_for(web, campaign, file):
    assert "data:text/csv" not in text_of(file)
    answer = web.get(reverse("campaign-report-file", args=[campaign.pk]), {"numbers": "1"})
    found = re.search(r'href="data:text/csv;base64,([^"]*)"', text_of(answer))
    assert found
    rows = base64.b64decode(found[1]).decode().splitlines()
    assert len(rows) == 1 + campaign.runs.count()
    assert "iops" in rows[0]


def test_a_metric_that_nobody_knows_is_refused(web, campaign):
    answer = web.get(reverse("campaign-report-file", args=[campaign.pk]), {"metric": "no such"})
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("numbers", "words"),
    [([], ""), ([7], "7"), ([3, 1, 2, 2], "1 to 3"), ([1, 3, 4, 9], "1, 3 to 4, 9")],
)
def test_run_numbers_are_told_as_ranges(numbers, words):
    assert figure_views.number_ranges(numbers) == words


def test_many_ranges_are_cut_and_counted():
    assert figure_views.number_ranges(range(0, 200, 2)).endswith("78 and 60 more ranges")
