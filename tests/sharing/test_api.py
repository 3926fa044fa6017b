"""The same over REST: what the pages can do, by the same rules."""

from __future__ import annotations

from django.test import Client

from benchlab.sharing.models import Note, Share
from benchlab.web.idempotency.models import KeptAnswer
from tests.api.conftest import api, is_problem, nudges, other_api, ours

__all__ = ["api", "nudges", "other_api", "ours"]


def about(ours) -> dict[str, object]:
    return {"kind": "run", "object_id": ours.run.pk}


def test_comments_are_made_changed_and_deleted(api, ours):
    made = api.post("/api/comments/", {**about(ours), "text": "hm"})
    assert made.status_code == 201 and made.json()["by"] == "alice"
    url = f"/api/comments/{made.json()['id']}/"
    assert api.patch(url, {"text": "better"}).json()["text"] == "better"
    assert is_problem(api.patch(url, {"text": ""}), 400)["errors"]
    assert is_problem(api.patch(f"/api/comments/{ours.comment.pk}/", {"text": "x"}), 403)
    assert api.delete(url).status_code == 204
    listed = api.get("/api/comments/", {"kind": "campaign"}).json()["results"]
    assert [one["id"] for one in listed] == [ours.comment.pk]


def test_tags_notes_and_stars(api, ours):
    tagging = api.post("/api/taggings/", {**about(ours), "tag": "fast"}).json()
    assert api.post("/api/taggings/", {**about(ours), "tag": "fast"}).json() == tagging
    assert [one["name"] for one in api.get("/api/tags/").json()["results"]] == ["fast", "odd"]
    assert api.delete(f"/api/taggings/{tagging['id']}/").status_code == 204
    for text in ("one", "two"):
        assert api.post("/api/notes/", {**about(ours), "text": text}).status_code == 201
    assert Note.objects.get(kind="run").text == "two"
    assert api.post("/api/stars/", about(ours)).status_code == 200
    assert len(api.get("/api/stars/?kind=run").json()["results"]) == 1
    api.post("/api/stars/", {**about(ours), "starred": False})
    assert api.get("/api/stars/?kind=run").json()["results"] == []


def test_another_teams_row_is_as_unknown_as_none(other_api, ours):
    for noun, more in (
        ("comments", {"text": "x"}),
        ("taggings", {"tag": "x"}),
        ("notes", {"text": "x"}),
        ("stars", {}),
    ):
        answer = other_api.post(f"/api/{noun}/", {**about(ours), **more})
        assert "object_id" in is_problem(answer, 400)["errors"]
    is_problem(other_api.post("/api/shares/", about(ours)), 400)
    is_problem(
        other_api.post("/api/views/", {"name": "x", "query": f"campaign={ours.campaign.pk}"}), 400
    )


def test_a_link_is_shown_once_and_can_be_revoked(api, ours):
    made = api.post("/api/shares/", {**about(ours), "days": 2})
    assert made.status_code == 201, made.content
    path = made.json()["link"].removeprefix("http://testserver")
    assert Client().get(path).status_code == 200
    row = f"/api/shares/{made.json()['id']}/"
    assert "link" not in api.get(row).json() and api.get(row).json()["views"] == 1
    assert api.post(f"{row}revoke/").json()["state"] == "revoked"
    assert Client().get(path).status_code == 404
    is_problem(api.post("/api/shares/", {**about(ours), "days": 10_000}), 400)
    assert Share.objects.count() == 3


def test_a_link_is_not_kept_with_its_idempotency_key(api, ours):
    def ask():
        return api.post("/api/shares/", about(ours), HTTP_IDEMPOTENCY_KEY="once")

    made, again = ask(), ask()
    assert made.status_code == again.status_code == 201
    assert again.json() == made.json() | {"link": None}
    token = made.json()["link"].rstrip("/").rpartition("/")[2]
    assert token not in str(list(KeptAnswer.objects.values()))


def test_a_view_and_a_link_to_it(api, ours):
    query = f"campaign={ours.campaign.pk}"
    view = api.post("/api/views/", {"name": "mine", "query": query, "for_team": False}).json()
    made = api.post("/api/shares/", {"kind": "view", "object_id": view["id"]})
    assert made.status_code == 201 and made.json()["query"] == query
    assert api.delete(f"/api/views/{view['id']}/").status_code == 204
    assert Client().get(made.json()["link"].removeprefix("http://testserver")).status_code == 200


def test_the_feed(api, other_api, ours):
    told = api.get("/api/activity/").json()
    assert [one["source"] for one in told] == ["comment"]
    assert "Look at this." in told[0]["says"]
    assert other_api.get("/api/activity/").json() == []
    assert api.get("/api/activity/?page=2").json() == []
    is_problem(api.get("/api/activity/?page=0"), 400)
