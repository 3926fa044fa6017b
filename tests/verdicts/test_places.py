"""Places of answers: campaign, comparison, report and shared pages; to whom, and how many queries that takes."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from benchlab.hosts.models import FactSnapshot
from benchlab.runs.models import Layout
from benchlab.sharing import links
from benchlab.sharing.models import Share
from tests.charts import made
from tests.verdicts.bench import texts

pytestmark = pytest.mark.django_db


def test_another_teams_campaign_says_nothing(bench, other_api, other_web):
    bench.measure(bench.build("a"), 400)
    bench.measure(bench.build("b"), 1000)
    assert bench.answers(other_api) == []
    page = other_web.get(f"/compare/?campaign={bench.campaign.pk}")
    assert "Answers" not in texts(page)


def test_compare_page_over_campaigns(bench, web, api):
    bench.measure(bench.build("a"), 400)
    first = bench.campaign
    bench.campaign = made.campaign(bench.team, "Later")
    bench.measure(bench.build("a"), 1000)
    page = web.get(f"/compare/?campaign={first.pk}&campaign={bench.campaign.pk}")
    assert "Later does 2.5 times the IOPS of Cache or stripe" in texts(page)


def test_the_report_has_the_answers_too(bench, web):
    bench.measure(bench.build("cached stripe"), 400)
    bench.measure(bench.build("stripe"), 1000)
    page = texts(web.get(f"/campaigns/{bench.campaign.pk}/report/"))
    assert "stripe does 2.5 times the IOPS of cached stripe" in page


def share(bench, kind: str) -> str:
    """The address of a link to the campaign."""
    digest = links.token_digest(f"token-{kind}")
    Share.objects.create(
        team=bench.team, kind=kind, name=kind, digest=digest, hide_hosts=True,
        object_id=None if kind == "comparison" else bench.campaign.pk,
        query=f"campaign={bench.campaign.pk}" if kind == "comparison" else "",
        expires_at=timezone.now() + timedelta(days=1),
    )  # fmt: skip
    return f"/s/token-{kind}/"


@pytest.mark.parametrize("kind", ["report", "campaign", "comparison"])
def test_who_opens_a_link_reads_the_answer_by_its_names_and_is_led_nowhere(bench, kind):
    for name, top in (("cached stripe", 400), (f"stripe of {bench.host.name}", 1000)):
        bench.measure(bench.build(name), top)
    url = share(bench, kind)
    answer = Client().get(url)
    page = texts(answer)
    assert "stripe of host A does 2.5 times the IOPS of cached stripe" in page
    assert "95 % interval" in page and bench.host.name not in page
    raw = answer.content.decode()
    assert "/runs/" not in raw and "/docs/" not in raw
    assert "nothing to compare" not in page
    assert Client().get(f"{url}?metric=cpu.user").status_code == 200


def test_another_baseline_under_a_link_keeps_its_metric_and_nothing_else(bench):
    for name, top in (("cached stripe", 400), ("stripe", 1000)):
        bench.measure(bench.build(name), top)
    page = Client().get(f"{share(bench, 'campaign')}?metric=iops&host=7").content.decode()
    terms, baseline = re.findall(r'<form method="get" action="#answers".*?</form>', page, re.S)
    hidden = r'type="hidden" name="(\w+)" value="(\w+)"'
    assert re.findall(hidden, baseline) == [("metric", "iops")]
    [metric, (name, _)] = re.findall(hidden, terms)
    assert (metric, name) == (("metric", "iops"), "baseline")


def test_one_line_under_a_link_is_told_alone(bench):
    bench.measure(bench.build("stripe"), 1000)
    page = texts(Client().get(share(bench, "campaign")))
    assert "One layout: nothing to compare it with." in page


def test_how_many_queries(bench, web, django_assert_max_num_queries):
    for name in "abcd":
        bench.measure(bench.build(name), 400, repeats=(1,))
    url = f"/api/verdicts/?campaign={bench.campaign.pk}"
    web.get(url)
    # two of them read the noise of the lab, one the disks of layouts; a page caches the former
    with django_assert_max_num_queries(14):
        web.get(url)
    assert Layout.objects.count() == 4 and FactSnapshot.objects.count() == 1
