"""The search: it finds every noun, only in one's own teams, and marks what it found without doing harm."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from benchlab.campaigns.models import Campaign
from benchlab.hosts.models import Device, Host
from benchlab.pages import search
from benchlab.sharing.models import Comment
from benchlab.team.models import Team
from benchlab.web.lists import search_pattern

URL = "/search/"


def found(client: Any, text: str) -> dict[str, list[str]]:
    """Noun -> addresses."""
    answer = client.get(URL, {"q": text})
    assert answer.status_code == 200
    parts = re.split(r'<p class="search-noun"><strong>(.*?)</strong>', answer.text)
    return {
        noun: re.findall(r'<li><a href="([^"]*)"', rows)
        for noun, rows in zip(parts[1::2], parts[2::2], strict=True)
    }


def test_every_noun_is_found(web, ours):
    Device.objects.filter(pk=ours.device.pk).update(
        serial="BTWA6123", wwn="0x55cd2e404b", model="INTEL SSDSC2"
    )
    Host.objects.filter(pk=ours.host.pk).update(address="192.0.2.77", notes="In the cellar")
    host, disk = f"/hosts/{ours.host.pk}/", f"/hosts/{ours.host.pk}/devices/{ours.device.pk}/"
    campaign = f"/campaigns/{ours.campaign.pk}/"
    for text, noun, url in (
        (ours.host.name, "Hosts", host),
        ("192.0.2.77", "Hosts", host),
        ("CELLAR", "Hosts", host),
        ("wa61", "Disks", disk),
        ("0x55CD2E404B", "Disks", disk),
        ("wwn:0x55cd2e404b", "Disks", disk),
        ("intel ssd", "Disks", disk),
        ("stripe", "Campaigns", campaign),
        ("raw", "Topologies", f"/topologies/{ours.topology.pk}/"),
        ("randread 4", "Workloads", f"/workloads/{ours.workload.pk}/"),
        ("Odd disks", "Notes", campaign),
        ("look at", "Comments", campaign),
        ("odd", "Tags", "/campaigns/?tag=odd"),
        (str(ours.run.pk), "Runs", f"/runs/{ours.run.pk}/"),
        (f"run {ours.run.pk}", "Runs", f"/runs/{ours.run.pk}/"),
        (f"#{ours.run.pk}", "Runs", f"/runs/{ours.run.pk}/"),
    ):  # fmt: skip
        assert url in found(web, text).get(noun, []), (text, noun, found(web, text))


def test_an_article_of_the_library_is_everybodys(web, ours):
    library = Team.objects.create(name="Reference library", library=True)
    made = Campaign.objects.create(
        team=library, name="Azure disks", seed=1, source="library",
        origin={"title": "Cloud storage", "author": "Somebody"},
    )  # fmt: skip
    for text in ("azure", "cloud", "somebody"):
        assert found(web, text) == {"Reference library": [f"/campaigns/{made.pk}/"]}


def test_nothing_of_another_team(web, other_user, ours, theirs):
    theirs.device.serial = "SECRET-SERIAL"
    theirs.device.save()
    other = Client()
    other.force_login(other_user)
    for text in (
        theirs.host.name,
        "SECRET-SERIAL",
        str(theirs.run.pk),
        "stripe",
        "odd",
        "look",
        "raw",
    ):
        seen, hers = str(found(web, text)), found(other, text)
        assert hers, text
        for noun, urls in hers.items():
            if noun != "Tags":  # of the same name in both
                assert not [url for url in urls if f"'{url}'" in seen], (text, noun)


def test_a_stranger_logs_in_first_and_nobody_finds_nothing(db, django_user_model, ours):
    client = Client()
    assert "/login/" in client.get(URL, {"q": "raw"})["Location"]
    client.force_login(django_user_model.objects.create_user("nobody"))
    assert found(client, "raw") == {}


def test_a_guest_has_no_search(client, ours):
    from benchlab.sharing import links

    ours.share.digest = links.token_digest("the-link")
    ours.share.save()
    answer = client.get("/s/the-link/")
    assert answer.status_code == 200 and URL not in answer.text


HOSTILE = (
    "%",
    "%%",
    "__",
    "\\\\",
    "\\%",
    "'; --",
    "<b>x</b>",
    "\0\0",
    "(",
    "[a-z]+",
    ".*",
    "\u202e\u202e",
    "{}{}",
)


def test_what_is_typed_is_text(web, ours):
    for bad in HOSTILE:
        answer = web.get(URL, {"q": bad})
        assert answer.status_code == 200 and "<b>x" not in answer.text, bad
        assert "<mark>" not in answer.text, "nothing here is called like that"
        for url in (
            "/hosts/",
            "/campaigns/",
            "/topologies/",
            "/workloads/",
            "/shares/",
            "/import/",
        ):
            assert web.get(url, {"q": bad}).status_code == 200, (url, bad)


def test_wildcards_are_letters(web, team, ours):
    made = Campaign.objects.create(team=team, name="100% of_it \\o/", seed=1)
    for text in ("0%", "f_i", "\\o", "100% of"):
        assert found(web, text) == {"Campaigns": [f"/campaigns/{made.pk}/"]}


def test_names_are_escaped_and_marked(web, team, ours):
    bad = "<img src=x onerror=alert(1)> stripe"
    Campaign.objects.filter(pk=ours.campaign.pk).update(name=bad)
    Comment.objects.filter(pk=ours.comment.pk).update(text=bad)
    shown = web.get(URL, {"q": "stripe img"}).text
    assert "<img src=x" not in shown
    assert "&lt;<mark>img</mark> src=x onerror=alert(1)&gt; <mark>stripe</mark>" in shown


def test_too_much_is_refused(web, ours):
    assert web.get(URL, {"q": "a" * 10_240}).status_code == 400
    assert web.get("/hosts/", {"q": "a" * 10_240}).status_code == 400
    assert web.get(URL, {"q": "a b " * 50}).status_code == 200
    assert "2 characters or more" in web.get(URL, {"q": "a"}).text


def test_htmx_gets_what_was_found_alone(web, ours):
    part = web.get(URL, {"q": "raw"}, headers={"HX-Request": "true"}).text
    assert "<html" not in part and "<mark>raw</mark>" in part


def test_there_are_more_than_are_shown(web, team):
    for number in range(12):
        Campaign.objects.create(team=team, name=f"Stripe {number}", seed=1)
    shown = web.get(URL, {"q": "stripe"}).text
    assert len(found(web, "stripe")["Campaigns"]) == search.MAX_RESULTS
    rest = re.search(r'<a href="([^"]*)">more</a>', shown)
    assert web.get(unescape(rest[1])).text.count("Stripe 1") >= 1


def test_it_costs_the_same_for_many(web, team, ours):
    def cost() -> int:
        with CaptureQueriesContext(connection) as asked:
            assert web.get(URL, {"q": "a" * 2}).status_code == 200
        return len(asked)

    few = cost()
    for number in range(30):
        Campaign.objects.create(team=team, name=f"aa {number}", seed=1)
        Comment.objects.create(
            team=team, kind="campaign", object_id=ours.campaign.pk, text=f"aa {number}"
        )
    assert cost() <= few + 2 <= 16  # the nouns that comments are about, and their teams


def test_an_excerpt_is_around_what_was_found():
    text = "a" * 300 + " needle <b> " + "z" * 300
    shown = search.excerpt(text, search_pattern("needle"))
    assert (
        shown.startswith("…") and shown.endswith("…") and "<mark>needle</mark> &lt;b&gt;" in shown
    )
    assert search.excerpt("short", search_pattern("needle")) == "short"
    assert (
        search.marked("NeedleneEdle", search_pattern("needle"))
        == "<mark>Needle</mark><mark>neEdle</mark>"
    )
