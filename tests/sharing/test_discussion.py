"""Comments, tags, notes, stars and views: who may, what is kept, and that none of it becomes markup."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from benchlab.sharing import comparisons, discussion
from benchlab.sharing.models import Comment, Kind, Note, SavedView, Star, Tag, Tagging
from benchlab.team.models import Membership
from benchlab.team.roles import Role
from tests.charts import made

ATTACKS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    'https://x.example/"onmouseover=alert(1)',
    "https://x.example/'><svg/onload=alert(1)>",
    "{{ request.user }}{% debug %}",
    "&lt;script&gt;",
)


def member(team, name: str, role: Role) -> Client:
    person = User.objects.create_user(name)
    Membership.objects.create(team=team, user=person, role=role)
    client = Client()
    client.force_login(person)
    return client


@pytest.fixture
def rows(team):
    """One of each noun."""
    host, topology, load = made.host(team), made.topology(team, "raw"), made.workload(team)
    campaign = made.campaign(team)
    attempt = made.swept(campaign, host, topology, load, depths=(1,), repeats=1)[0]
    return {
        "host": host,
        "topology": topology,
        "workload": load,
        "campaign": campaign,
        "run": attempt.run,
    }


def test_text_is_escaped_and_only_plain_links_are_links():
    told = discussion.text_to_html(
        "a <b>\r\nhttp://x.example/?a=1&b=2. And (https://y.example/z)! ftp://no javascript:no"
    )
    assert "&lt;b&gt;<br>\n" in told
    assert '<a href="http://x.example/?a=1&amp;b=2" rel="nofollow noopener noreferrer">' in told
    assert 'href="https://y.example/z"' in told
    assert told.count("<a ") == 2
    assert "https://</a>" not in discussion.text_to_html("https:// is no address")


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_word_of_a_person_becomes_markup(web, rows, attack):
    run = rows["run"]
    about = [run._meta.model_name, run.pk]
    for name, field in (("talk-comment", "text"), ("talk-note", "text"), ("talk-tag", "name")):
        assert web.post(reverse(name, args=about), {field: attack}).status_code == 302
    web.post(reverse("view-save"), {"name": attack, "query": f"campaign={rows['campaign'].pk}"})
    clean = web.get(reverse("compare")).content.decode().count("<script")
    for page in (run_page(run), reverse("activity"), reverse("view-list"), reverse("compare")):
        raw = web.get(page).content.decode()
        for danger in (
            "<script>alert",
            "<img src=x",
            "<svg/onload",
            'href="javascript',
            '"onmouseover',
            "'><svg",
        ):
            assert danger not in raw, f"{danger} in {page}"
    assert clean == web.get(reverse("view-list")).content.decode().count("<script") + 4


def run_page(run) -> str:
    return reverse("run-detail", args=[run.pk])


@pytest.mark.parametrize("kind", Kind.values)
def test_every_noun_has_its_words(web, rows, kind):
    row = rows[kind]
    web.post(reverse("talk-comment", args=[kind, row.pk]), {"text": "Look here."})
    web.post(reverse("talk-tag", args=[kind, row.pk]), {"name": "  odd   one "})
    web.post(reverse("talk-note", args=[kind, row.pk]), {"text": "Keep in mind."})
    web.post(reverse("talk-star", args=[kind, row.pk]), {"on": "yes"})
    page = web.get(discussion.row_url(kind, row.pk)).content.decode()
    for said in ("Look here.", "odd one", "Keep in mind.", "remove the star"):
        assert said in page
    assert str(row) in web.get("/").content.decode()
    row_pk = row.pk
    if kind == "campaign":
        row.delete()
        for model in (Comment, Tagging, Note, Star):
            assert not model.objects.filter(kind=kind, object_id=row_pk).exists()


def test_lists_are_narrowed_by_tag(web, rows, team):
    other = made.campaign(team, "Untagged")
    discussion.tag_row(rows["campaign"], "keep")
    assert other.name in web.get(reverse("campaign-list")).content.decode()
    page = web.get(reverse("campaign-list"), {"tag": "keep"}).content.decode()
    assert rows["campaign"].name in page and other.name not in page
    for kind in ("host", "topology", "workload"):
        discussion.tag_row(rows[kind], "keep")
        found = web.get(reverse(f"{kind}-list"), {"tag": "keep"}).content.decode()
        assert f'href="{discussion.row_url(kind, rows[kind].pk)}"' in found
        assert (
            f'href="{discussion.row_url(kind, rows[kind].pk)}"'
            not in web.get(reverse(f"{kind}-list"), {"tag": "else"}).content.decode()
        )


def test_viewers_comment_and_operators_tag(team, rows):
    viewer, operator = member(team, "v", Role.VIEWER), member(team, "o", Role.OPERATOR)
    about = ["run", rows["run"].pk]
    assert viewer.post(reverse("talk-comment", args=about), {"text": "hm"}).status_code == 302
    for name in ("talk-tag", "talk-note"):
        assert viewer.post(reverse(name, args=about), {"name": "x", "text": "x"}).status_code in (
            403,
            404,
        )
        assert (
            operator.post(reverse(name, args=about), {"name": "x", "text": "x"}).status_code == 302
        )
    page = viewer.get(run_page(rows["run"])).content.decode()
    assert "Add tag" not in page and "Share a link" not in page and "talk-comment-text" in page


def test_a_comment_is_its_authors_and_owners_may_delete_it(team, rows, web):
    viewer, operator = member(team, "v", Role.VIEWER), member(team, "o", Role.OPERATOR)
    viewer.post(reverse("talk-comment", args=["run", rows["run"].pk]), {"text": "first"})
    comment = Comment.objects.get()
    change, delete = (reverse(f"comment-{do}", args=[comment.pk]) for do in ("edit", "delete"))
    for other in (operator, web):
        assert other.get(change).status_code == 403
        assert other.post(change, {"text": "mine now"}).status_code == 403
    assert viewer.get(change).status_code == 200
    assert viewer.post(change, {"text": " "}).status_code == 200  # says that it is empty
    assert viewer.post(change, {"text": "second"}).status_code == 302
    comment.refresh_from_db()
    assert comment.text == "second" and comment.edited_at
    assert operator.post(delete).status_code == 403
    assert web.post(delete).status_code == 302
    assert not Comment.objects.exists()


def test_nobody_talks_about_another_teams_rows(other_web, rows, web):
    for name in ("talk-comment", "talk-tag", "talk-untag", "talk-note", "talk-star"):
        for kind in Kind.values:
            assert other_web.post(reverse(name, args=[kind, rows[kind].pk])).status_code == 404
    for kind in ("user", "team", "credential", "device"):
        assert web.post(reverse("talk-comment", args=[kind, 1]), {"text": "x"}).status_code == 404


def test_a_star_is_personal_and_goes_when_the_row_is_out_of_sight(web, other_web, user, rows, team):
    web.post(reverse("talk-star", args=["run", rows["run"].pk]))
    web.post(reverse("talk-star", args=["run", rows["run"].pk]))
    assert Star.objects.get().user == user
    assert "Starred" in web.get("/").content.decode()
    assert "starred-title" not in other_web.get("/").content.decode()
    Membership.objects.filter(team=team, user=user).delete()
    assert "starred-title" not in web.get("/").content.decode()


def test_a_tag_that_nothing_has_is_gone(rows):
    one = discussion.tag_row(rows["run"], "a")
    discussion.tag_row(rows["host"], "a")
    discussion.untag_row(rows["run"], one.tag_id)
    assert Tag.objects.count() == 1
    discussion.untag_row(rows["host"], one.tag_id)
    assert not Tag.objects.exists()


def test_a_personal_view_is_nobody_elses(team, rows, web):
    query = f"campaign={rows['campaign'].pk}"
    web.post(reverse("view-save"), {"name": "secret plan", "query": query, "whose": "mine"})
    web.post(reverse("view-save"), {"name": "for all", "query": query})
    other = member(team, "o", Role.OWNER)
    page = other.get(reverse("view-list")).content.decode()
    assert "for all" in page and "secret plan" not in page
    assert f'href="/compare/?{query}#view-name" aria-label="Copy… of for all"' in page
    assert 'id="view-name"' in other.get(f"/compare/?{query}").text
    mine = SavedView.objects.get(name="secret plan")
    assert other.post(reverse("view-delete", args=[mine.pk])).status_code == 404
    assert web.post(reverse("view-delete", args=[mine.pk])).status_code == 302


def test_a_view_keeps_only_what_the_compare_page_knows(web, rows, other_user):
    pk = rows["campaign"].pk
    kept = comparisons.canonical(
        f"?host=3&campaign={pk}&next=//evil&metric=iops&campaign={pk}&moment=built"
    )
    assert kept == f"campaign={pk}&host=3&moment=built&metric=iops"
    for wrong in ("", "campaign=x", "topology=1", f"campaign={pk}&metric=<script>"):
        web.post(reverse("view-save"), {"name": "x", "query": wrong})
    theirs = made.campaign(other_user.teams.get(), "Theirs")
    web.post(reverse("view-save"), {"name": "x", "query": f"campaign={theirs.pk}"})
    assert not SavedView.objects.exists()


def test_the_feed_tells_what_happened_in_my_teams_only(web, other_web, rows):
    web.post(
        reverse("talk-comment", args=["campaign", rows["campaign"].pk]),
        {"text": "Look at depth 4."},
    )
    web.post(reverse("talk-tag", args=["campaign", rows["campaign"].pk]), {"name": "odd"})
    web.post(reverse("share-new"), {"kind": "campaign", "object": rows["campaign"].pk, "days": 3})
    rows["campaign"].layouts.update(ended_at=rows["campaign"].created_at)
    page = web.get(reverse("activity")).content.decode()
    for told in ("Look at depth 4.", "tagged campaign", "made a link", "ended: 1 succeeded"):
        assert told in page, told
    assert "Look at depth 4." not in other_web.get(reverse("activity")).content.decode()


def test_a_shared_link_is_in_the_log_without_its_token(web, rows):
    rows["topology"].name = f"raw on {rows['host'].name}"
    rows["topology"].save()
    from benchlab.audit.models import Entry

    answer = web.post(
        reverse("share-new"),
        {"kind": "run", "object": rows["run"].pk, "days": 3, "hide_hosts": "on"},
    )
    token = answer.content.decode().partition("/s/")[2].partition("/")[0]
    assert len(token) == 43 and answer["Cache-Control"] == "no-store"
    snippet = answer.content.decode().partition("&lt;iframe")[2].partition("iframe&gt;")[0]
    assert token in snippet and rows["host"].name not in snippet
    told = str(list(Entry.objects.values()))
    assert "share-new" in told and token not in told


def test_the_report_has_everything(web, rows):
    page = web.get(reverse("campaign-report", args=[rows["campaign"].pk])).content.decode()
    for part in (
        "Question",
        "Make the striped volume",
        "Xeon E5-2680",
        "randread",
        "SHA-256",
        "data-figure-url",
    ):
        assert part in page
