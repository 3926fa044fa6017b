"""Every list is sorted by its heads and filtered by one field; the address has it, nothing else is understood."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.utils import timezone

from benchlab.campaigns.models import Campaign
from benchlab.hosts.models import Host
from benchlab.imports import drafts
from benchlab.sharing.models import Share
from tests.charts import made

NAMES = ("sd 10", "sd 2", "SD 1", "other_%")
COUNTED = ["other_%", "SD 1", "sd 2", "sd 10"]
LISTS = {
    "/hosts/": ("name", "host-detail", "/hosts/"),
    "/campaigns/": ("name", "campaign-detail", "/campaigns/"),
    "/topologies/": ("name", "topology-detail", "/topologies/"),
    "/workloads/": ("name", "workload-detail", "/workloads/"),
    "/shares/": ("shows", "", ""),
    "/import/": ("name", "import-detail", "/import/"),
}


@pytest.fixture
def lab(team, user, worker_seen):
    for number, name in enumerate(NAMES):
        host = made.host(team, name)
        Host.objects.filter(pk=host.pk).update(address=f"192.0.2.{number}")
        made.topology(team, name), made.workload(team, name)
        campaign = Campaign.objects.create(team=team, name=name, seed=1)
        drafts.create_draft(team=team, user=user, uploads=[drafts.pasted_upload("RATE 1\n")], **{})
        team.drafts.filter(pk=team.drafts.first().pk).update(name=name)
        Share.objects.create(
            team=team, kind="campaign", object_id=campaign.pk, name=name, digest=f"{number}", by=user,
            expires_at=timezone.now(),
        )  # fmt: skip


def names(answer: Any) -> list[str]:
    assert answer.status_code == 200
    body = answer.text.partition("<tbody>")[2].partition("</tbody>")[0]
    found = [
        re.sub("<br>.*|<[^>]+>", "", text, flags=re.DOTALL)
        for text in re.findall(r'<th scope="row">(.*?)</th>', body, re.DOTALL)
    ]
    return [unescape(text).strip() for text in found]


@pytest.mark.parametrize("url", LISTS)
def test_by_name_as_people_count(web, lab, url):
    word = LISTS[url][0]
    assert names(web.get(f"{url}?sort={word}")) == COUNTED
    assert names(web.get(f"{url}?sort=-{word}")) == COUNTED[::-1]


@pytest.mark.parametrize("url", LISTS)
def test_every_head_sorts_both_ways(web, lab, url):
    shown = web.get(url).text
    head = shown.partition("<thead>")[2].partition("</thead>")[0]
    links = [unescape(link) for link in re.findall(r'href="(\?sort=[^"]*)"', head)]
    assert links and "aria-sort" not in head
    for link in links:
        once = web.get(url + link)
        assert sorted(names(once)) == sorted(NAMES)
        assert 'aria-sort="ascending"' in once.text
        assert 'aria-sort="descending"' in web.get(url + link.replace("sort=", "sort=-")).text
    answer = web.get(f"{url}?sort=colour")
    assert answer.status_code == 400 and "colour" in answer.text and LISTS[url][0] in answer.text


@pytest.mark.parametrize("url", LISTS)
def test_one_field_filters(web, lab, url):
    assert sorted(names(web.get(f"{url}?q=SD"))) == sorted(NAMES[:3])
    assert names(web.get(f"{url}?q=_%25")) == ["other_%"]
    assert names(web.get(f"{url}?q=sd+10&sort=-{LISTS[url][0]}")) == ["sd 10"]
    none = web.get(f"{url}?q=nosuch")
    assert names(none) == [] and "Nothing here has" in none.text
    kept = web.get(f"{url}?q=sd&sort=-{LISTS[url][0]}").text
    assert (
        f'<input type="hidden" name="sort" value="-{LISTS[url][0]}">' in kept
        and 'value="sd"' in kept
    )


def test_pages_keep_sort_and_filter(web, team):
    for number in range(30):
        Campaign.objects.create(team=team, name=f"sd {number}", seed=1)
    first = web.get("/campaigns/?sort=name&q=sd")
    following = re.search(r'href="([^"]*)" rel="next"', first.text)
    assert names(first) == [f"sd {n}" for n in range(25)]
    assert names(web.get(f"/campaigns/{unescape(following[1])}")) == [
        f"sd {n}" for n in range(25, 30)
    ]


def test_only_ones_own(web, ours, theirs):
    for url in LISTS:
        for query in ("?sort=" + LISTS[url][0], "?q=" + str(theirs.team)):
            assert str(theirs.host) not in web.get(url + query).text
