"""An answer dismissed with a note and brought back: on pages, by API, while it says the same and when it does not."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from threading import Barrier

import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.test import Client

from benchlab.analysis.verdicts import Conclusion, _compare_frozen
from benchlab.audit.models import Entry
from benchlab.campaigns.models import Campaign
from benchlab.lifecycle import losses
from benchlab.runs import events
from benchlab.runs.models import Measurement
from benchlab.team.models import Membership, Team
from benchlab.team.roles import Role
from benchlab.verdicts.models import DismissedAnswer
from tests.api.conftest import client_of
from tests.charts import made
from tests.verdicts.bench import SEVEN, Bench, texts

pytestmark = pytest.mark.django_db
NOTE = "The cache was <b>cold</b>."
FOLD = "<summary>What it says</summary>"


@pytest.fixture
def two(bench) -> Bench:
    """Cached, and a stripe that does 2.5 times as much."""
    bench.layouts = [bench.build("cached"), bench.build("stripe")]
    for layout, top in zip(bench.layouts, (400, 1000), strict=True):
        bench.measure(layout, top)
    return bench


@pytest.fixture
def carol(team) -> User:
    person = User.objects.create_user("carol")
    Membership.objects.create(team=team, user=person)
    return person


def url(bench, deed: str = "dismiss", query: str = "") -> str:
    return f"/api/verdicts/{bench.campaign.pk}/{deed}/{query}"


def dismissed(bench, api, note: str = NOTE, **query) -> dict:
    key = bench.answer(api, **query)["key"]
    told = api.post(url(bench), {"answer": key, "note": note}, query_params=query)
    assert told.status_code == 200, told.content
    return told.json()


def scaled(layout, factor: float) -> None:
    """As if it had been measured otherwise; what is reckoned of it is reckoned anew."""
    for one in Measurement.objects.filter(attempt__layout=layout, name="iops"):
        Measurement.objects.filter(pk=one.pk).update(value=one.value * factor)


def card(page) -> str:
    [found] = re.findall(r'<article class="answer".*?</article>', page.content.decode(), re.S)
    return found


def form(html: str, deed: str) -> tuple[str, dict[str, str]]:
    """(address, hidden fields) of a card's form."""
    [action] = re.findall(rf'<form method="post" action="([^"]*/{deed}/[^"]*)"', html)
    part = html.partition(f'action="{action}"')[2].partition("</form>")[0]
    fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', part))
    return action.replace("&amp;", "&"), fields


def test_without_javascript_and_taken_back(two, web):
    page = f"/campaigns/{two.campaign.pk}/"
    action, fields = form(card(web.get(page)), "dismiss")
    answer = web.post(action, fields | {"note": NOTE})
    assert answer["Location"] == f"{page}#answers"
    shown = card(web.get(page))
    told, _, folded = shown.partition("<summary>What it says</summary>")
    assert re.search(
        r"Dismissed \d{4}-\d\d-\d\d \d\d:\d\d UTC by alice: The cache was &lt;b&gt;", told
    )
    folded = folded.partition("</details>")[0]
    assert "2.5 times the IOPS" in folded, "still told, in the fold"
    assert "/answers/dismiss/" not in shown
    assert '<span class="badge">Dismissed</span>' in web.get(page).content.decode()
    action, fields = form(shown, "take-back")
    assert web.post(action, fields | {"note": "It was warm."})["Location"] == f"{page}#answers"
    shown = card(web.get(page))
    assert "It was dismissed, and taken back: It was warm." in shown
    assert "/answers/dismiss/" in shown and FOLD not in shown


def test_a_page_that_asked_for_another_baseline_or_metric_comes_back(two, web):
    query = f"metric=clat.p99&baseline=t{two.layouts[1].topology_id}"
    page = f"/campaigns/{two.campaign.pk}/?log=all&{query}"
    action, fields = form(card(web.get(page)), "dismiss")
    answer = web.post(action, fields | {"note": NOTE})
    assert answer["Location"] == f"/campaigns/{two.campaign.pk}/?{query}#answers"
    assert "by alice" in card(web.get(page))
    assert "by alice" not in card(web.get(f"/campaigns/{two.campaign.pk}/")), "another answer"


def test_by_api(two, api, team):
    for body, name in (
        ({}, "answer"), ({"answer": "x"}, "note"), ({"answer": "x" * 41, "note": "x"}, "answer"),
    ):  # fmt: skip
        refused = api.post(url(two), body)
        assert refused.status_code == 400 and name in refused.json()["errors"], body
    key = two.answer(api)["key"]
    for note in ("", " \x00 ", "x" * 2001):
        assert api.post(url(two), {"answer": key, "note": note}).status_code == 400
    assert not DismissedAnswer.objects.exists()
    assert api.post(url(two), {"answer": "f" * 24, "note": NOTE}).status_code == 404
    assert api.post(url(two, "take-back"), {"answer": key, "note": NOTE}).status_code == 404
    assert two.answer(api)["dismissed"] is None
    told = dismissed(two, api)["dismissed"]
    assert (told["by"], told["note"], told["holds"], told["said"]) == ("alice", NOTE, True, "")
    assert two.answer(api)["dismissed"] == told
    entry = Entry.objects.filter(action="verdict.dismiss", outcome="done").get()
    assert (entry.actor, entry.team_id) == ("alice", team.pk)
    assert entry.subject.startswith(f"campaign {two.campaign.pk} (")
    back = api.post(url(two, "take-back"), {"answer": key, "note": "It was not."})
    assert back.status_code == 200 and back.json()["dismissed"] is None


def test_a_page_says_in_the_log_which_answer_it_was(two, web):
    action, fields = form(card(web.get(f"/campaigns/{two.campaign.pk}/")), "dismiss")
    web.post(action, fields | {"note": NOTE})
    entry = Entry.objects.filter(action="campaign-answer-dismiss", outcome="done").get()
    assert entry.subject.endswith(f"answer {two.load.name}: IOPS against cached")
    refused = web.post(action, fields | {"note": ""})
    assert refused["Location"] == f"/campaigns/{two.campaign.pk}/", "its top, where that is told"
    assert Entry.objects.filter(action="campaign-answer-dismiss", outcome="refused").count() == 1


def test_the_second_of_two_is_told(two, api, web, carol):
    key = two.answer(api)["key"]
    first = client_of(carol).post(url(two), {"answer": key, "note": "known"})
    assert first.status_code == 200
    refused = api.post(url(two), {"answer": key, "note": "mine"})
    assert refused.status_code == 409
    assert refused.json()["detail"] == "carol dismissed it before you. Your note was not kept."
    assert two.answer(api)["dismissed"]["note"] == "known"
    page = web.post(
        f"/campaigns/{two.campaign.pk}/answers/dismiss/", {"answer": key, "note": "x"}, follow=True
    )
    assert "carol dismissed it before you" in texts(page)
    for status in (200, 200):
        assert api.post(url(two, "take-back"), {"answer": key, "note": "no"}).status_code == status
    again = client_of(carol).post(url(two, "take-back"), {"answer": key, "note": "yes"})
    assert again.status_code == 409


@pytest.mark.django_db(transaction=True)
def test_at_the_very_moment_one_of_them_is_told(two, api, carol, user):
    key = two.answer(api)["key"]
    for _ in range(3):
        DismissedAnswer.objects.all().delete()
        both = Barrier(2)

        def press(person: User, both: Barrier = both) -> int:
            client = client_of(person)
            both.wait()
            try:
                return client.post(url(two), {"answer": key, "note": person.username}).status_code
            finally:
                connections.close_all()

        with ThreadPoolExecutor(2) as pool:
            found = dict(zip(("alice", "carol"), pool.map(press, (user, carol)), strict=True))
        assert sorted(found.values()) == [200, 409]
        row = DismissedAnswer.objects.get()
        assert row.note == row.dismissed_by.username and found[row.note] == 200


def test_open_pages_of_the_campaign_are_told(two, api, monkeypatch):
    told: list[int] = []
    monkeypatch.setattr(events, "notify_pages", told.append)
    dismissed(two, api)
    assert told == [two.campaign.pk]


def test_open_pages_get_the_answers_anew_and_no_chart(two, api, web):
    page = web.get(f"/campaigns/{two.campaign.pk}/").text
    for deed in ("dismiss", "take-back"):
        url = unescape(re.findall(r'id="campaign-now" hidden hx-get="([^"]*)"', page)[0])
        asked = {"HX-Request": "true", "HX-Target": "campaign-now"}
        assert 'id="campaign-answers"' not in web.get(url, headers=asked).text
        told = {"answer": two.answer(api)["key"], "note": NOTE}
        api.post(f"/api/verdicts/{two.campaign.pk}/{deed}/", told)
        page = web.get(url, headers=asked).text
        assert 'id="campaign-answers"' in page and 'id="campaign-results"' not in page
        assert ("data-dismissed" in page) == (deed == "dismiss")


def test_it_survives_what_says_the_same(two, api):
    """Measured anew with 2 % more, and with a further repeat."""
    dismissed(two, api)
    scaled(two.layouts[1], 1.02)
    two.measure(two.layouts[1], 1020, repeats=(4,))
    assert two.answer(api)["dismissed"]["holds"]


@pytest.mark.parametrize(("factor", "ratio"), [(0.4, "faster, 2.5×"), (2.0, "faster, 2.5×")])
def test_another_verdict_or_ratio_is_shown_with_what_was_said(two, api, web, factor, ratio):
    dismissed(two, api)
    scaled(two.layouts[1], factor)
    told = two.answer(api)["dismissed"]
    assert (told["holds"], told["said"]) == (False, ratio)
    shown = card(web.get(f"/campaigns/{two.campaign.pk}/"))
    assert f"UTC by alice when it said {ratio}: The cache was" in shown
    assert FOLD not in shown, "in sight"
    assert "/answers/dismiss/" in shown and "/answers/take-back/" in shown


def test_what_changed_is_dismissed_anew_by_anybody(two, api, carol):
    dismissed(two, api)
    scaled(two.layouts[1], 0.4)
    key = two.answer(api)["key"]
    told = client_of(carol).post(url(two), {"answer": key, "note": "Now it is the same."})
    assert told.status_code == 200 and told.json()["dismissed"]["by"] == "carol"
    assert told.json()["dismissed"]["holds"]


def test_who_answers_an_older_page_is_told(two, api):
    """The note is of what was seen, not of what it says by now."""
    key = two.answer(api)["key"]
    scaled(two.layouts[1], 0.4)
    refused = api.post(url(two), {"answer": key, "note": NOTE})
    assert refused.status_code == 409 and "another thing by now" in refused.json()["detail"]
    assert not DismissedAnswer.objects.exists()


def test_a_further_layout_is_told_by_its_name(two, api):
    dismissed(two, api)
    two.measure(two.build("mirror"), 700)
    told = two.answer(api)["dismissed"]
    assert (told["holds"], told["said"]) == (False, "nothing of mirror")
    dismissed(two, api, "both")
    narrow = two.answer(api, topology=[layout.topology_id for layout in two.layouts])
    assert narrow["dismissed"]["holds"], "a part of the same"
    dismissed(two, api, "of a part", topology=[layout.topology_id for layout in two.layouts])
    told = two.answer(api)["dismissed"]
    assert told["holds"] and told["note"] == "of a part"


def across(two) -> tuple[str, Campaign]:
    """(query, the later campaign): one layout in two campaigns."""
    first, two.campaign = two.campaign, made.campaign(two.team, "Later")
    two.measure(two.build("cached"), 900)
    query = f"campaign={first.pk}&campaign={two.campaign.pk}&topology={two.layouts[0].topology_id}"
    two.campaign = first
    return query, two.campaign


def test_on_the_compare_page_over_campaigns(two, web):
    query, first = across(two)
    page = f"/compare/?{query}"
    action, fields = form(card(web.get(page)), "dismiss")
    assert action.startswith(f"/campaigns/{first.pk}/answers/dismiss/?")
    answer = web.post(action, fields | {"note": NOTE})
    assert answer["Location"].startswith("/compare/?") and answer["Location"].endswith("#answers")
    assert "by alice" in card(web.get(answer["Location"]))
    assert "by alice" not in card(web.get(f"/campaigns/{first.pk}/")), "another answer"


def test_over_two_teams_it_takes_an_operator_of_both(two, web, user):
    theirs = Team.objects.create(name="Theirs")
    member = Membership.objects.create(team=theirs, user=user, role=Role.VIEWER)
    query, _ = across(two)
    Campaign.objects.filter(name="Later").update(team=theirs)
    page = f"/compare/?{query}"
    shown = card(web.get(page))
    assert "does 2." in shown and "/answers/dismiss/" not in shown
    member.role = Role.OPERATOR
    member.save()
    action, fields = form(card(web.get(page)), "dismiss")
    member.role = Role.VIEWER
    member.save()
    answer = web.post(action, fields | {"note": NOTE}, follow=True)
    assert "There is no such answer" in texts(answer) and not DismissedAnswer.objects.exists()


def test_against_the_library_it_is_the_own_campaigns(two, web):
    query, first = across(two)
    library = Team.objects.create(name="Library of this test", library=True)
    first.team = library
    first.save()
    later = Campaign.objects.get(name="Later")
    action, fields = form(card(web.get(f"/compare/?{query}")), "dismiss")
    assert action.startswith(f"/campaigns/{later.pk}/answers/dismiss/?")
    web.post(action, fields | {"note": NOTE})
    assert DismissedAnswer.objects.get().campaign == later
    assert web.post(action.replace(f"/{later.pk}/", f"/{first.pk}/"), fields).status_code == 404


def test_a_viewer_sees_no_form_and_is_refused(two, api, team):
    vera = User.objects.create_user("vera")
    Membership.objects.create(team=team, user=vera, role=Role.VIEWER)
    web = Client()
    web.force_login(vera)
    key = dismissed(two, api)["key"]
    shown = card(web.get(f"/campaigns/{two.campaign.pk}/"))
    assert "by alice: The cache" in shown and "/answers/" not in shown
    for deed in ("dismiss", "take-back"):
        page = f"/campaigns/{two.campaign.pk}/answers/{deed}/"
        assert web.post(page, {"answer": key, "note": "x"}).status_code == 403
        refused = client_of(vera).post(url(two, deed), {"answer": key, "note": "x"})
        assert refused.status_code == 403


def test_another_team_finds_none(two, api, other_api, other_web):
    key = dismissed(two, api)["key"]
    for deed in ("dismiss", "take-back"):
        body = {"answer": key, "note": "x"}
        assert other_api.post(url(two, deed), body).status_code == 404
        page = f"/campaigns/{two.campaign.pk}/answers/{deed}/"
        assert other_web.post(page, body).status_code == 404
    assert two.answer(api)["dismissed"]["note"] == NOTE


def test_it_goes_with_its_campaign(two, api):
    dismissed(two, api)
    assert ("notes on answers", 1) in [
        (one.what, one.number) for one in losses.count_losses(two.campaign).counted
    ]
    assert api.post(f"/api/campaigns/{two.campaign.pk}/archive/").status_code == 200
    assert two.answer(api)["dismissed"]["holds"], "archived is readable"
    Campaign.objects.filter(pk=two.campaign.pk).delete()
    assert not DismissedAnswer.objects.exists()


def test_the_queries_do_not_grow_with_what_was_dismissed(
    two, api, web, django_assert_max_num_queries
):
    for layout in two.layouts:
        two.measure(layout, 500, load=made.workload(two.team, f"w{layout.pk}"))
    two.measure(two.layouts[0], 500, load=(load := made.workload(two.team, "both")))
    two.measure(two.layouts[1], 900, load=load)
    page = f"/campaigns/{two.campaign.pk}/"
    web.get(page)
    with django_assert_max_num_queries(60) as few:
        web.get(page)
    most = len(few)
    for one in two.answers(api):
        api.post(url(two), {"answer": one["key"], "note": NOTE})
    assert DismissedAnswer.objects.count() == 2
    with django_assert_max_num_queries(most):
        web.get(page)


def verdict(told: dict) -> tuple[str, float]:
    """Of the only line that is held against the baseline."""
    [line] = [line for line in told["lines"] if line["curve"]]
    return line["curve"]["verdict"], line["curve"]["ratio"]


def of_one_build(bench, ratio: float) -> Bench:
    """Two I/O schedulers of one layout, the second so many times as fast, with hardly any noise."""
    layout = bench.build("stripe")
    bench.measure(layout, 1000, depths=SEVEN, noise=0.001, scheduler="mq-deadline")
    bench.measure(layout, 1000 * ratio, depths=SEVEN, noise=0.001, scheduler="none")
    return bench


def measured(bench, factor: float) -> None:
    """The second scheduler's, as if it had done so many times as much."""
    rows = Measurement.objects.filter(attempt__layout__campaign=bench.campaign, name="iops")
    for one in rows.filter(attempt__run__point__contains={"scheduler": "none"}):
        rows.filter(pk=one.pk).update(value=one.value * factor)


def test_another_word_brings_it_back_though_the_ratio_is_much_the_same(bench, api, web):
    """Faster, then no difference, with ratios less than 5 % apart: the word alone changes."""
    of_one_build(bench, 1.06)
    before = verdict(bench.answer(api))
    assert before[0] == "faster"
    assert dismissed(bench, api)["dismissed"]["holds"]
    measured(bench, 1.02 / 1.06)
    after = verdict(bench.answer(api))
    assert after[0] == Conclusion.NONE and after[1] / before[1] > 1 / 1.05
    told = bench.answer(api)["dismissed"]
    assert (told["holds"], told["said"].partition(",")[0]) == (False, "faster")
    assert "when it said faster" in card(web.get(f"/campaigns/{bench.campaign.pk}/"))


def test_a_flipped_sign_brings_it_back(bench, api, web):
    of_one_build(bench, 1.3)
    assert verdict(dismissed(bench, api))[0] == "faster"
    measured(bench, 1 / 1.3**2)
    told = bench.answer(api)
    assert verdict(told)[0] == "slower" and not told["dismissed"]["holds"]
    assert FOLD not in card(web.get(f"/campaigns/{bench.campaign.pk}/"))


def test_equal_numbers_told_anew_bring_nothing_back(bench, api, web):
    """Looked at again, stored again in another order, as reading them again from the raw output does."""
    of_one_build(bench, 1.3)
    first = dismissed(bench, api)
    rows = list(Measurement.objects.filter(attempt__layout__campaign=bench.campaign))
    Measurement.objects.filter(pk__in=[row.pk for row in rows]).delete()
    for row in reversed(rows):
        row.pk = None
        row.value *= 1 + 1e-12  # the last digit of a float
    Measurement.objects.bulk_create(reversed(rows))
    _compare_frozen.cache_clear()
    for _ in range(2):
        told = bench.answer(api)
        assert told["dismissed"] == first["dismissed"] and told["key"] == first["key"]
    assert FOLD in card(web.get(f"/campaigns/{bench.campaign.pk}/"))


def test_drift_by_small_steps_is_held_against_what_was_dismissed(bench, api):
    """Twice 4 % are more than 5 %: each step alone would not be."""
    of_one_build(bench, 1.3)
    dismissed(bench, api)
    for holds in (True, False):
        measured(bench, 1.04)
        assert bench.answer(api)["dismissed"]["holds"] is holds
