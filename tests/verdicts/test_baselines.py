"""A person picks what the others are held against: a layout, a moment, a scheduler, a campaign; on pages and by API."""

from __future__ import annotations

import re

import pytest

from tests.charts import made
from tests.verdicts.bench import by_name

pytestmark = pytest.mark.django_db


def test_a_person_picks_the_baseline(bench, api, web):
    bench.measure(bench.build("a"), 400)
    second = bench.build("b")
    bench.measure(second, 1000)
    bench.measure(bench.build("c"), 2000)
    told = bench.answer(api, baseline=second.topology_id)
    assert [line["name"] for line in told["lines"]] == ["c", "b", "a"]
    assert by_name(told)["b"]["curve"] is None
    assert by_name(told)["a"]["curve"]["verdict"] == "slower"
    page = web.get(f"/campaigns/{bench.campaign.pk}/?baseline={second.topology_id}")
    assert f'<option value="t{second.topology_id}" selected>' in page.content.decode()


def options_of(page):
    """{text: value} of the choice of baselines, and what is chosen."""
    [form] = re.findall(r'<select id="answers-baseline".*?</select>', page.content.decode(), re.S)
    found = re.findall(r'<option value="([^"]+)"( selected)?>(.*?)</option>', form)
    [chosen] = [text for _, selected, text in found if selected]
    return {text: value for value, _, text in found}, chosen


def chosen_anew(bench, api, web, name, url):
    """Choose it on the page as a person does: page and API hold the others against it."""
    known, before = options_of(web.get(url))
    assert before != name and known.keys() == {before, name}
    page = web.get(url, {"baseline": known[name]})
    assert options_of(page)[1] == name
    told = api.get("/api/verdicts/", {"campaign": bench.campaign.pk, "baseline": known[name]})
    [answer] = told.json()["results"]
    assert by_name(answer)[name]["curve"] is None and by_name(answer)[name]["key"] == known[name]


def test_a_scheduler_is_a_baseline(bench, api, web):
    layout = bench.build("stripe")
    for scheduler, top in (("mq-deadline", 1000), ("none", 1500)):
        bench.measure(layout, top, scheduler=scheduler)
    url = f"/campaigns/{bench.campaign.pk}/"
    chosen_anew(bench, api, web, "scheduler none", url)


def test_a_moment_is_a_baseline(bench, api, web):
    layout = bench.build("stripe")
    bench.measure(layout, 1000)
    for attempt in bench.measure(layout, 1500, repeats=(4, 5, 6)):
        attempt.run.stage = "after-1"
        attempt.run.save()
    known, before = options_of(web.get(f"/campaigns/{bench.campaign.pk}/"))
    [other] = known.keys() - {before}
    chosen_anew(bench, api, web, other, f"/campaigns/{bench.campaign.pk}/")
    assert known[other] in ("mafter-1", "mbuilt")


def test_a_campaign_is_a_baseline(bench, web):
    bench.measure(bench.build("a"), 400)
    first = bench.campaign
    bench.campaign = made.campaign(bench.team, "Later")
    bench.measure(bench.build("a"), 1000)
    url = f"/compare/?campaign={first.pk}&campaign={bench.campaign.pk}"
    known, before = options_of(web.get(url))
    assert before == first.name and known["Later"].startswith(f"c{bench.campaign.pk}")
    page = web.get(f"{url}&baseline={known['Later']}")
    assert options_of(page)[1] == "Later"
    assert re.search(r'class="base">.*?Later', page.content.decode(), re.S)
