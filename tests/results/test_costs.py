"""Queries of pages of results, and of the exports: as much for many runs as for few."""

from __future__ import annotations

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
    "/campaigns/{0}/": 30,
    "/campaigns/{0}/figure.json": 5,
    # 4 of answers: in what order layouts were built, whose they are, how alike rebuilt ones and repeats are (both kept
    # for 10 minutes); 1 of those that were dismissed; 4 of factors: settings of layouts, and the latter three again.
    "/compare/?campaign={0}&campaign={1}": 22,
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
