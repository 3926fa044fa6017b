"""Every list, picker, list of the API, the search and Home: what is archived or deleted is in none of them."""

from __future__ import annotations

import html
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from benchlab.findings.models import Finding
from benchlab.rest.urls import router
from benchlab.runs.models import StepLog
from benchlab.sharing import links
from benchlab.sharing.models import Comment, Note, Star, Tag, Tagging
from benchlab.team import permissions
from benchlab.team.levels import Level
from tests.charts import made
from tests.team.test_table import PAGES, noun

WORD = "qzputawayqz"
# Every page that takes no row: lists, pickers, Home. A stranger's pages, forms of accounts and documents aside.
SEEN = sorted(
    name
    for name, rule in permissions.PAGES.items()
    if rule.see not in (None, Level.SITE_ADMIN) and name in PAGES and "<" not in PAGES[name]
)
NOT_HERE = {"schema", "api-docs", "healthz", "readyz", "api-nowhere", "openid_connect_login"}
LOG = {"audit-log", "audit-csv", "activity"}  # what was done stays told
HISTORY = {"entry", "event"}
# What is said of, or shows, a row: it goes with a row that is deleted, and stays with one that is archived.
SAID = {"comment", "note", "tagging", "star", "share", "savedview", "tag"}
SEARCHED = (WORD, "fromnote", "fromcomment", "fromtag")


@pytest.fixture
def away(team, user) -> SimpleNamespace:
    host = made.host(team)
    campaign = made.campaign(team, f"{WORD} campaign")
    campaign.question = f"{WORD}?"
    campaign.save()
    stack, load = made.topology(team, f"{WORD} stack"), made.workload(team, f"{WORD} load")
    attempts = made.swept(campaign, host, stack, load, depths=(1, 4), repeats=1)
    for attempt in attempts:
        attempt.argv, attempt.tool_version = [WORD], f"fio {WORD}"
        attempt.save()
        attempt.artifacts.update(name=f"{WORD}.json")
        attempt.measurements.update(note=WORD)
    made.sampled(attempts[0], disks=1, seconds=5)
    made_last = attempts[0].series.order_by("-pk").values("pk")[:1]
    made_first = attempts[0].series.order_by("pk").values("pk")[:1]
    for which in (made_first, made_last):  # on the first page of a list in either order
        attempts[0].series.filter(pk__in=which).update(device=WORD)
    StepLog.objects.update(says=WORD)
    campaign.layouts.first().transitions.update(reason=WORD)
    for kind in ("change", "cached_read"):
        Finding.objects.create(
            campaign=campaign, attempt=attempts[0], kind=kind, says=WORD, severity="doubt", runs=[]
        )
    rows = {"campaign": campaign, "topology": stack, "workload": load}
    for kind, row in rows.items():
        said_of(team, user, kind, row.pk)
    said_of(team, user, "run", attempts[0].run_id)
    for kind, pk in (("campaign", campaign.pk), ("run", attempts[0].run_id)):
        links.create_link(links.check_target(user, kind, pk), user)
    return SimpleNamespace(rows=list(rows.values()), campaign=campaign, run=attempts[0].run)


def said_of(team, user: User, kind: str, pk: int) -> None:
    about = {"kind": kind, "object_id": pk}
    Note.objects.create(**about, team=team, text=f"{WORD} fromnote")
    Comment.objects.create(**about, team=team, text=f"{WORD} fromcomment")
    tag, _ = Tag.objects.get_or_create(team=team, name="fromtag")
    Tagging.objects.create(**about, tag=tag)
    Star.objects.create(**about, user=user)


def put_away(away, column: str) -> None:
    for row in away.rows:
        setattr(row, column, timezone.now())
        row.save(update_fields=[column])


def text_of(answer) -> str:
    raw = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return html.unescape(raw.decode(errors="replace"))


def pages(web) -> dict[str, str]:
    """By name, as a person of the team sees it; Home without what was done lately."""
    found = {}
    for name in sorted(set(SEEN) - NOT_HERE - LOG):
        answer = web.get(f"/{PAGES[name]}")
        assert answer.status_code < 500, f"{name}: {answer.status_code}"
        found[name] = text_of(answer)
    home = web.get("/").context
    found["home"] = "".join(
        str(home[part]) for part in ("person", "runs", "waits", "manual_steps", "changed", "latest")
    )
    for text in SEARCHED:
        found[f"search for {text}"] = "".join(
            str(row) for section in _sections(web, text) for row in section.rows
        )
    return found


def _sections(web, text: str):
    return web.get(f"/search/?q={text}").context["sections"]


def lists(api) -> dict[str, str]:
    """By noun, every list of the API."""
    found = {}
    for prefix, viewset, _ in router.registry:
        named = noun(viewset)
        if hasattr(viewset, "list") and named not in (*HISTORY, "history", "verdict"):
            answer = api.get(f"/api/{prefix}/")
            assert answer.status_code == 200, (
                f"{prefix}: {answer.status_code} {answer.content[:200]}"
            )
            found[named] = text_of(answer)
    return found


def having(found: dict[str, str]) -> set[str]:
    return {name for name, text in found.items() if WORD in text}


def test_the_walk_would_see_them(web, api, away):
    """The test's own proof."""
    seen = having(pages(web))
    assert {"campaign-list", "topology-list", "workload-list", "campaign-new", "compare", "run-list", "home",
            "share-list", f"search for {WORD}", "search for fromnote", "search for fromcomment"} <= seen  # fmt: skip
    told = having(lists(api))
    assert {"campaign", "topology", "workload", "run", "attempt", "artifact", "steplog", "transition", "series",
            "measurement", "finding", "comment", "note", "result", "seriesvalue"} - told == {"run"}  # fmt: skip


def test_what_is_deleted_is_nowhere(web, api, away):
    put_away(away, "deleted_at")
    assert having(pages(web)) == {"deleted-list"}
    assert having(lists(api)) == set()
    counted = {
        one: api.get(f"/api/{one}/").json()["count"]
        for one in ("runs", "layouts", "taggings", "stars")
    }
    assert set(counted.values()) == {0}, counted
    for kind in ("campaigns", "topologies", "workloads"):
        assert WORD not in text_of(web.get(f"/{kind}/?archived=true"))
        assert api.get(f"/api/{kind}/?archived=true").json()["results"] == []
    assert WORD not in text_of(web.get(f"/runs/?campaign_id={away.campaign.pk}"))
    assert WORD not in text_of(web.get(f"/compare/?campaign={away.campaign.pk}"))
    assert api.get(f"/api/runs/?campaign={away.campaign.pk}").json()["count"] == 0
    assert api.get(f"/api/history/?run={away.run.pk}").status_code == 404


def test_what_is_archived_is_in_no_list(web, api, away):
    put_away(away, "archived_at")
    # A link for guests still works, and its team must see that there is one.
    assert having(pages(web)) == {"share-list"}
    assert having(lists(api)) <= SAID
    assert {one: api.get(f"/api/{one}/").json()["count"] for one in ("runs", "layouts")} == {
        "runs": 0,
        "layouts": 0,
    }


def test_what_is_archived_stays_readable(web, api, away):
    put_away(away, "archived_at")
    for address in (f"/campaigns/{away.campaign.pk}/", f"/runs/{away.run.pk}/",
                    f"/compare/?campaign={away.campaign.pk}", f"/campaigns/{away.campaign.pk}/report/"):  # fmt: skip
        assert WORD in text_of(web.get(address)), address
    assert api.get(f"/api/measurements/?campaign={away.campaign.pk}").json()["count"] > 0
