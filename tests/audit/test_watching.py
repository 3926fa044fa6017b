"""Entries that the log gets by itself: what was done, whose it is, from where; nothing that did not happen, no link."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from agents.dynamo import icf
from benchlab.audit.models import Entry
from benchlab.hosts.models import Device
from benchlab.runs.models import Layout
from benchlab.sharing.models import Share
from benchlab.team import accounts, invitations, tokens
from benchlab.team.models import Invitation, Membership, Team
from benchlab.team.roles import Role
from benchlab.up.bootstrap import ROOT
from benchlab.workers import messages
from tests.api.conftest import client_of
from tests.charts import made


def told(**wanted) -> list[tuple[str, str]]:
    rows = Entry.objects.filter(**wanted).exclude(action="login").order_by("pk")
    return [(row.action, row.outcome) for row in rows]


def the_one(action: str) -> Entry:
    return Entry.objects.get(action=action)


@pytest.fixture(autouse=True)
def no_messages(monkeypatch) -> None:
    """Of those that would have gone to Celery."""
    monkeypatch.setattr(messages, "send", lambda task, pk: None)


@pytest.fixture
def disk(team) -> Device:
    return Device.objects.create(
        host=made.host(team, "lab1"), identity="serial:S1", name="sdb", serial="S1", size=2**30
    )


@pytest.fixture
def carol(team) -> Membership:
    person = User.objects.create_user("carol", password="carol-password")
    return Membership.objects.create(team=team, user=person, role=Role.VIEWER)


def test_a_form_that_comes_back_is_no_deed(web, team, disk):
    """A serial that is mistyped, an estimate, a layer that nobody saved, a name that is missing."""
    wrong = {"typed": "S2", "role": "ssd"}
    answer = web.post(f"/hosts/{disk.host_id}/devices/{disk.pk}/", wrong)
    assert answer.status_code == 200
    disk.refresh_from_db()
    assert not disk.spare
    topology = made.topology(team, "raw")
    for path, sent in (
        ("/campaigns/new/", {"estimate": "1"}),
        (f"/topologies/{topology.pk}/edit/", {"name": "raw", "do": "add 0 raw"}),
        ("/topologies/new/", {"name": ""}),
        ("/shares/new/", {"kind": "campaign", "object": "1", "days": "many"}),
        ("/api/token/", {"name": ""}),
    ):
        assert web.post(path, sent).status_code in (200, 404), path
    assert "done" not in [outcome for _, outcome in told()]


def test_a_page_that_says_no_by_a_message_is_a_refusal(web, team, user, make_draft):
    mine = Membership.objects.get(user=user)
    web.post(f"/team/{team.pk}/leave/")
    web.post(f"/team/{team.pk}/members/{mine.pk}/role/", {"role": "viewer"})
    web.post(f"/campaigns/{make_draft.campaign_id}/start/", {f"layout-{make_draft.pk}": "stale"})
    assert told() == [
        ("team-leave", "refused"), ("team-member-role", "refused"), ("campaign-start", "refused"),
    ]  # fmt: skip
    assert Membership.objects.filter(pk=mine.pk, role=Role.OWNER).exists()


def test_every_page_that_says_no_notes_a_refusal():
    """A message alone would leave the log with "done"."""
    sources = {path: path.read_text() for path in (ROOT / "benchlab").rglob("*.py")}
    found = [
        path.name for path, text in sources.items() if re.search(r"messages\.(error\(|ERROR)", text)
    ]
    assert found == ["request_notes.py"]


@pytest.fixture
def make_draft(team) -> Layout:
    return Layout.objects.create(
        campaign=made.campaign(team), host=made.host(team), topology=made.topology(team, "raw"),
        stack=[], phase="draft", plan_fingerprint="f" * 64, plan_error="",
    )  # fmt: skip


def test_who_lacks_the_second_factor_did_nothing(web, team, disk):
    Team.objects.update(require_mfa=True)
    answer = web.post(f"/hosts/{disk.host_id}/delete/")
    assert answer["Location"] == "/account/second-factor/"
    assert told() == [("host-delete", "refused")] and the_one("host-delete").team_id == team.pk


def test_whose_password_is_asked_for_first_did_nothing_yet(user):
    """The deed is done with the password, and told then."""
    web = Client()
    web.post("/login/", {"login": "alice", "password": "alice-password"})
    session = web.session
    session["account_authentication_methods"] = [{"method": "password", "at": 1.0}]
    session.save()
    answer = web.post("/account/email/", {"email": "new@example.org"})
    assert answer["Location"].startswith("/account/again/") and told() == []
    web.post(answer["Location"], {"password": "alice-password"})
    user.refresh_from_db()
    assert user.email == "new@example.org" and told() == [("account-email", "done")]


def test_strangers_do_not_fill_the_log(team, disk):
    web, api = Client(), APIClient()
    for path in (f"/hosts/{disk.host_id}/delete/", "/hosts/add/", "/account/reset/", "/join/x/"):
        web.post(path, {"email": "nobody@example.org"})
    for key in ("", "Token blab_wrong"):
        api.credentials(HTTP_AUTHORIZATION=key)
        assert api.post("/api/credentials/", {"name": "k"}).status_code == 401
    assert not Entry.objects.exists()


def test_a_password_that_is_set_by_a_link_is_told(user):
    path = accounts.reset_path(user)
    web = Client()
    key = web.get(path)["Location"]
    web.post(key, {"password1": "harbour-lamp-9", "password2": "harbour-lamp-9"})
    user.refresh_from_db()
    assert user.check_password("harbour-lamp-9")
    entry = the_one("account_reset_password_from_key")
    assert (entry.actor, entry.outcome) == ("alice", "done")


def test_owners_see_what_is_done_with_members_and_settings(web, team, carol):
    """By page and by API: whom it was done to, and as what."""
    web.post(f"/team/{team.pk}/change/", {"name": "Store", "require_mfa": ""})
    web.post(f"/team/{team.pk}/invite/", {"role": "operator", "email": "dave@example.org"})
    row = Invitation.objects.get()
    web.post(f"/team/{team.pk}/invitations/{row.pk}/revoke/")
    web.post(f"/team/{team.pk}/members/{carol.pk}/role/", {"role": "operator"})
    api = client_of(User.objects.get(username="alice"))
    api.patch(f"/api/memberships/{carol.pk}/", {"role": "viewer"})
    web.post(f"/team/{team.pk}/members/{carol.pk}/remove/")
    assert {*told(team_id=team.pk)} == {
        (name, "done")
        for name in ("team-change", "team-invite", "team-invitation-revoke", "team-member-role",
                     "membership.partial_update", "team-member-remove")
    }  # fmt: skip
    assert "name = Store" in the_one("team-change").subject
    assert f"invitation {row.pk} as operator" in the_one("team-invite").subject
    assert "example.org" not in the_one("team-invite").subject  # viewers read it in the feed
    assert f"invitation {row.pk} " in the_one("team-invitation-revoke").subject
    for action, change in (
        ("team-member-role", ": viewer to operator"),
        ("membership.partial_update", ": operator to viewer"),
    ):
        subject = the_one(action).subject
        assert f"membership {carol.pk} (carol in " in subject and subject.endswith(change)
    assert "carol" in the_one("team-member-remove").subject
    assert "carol in" in web.get("/audit/").text


def test_what_is_made_belongs_to_its_team(web, user, team):
    sent = {"name": "lab9", "address": "192.0.2.7", "port": "22", "user": "root", "key": "make"}
    assert web.post("/hosts/add/", sent).status_code == 302, "it is added"
    web.post("/topologies/new/", {"preset": "raw-hdd"})
    api = client_of(user)
    key = api.post("/api/credentials/", {"name": "k"}).json()["id"]
    api.post("/api/workloads/", {"name": "w", "tool": "dd", "options": {}})
    for action, words in (
        ("host-add", "(lab9)"), ("credential.create", f"credential {key} (k)"), ("workload.create", "(w)"),
    ):  # fmt: skip
        entry = the_one(action)
        assert (entry.team_id, entry.outcome) == (team.pk, "done") and words in entry.subject, (
            action
        )


def test_where_a_page_leads_on_request_is_not_what_it_made(other_user, team, disk):
    """?next= may name another team's row."""
    web = Client()
    web.post("/login/", {"login": "bob", "password": "bob-password"})
    here = f"/hosts/{disk.host_id}/"
    web.post(f"/account/again/?next={here}", {"password": "bob-password"})
    entry = the_one("account_reauthenticate")
    assert (entry.team_id, entry.subject) == (None, "")


def test_another_teams_rows_are_not_named_in_ones_own_log(other_user, other_web, team, disk, carol):
    theirs = other_user.teams.get()
    mine = made.host(theirs, "bobs")
    layout = Layout.objects.create(
        campaign=made.campaign(team),
        host=disk.host,
        topology=made.topology(team, "hidden"),
        stack=[],
    )
    row = Invitation.objects.create(
        team=team, email="dave@example.org", digest="0", expires_at=timezone.now() + timedelta(1)
    )
    for path in (
        f"/hosts/{mine.pk}/devices/{disk.pk}/",
        f"/hosts/{mine.pk}/devices/{disk.pk}/keep/",
        f"/hosts/{mine.pk}/orphans/{layout.pk}/",
        f"/team/{theirs.pk}/members/{carol.pk}/role/",
        f"/team/{theirs.pk}/invitations/{row.pk}/revoke/",
    ):
        assert other_web.post(path).status_code == 404, path
    entries = Entry.objects.filter(team_id=theirs.pk)
    assert entries.count() >= 4
    said = " ".join(entry.subject for entry in entries)
    assert "bobs" in said
    for secret in ("sdb", "S1", "carol", "dave", "hidden", "Storage", layout.name):
        assert secret not in said


@pytest.mark.parametrize(
    ("proxies", "seen"), [(0, "127.0.0.1"), (1, "203.0.113.7"), (2, "6.6.6.6"), (9, "")]
)
def test_behind_a_proxy_the_address_is_the_persons(web, team, disk, settings, proxies, seen):
    """A client's own word in the header is not believed; with a count that is wrong no deed is done."""
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = proxies
    headers = {"X-Forwarded-For": "6.6.6.6, 203.0.113.7"}
    answer = web.post(f"/hosts/{disk.host_id}/delete/", headers=headers)
    deeds = Entry.objects.filter(action="host-delete")
    assert [entry.address for entry in deeds] == ([seen] if seen else [])
    assert (answer.status_code == 400) == (not seen)


def test_nothing_that_opens_is_written_down(web, user, team, other_web, other_user):
    campaign = made.campaign(team)
    form = {"kind": "campaign", "object": campaign.pk, "days": 3, "hide_hosts": "on"}
    link = web.post("/shares/new/", form)
    assert link.status_code == 200 and the_one("share-new").outcome == "done"
    invitation = invitations.invite(team, Role.VIEWER, user)[1]
    other_web.post(f"/join/{invitation}/")
    other_web.post("/s/some-secret/")
    joined = the_one("join")
    assert (joined.team_id, joined.details["path"]) == (team.pk, "/join/***/")
    fresh = web.post("/api/token/", {"name": "n", "role": "viewer", "team": "", "days": 3})
    everything = str(list(Entry.objects.values()))
    assert fresh.context["fresh"] not in everything
    for secret in (invitation, "some-secret", link.context["link"].split("/s/")[1].strip("/")):
        assert secret not in everything
    assert Share.objects.count() == 1


def test_tokens_are_told_and_so_is_their_end(web, user, team):
    row, _ = tokens.create_token(user, "old", Role.VIEWER, team=team)
    web.post(f"/api/token/{row.pk}/revoke/")
    (entry,) = Entry.objects.filter(action="api-token-revoke")
    assert entry.team_id == team.pk and "old (blab_" in entry.subject


def test_of_an_icf_file_only_what_was_made_is_told(web, team):
    """Also when some of its workloads could not be: then the form comes back."""
    options = {"block_size": 8192, "read_percent": 50, "random_percent": 50, "outstanding_ios": 1,
               "size": 1 << 30, "runtime_s": 60}  # fmt: skip
    text = icf.write_icf(
        icf.build_config([icf.Workload(name, options, {}) for name in ("one", "two")])
    )
    made.workload(team, "two", tool="dynamo")
    web.post("/dynamo/icf/", {"text": text})
    assert told() == []
    answer = web.post("/dynamo/icf/", {"text": text, "take": ["0", "1"]})
    assert answer.status_code == 200 and told(team_id=team.pk) == [("icf-new", "done")]
    assert the_one("icf-new").subject == "1 workload of an .icf file"
