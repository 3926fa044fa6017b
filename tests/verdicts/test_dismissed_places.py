"""One dismissed answer in every place that tells answers: Home, pages, reports, guests, the API; all of them agree."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchlab.findings.display import OmittedCounts
from benchlab.findings.models import Finding
from benchlab.sharing import links
from benchlab.sharing.models import SavedView, Share
from benchlab.verdicts.models import DismissedAnswer
from tests.charts import made
from tests.verdicts.bench import Bench

pytestmark = pytest.mark.django_db
NOTE = "The cache was cold."
SENTENCE = "times the IOPS of cached"


@pytest.fixture
def kept(settings):
    """A cache that keeps: tests have none."""
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    yield
    cache.clear()


@pytest.fixture
def two(bench) -> Bench:
    """Cached, and a stripe that does 2.5 times as much."""
    bench.layouts = [bench.build("cached"), bench.build("stripe")]
    for layout, top in zip(bench.layouts, (400, 1000), strict=True):
        bench.measure(layout, top)
    return bench


def words(page: str) -> str:
    """Words that are read of it."""
    read = re.sub(r"<(style|script)\b.*?</\1>", "", page, flags=re.S)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", read)))


def said_to(two, api, deed: str, workload: str = "") -> None:
    """Every answer, or that of one workload."""
    for one in two.answers(api):
        if workload in ("", one["workload"]):
            url = f"/api/verdicts/{two.campaign.pk}/{deed}/"
            assert api.post(url, {"answer": one["key"], "note": NOTE}).status_code == 200


def headline(web) -> tuple[str, str]:
    """(what Home says of the one campaign that is over, the words of its badge)."""
    [article] = re.findall(
        r'<article class="card w3 latest">(.*?)</article>', web.get(reverse("home")).text, re.S
    )
    says = re.search(r"<p><strong>(.*?)</strong></p>", article, re.S)[1]
    badges = re.findall(r'<span class="badge[^"]*">(.*?)</span>', article)
    return unescape(says), " ".join(badges)


def test_home_does_not_headline_what_was_dismissed(two, web, api, kept):
    before = headline(web)
    assert SENTENCE in before[0] and "Conclusive" in before[1]
    said_to(two, api, "dismiss")
    says, badges = headline(web)
    assert SENTENCE not in says and "onclusive" not in badges
    assert "cached" in says, "the plain figure of the first line"
    said_to(two, api, "take-back")
    assert headline(web) == before


def test_home_headlines_the_next_answer(two, web, api, kept):
    load = made.workload(two.team, "zz other")
    for layout, top in zip(two.layouts, (300, 900), strict=True):
        two.measure(layout, top, load=load)
    first, second = (one["workload"] for one in two.answers(api))
    before = headline(web)[0]
    said_to(two, api, "dismiss", first)
    after = headline(web)[0]
    assert before != after and SENTENCE in after
    said_to(two, api, "dismiss", second)
    assert SENTENCE not in headline(web)[0]


def test_home_headlines_what_says_another_thing_by_now(two, web, api, kept):
    said_to(two, api, "dismiss")
    row = DismissedAnswer.objects.get()
    row.said = {line: ["slower", 0.5] for line in row.said}
    row.save()
    assert SENTENCE in headline(web)[0]


@pytest.fixture
def finding(two, user) -> Finding:
    """Dismissed, between the set-ups."""
    return Finding.objects.create(
        campaign=two.campaign, workload=two.load, kind="overtakes", says="one overtakes two", severity="note",
        runs=[], note=NOTE, dismissed_at=timezone.now(), dismissed_by=user,
    )  # fmt: skip


COUNTED = "1 answer and 1 finding were dismissed by the team."
REPORTS = ("report", "file", "comparison's report", "comparison's file", "guest's report")


def page_of(two, web, user, what: str) -> str:
    """Its HTML, as who may read it gets it."""
    if what.startswith("guest's "):
        return Client().get(shared(two, what.removeprefix("guest's "))).text
    view = SavedView.objects.create(
        team=two.team, by=user, name=what, query=f"campaign={two.campaign.pk}"
    )
    addresses = {
        "campaign": f"/campaigns/{two.campaign.pk}/",
        "comparison": f"/compare/?campaign={two.campaign.pk}",
        "report": f"/campaigns/{two.campaign.pk}/report/",
        "file": f"/campaigns/{two.campaign.pk}/report.html",
        "comparison's report": f"/views/{view.pk}/report/",
        "comparison's file": reverse("view-report-file", args=[view.pk]),
    }
    answer = web.get(addresses[what])
    assert answer.status_code == 200, what
    return str(answer.text)


def shared(two, kind: str) -> str:
    Share.objects.create(
        team=two.team, kind=kind, name=kind, digest=links.token_digest(f"token-{kind}"), hide_hosts=True,
        object_id=None if kind == "comparison" else two.campaign.pk,
        query=f"campaign={two.campaign.pk}" if kind == "comparison" else "",
        expires_at=timezone.now() + timedelta(days=1),
    )  # fmt: skip
    return f"/s/token-{kind}/"


@pytest.mark.parametrize("what", REPORTS)
def test_reports_count_what_was_dismissed_and_tell_nothing_else_of_it(
    two, web, api, user, finding, what
):
    said_to(two, api, "dismiss")
    page = page_of(two, web, user, what)
    assert words(page).count(COUNTED) == 1
    for told in (SENTENCE, "one overtakes two", NOTE, 'class="answer"', ">Dismissed", "Ranked"):
        assert told not in page, told
    led = re.findall(r'<a href="([^"]*)">dismissed by the team</a>', page)
    assert len(led) == (1 if what.endswith("report") and not what.startswith("guest") else 0)
    for url in led:
        assert url.endswith("#answers") and "by alice" in web.get(unescape(url)).text


@pytest.mark.parametrize("what", REPORTS)
def test_reports_tell_what_was_taken_back_as_if_nobody_had_said_a_thing(
    two, web, api, user, finding, what
):
    said_to(two, api, "dismiss")
    said_to(two, api, "take-back")
    Finding.objects.update(dismissed_at=None, dismissed_by=None)
    page = page_of(two, web, user, what)
    assert SENTENCE in words(page) and "one overtakes two" in page
    assert NOTE not in page and "dismissed by the team" not in page


@pytest.mark.parametrize("what", REPORTS)
def test_reports_tell_what_says_another_thing_by_now(two, web, api, user, what):
    said_to(two, api, "dismiss")
    row = DismissedAnswer.objects.get()
    row.said = {line: ["slower", 0.5] for line in row.said}
    row.save()
    page = page_of(two, web, user, what)
    assert SENTENCE in words(page)
    assert "ismissed" not in words(page.replace("Dismiss…", "").replace(">Dismiss<", "><"))


@pytest.mark.parametrize(
    "what", ["campaign", "comparison", "guest's campaign", "guest's comparison"]
)
def test_pages_to_work_on_have_it_folded(two, web, api, user, finding, what):
    said_to(two, api, "dismiss")
    page = page_of(two, web, user, what)
    [card] = re.findall(r'<article class="answer".*?</article>', page, re.S)
    [said] = re.findall(r'<p class="muted">(Dismissed .*?)</p>\s*<details', card, re.S)
    team = not what.startswith("guest")
    assert ("by alice" in said, NOTE in said, "/take-back/" in page) == (team, team, team)
    [part] = re.findall(r'<section aria-labelledby="ranked-1">(.*?)</section>', page, re.S)
    assert part.index("<details") < part.index('class="ranked"'), "its table, too"
    assert SENTENCE in words(page) and COUNTED not in words(page)
    # A guest of a comparison reads nothing between set-ups.
    assert ("1 dismissed" in page) == (what != "guest's comparison")


def test_the_report_keeps_what_was_not_dismissed(two, web, api, user):
    load = made.workload(two.team, "zz other")
    for layout, top in zip(two.layouts, (300, 900), strict=True):
        two.measure(layout, top, load=load)
    said_to(two, api, "dismiss", two.load.name)
    page = page_of(two, web, user, "report")
    assert len(re.findall('<article class="answer"', page)) == 1
    assert "1 answer was dismissed by the team." in words(page)
    assert page.count('id="answers-baseline"') == 1, "though the first one is not there"


@pytest.mark.parametrize("what", ["report", "comparison's report", "guest's report"])
def test_a_report_without_its_only_answer_can_be_asked_for_another_baseline(
    two, web, api, user, what
):
    said_to(two, api, "dismiss")
    page = page_of(two, web, user, what)
    [chooser] = re.findall(r'<select id="answers-baseline".*?</select>', page, re.S)
    other = re.findall(r'<option value="([^"]*)">stripe', chooser)
    if what == "report":
        asked = {"baseline": unescape(other[0])}
        page = web.get(f"/campaigns/{two.campaign.pk}/report/", asked).text
        assert 'class="answer"' in page and "the IOPS of cached" in words(page)


def test_its_link_leads_to_the_same_baseline_and_metric(two, web, api):
    key = two.answer(api, metric="clat.p99")["key"]
    url = f"/api/verdicts/{two.campaign.pk}/dismiss/?metric=clat.p99"
    assert api.post(url, {"answer": key, "note": NOTE}).status_code == 200
    page = web.get(f"/campaigns/{two.campaign.pk}/report/?metric=clat.p99").text
    [led] = re.findall(r'<a href="([^"]*)">dismissed by the team</a>', page)
    assert led == f"/campaigns/{two.campaign.pk}/?metric=clat.p99#answers"


@pytest.mark.parametrize(
    ("answers", "findings", "said"),
    [(0, 0, ""), (1, 0, "1 answer was"), (0, 1, "1 finding was"), (2, 0, "2 answers were"),
     (1, 1, "1 answer and 1 finding were"), (2, 3, "2 answers and 3 findings were")],
)  # fmt: skip
def test_the_count_in_words(answers, findings, said):
    assert OmittedCounts(answers, findings).text == said
