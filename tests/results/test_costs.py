"""Queries of pages of results, and of the exports: as much for many runs as for few."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.charts import made


def line(team, campaign, host, name: str, depths=(1, 4)) -> None:
    stack = made.topology(team, name)
    made.swept(campaign, host, stack, made.workload(team), depths=depths, repeats=2)


def cost(client, url: str) -> int:
    client.get(url)  # caches of the process
    with CaptureQueriesContext(
        connection,
    ) as asked:
        answer = client.get(url)
        assert answer.status_code == 200
        if answer.streaming:
            list(answer.streaming_content)
    return len(asked)


@pytest.fixture
def campaigns(team, user):
    host = made.host(team)
    found = [made.campaign(team, name) for name in ("one", "two")]
    for campaign in found:
        line(team, campaign, host, "raw")
        line(team, campaign, host, "bcache")  # two, so that there is something to compare
    return found, host


# Sessions, users and the top bar of a page are three of them. Who adds one says why.
PAGES = {
    # One of answers: the disks of layouts.
    "/campaigns/{0}/": 29,
    "/campaigns/{0}/figure.json": 5,
    # 3 of answers: in what order layouts were built, how alike rebuilt ones and repeats are (both kept for 10 minutes);
    # 1 of those that were dismissed; 3 of factors: settings of layouts, and the latter two again.
    "/compare/?campaign={0}&campaign={1}": 20,
    # 5 of conditions that differ and saved views, as the page that compares has them.
    "/explore/?campaign={0}&campaign={1}&x=iops&y=lat.mean": 12,
    "/explore/figure.json?campaign={0}&campaign={1}": 6,
    "/compare/figure.json?campaign={0}&campaign={1}": 12,
}  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("address", PAGES)
def test_a_page_costs_the_same_for_many_runs(web, team, campaigns, address):
    found, host = campaigns
    url = address.format(*(one.pk for one in found))
    few = cost(web, url)
    for campaign in found:
        for name in ("LVM", "md", "ZFS"):
            line(team, campaign, host, name, depths=(1, 2, 4, 8))
    assert cost(web, url) == few <= PAGES[address]


@pytest.mark.parametrize("url", ["/api/results/", "/api/series-table/", "/api/results/?wide=true"])
def test_an_export_costs_the_same_for_many_runs(api, team, campaigns, url):
    found, host = campaigns
    few = cost(api, url)
    for name in ("LVM", "md", "ZFS"):
        line(team, found[0], host, name)
    assert cost(api, url) == few


def rows_of(client, url: str) -> dict[str, int]:
    """{table: number of its rows} of the layouts, medians and numbers of a page."""
    page = client.get(url).content.decode()
    parts = {
        "ranked": r'<table class="ranked">(.*?)</table>',
        "heat": r'<table id="campaign-heat".*?<tbody>(.*?)</tbody>',
        "places": r'aria-label="Places: .*?<tbody>(.*?)</tbody>',
        "numbers": r'aria-label="Numbers of .*?<tbody>(.*?)</tbody>',
    }
    found = {name: re.search(part, page, re.DOTALL) for name, part in parts.items()}
    return {name: len(set(LAYOUT.findall(part[1]))) for name, part in found.items() if part}


LAYOUT = re.compile(r"layout \d+")


def test_a_page_shows_a_dozen_of_many_layouts_and_all_where_asked(web, team, campaigns):
    campaign, host = made.campaign(team, "many"), campaigns[1]
    for number in range(1, 21):
        line(team, campaign, host, f"layout {number}")
    page = f"/campaigns/{campaign.pk}/"
    few, every = rows_of(web, page), rows_of(web, f"{page}?lines=all")
    assert few.keys() == every.keys() == {"ranked", "heat", "places", "numbers"}
    assert few["heat"] == few["numbers"] == 12
    # The best, the baseline and the one that the card is about.
    assert 12 <= few["ranked"] == few["places"] <= 14
    assert every["heat"] == every["ranked"] == every["places"] == 20
    assert b"lines=all" in web.get(page).content
    report = rows_of(web, f"{page}report/")
    assert report["ranked"] == report["numbers"] == 20


def test_what_a_page_shows_of_a_layout_does_not_depend_on_how_many_it_shows(web, team, campaigns):
    campaign, host = made.campaign(team, "many"), campaigns[1]
    for number in range(1, 15):
        line(team, campaign, host, f"layout {number}", depths=(1, 4, 8) if number % 2 else (1, 4))
    page = f"/campaigns/{campaign.pk}/"
    few, every = (
        re.search(r'<table class="ranked">.*?</table>', web.get(url).content.decode(), re.DOTALL)[0]
        for url in (page, f"{page}?lines=all")
    )
    rows = re.findall(r"<tr.*?</tr>", few, re.DOTALL)
    assert 12 <= len(rows) - 1 < len(re.findall(r"<tr", every)) - 1 == 14
    assert [row for row in rows if row not in every] == []
