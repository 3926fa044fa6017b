"""A dismissed answer where others than the team read it: shared pages, the report, and the report as Markdown."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from benchlab.sharing import links, markdown
from benchlab.sharing.models import SavedView, Share
from tests.verdicts.bench import Bench, texts

pytestmark = pytest.mark.django_db
NOTE = "Cold *cache* of <host>."
SENTENCE = "stripe does 2.5 times the IOPS of cached"


@pytest.fixture
def two(bench, api) -> Bench:
    """A dismissed answer; the cached layout is the baseline."""
    for name, top in (("cached", 400), ("stripe", 1000)):
        bench.measure(bench.build(name), top)
    key = bench.answer(api)["key"]
    url = f"/api/verdicts/{bench.campaign.pk}/dismiss/"
    assert api.post(url, {"answer": key, "note": NOTE}).status_code == 200
    return bench


@pytest.mark.parametrize("kind", ["campaign", "comparison"])
def test_a_guest_reads_that_and_when_and_nothing_of_the_team(two, kind):
    Share.objects.create(
        team=two.team, kind=kind, name=kind, digest=links.token_digest(f"token-{kind}"), hide_hosts=True,
        object_id=None if kind == "comparison" else two.campaign.pk,
        query=f"campaign={two.campaign.pk}" if kind == "comparison" else "",
        expires_at=timezone.now() + timedelta(days=1),
    )  # fmt: skip
    page = Client().get(f"/s/token-{kind}/")
    [said] = re.findall(r'<p class="muted">(Dismissed .*?)</p>\s*<details', page.text, re.S)
    assert re.fullmatch(r"Dismissed \d{4}-\d\d-\d\d \d\d:\d\d UTC", said)
    assert SENTENCE in texts(page)
    for word in ("alice", "Cold", "/answers/", "/take-back/"):
        assert word not in page.text, word


def test_who_dismisses_it_in_the_report_comes_back_there(two, api, web):
    url, key = f"/campaigns/{two.campaign.pk}/report/", two.answer(api)["key"]
    back = f"/api/verdicts/{two.campaign.pk}/take-back/"
    assert api.post(back, {"answer": key, "note": "warm"}).status_code == 200
    [action] = re.findall(r'action="([^"]*/answers/dismiss/)"', web.get(url).text)
    answer = web.post(action, {"answer": key, "on": "report", "note": NOTE})
    assert answer["Location"] == f"{url}#answers"
    assert SENTENCE not in texts(web.get(url)) and "/answers/" not in web.get(url).text


def test_a_saved_comparisons_report_takes_nothing(two, api, web, user):
    view = SavedView.objects.create(
        team=two.team, by=user, name="v", query=f"campaign={two.campaign.pk}"
    )
    back = f"/api/verdicts/{two.campaign.pk}/take-back/"
    assert api.post(back, {"answer": two.answer(api)["key"], "note": "x"}).status_code == 200
    page = web.get(f"/views/{view.pk}/report/")
    assert SENTENCE in texts(page) and "/answers/" not in page.text


def test_markdown_counts_it_as_the_file_does(two, web):
    page = web.get(f"/campaigns/{two.campaign.pk}/report.html")
    text = markdown.convert_page(page.text, {}, "numbers.csv").text
    assert text.count("1 answer was dismissed by the team.") == 1
    for told in ("by alice", "Cold", "2.5 times the IOPS"):
        assert told not in page.text and told not in text, told
