"""Members, roles, invitations and the site admin's pages."""

from __future__ import annotations

import io
import logging
import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.core.exceptions import ValidationError
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from benchlab.team import invitations, log_filter, members, tokens
from benchlab.team.models import ApiToken, Invitation, Membership, Team
from benchlab.team.roles import Role
from benchlab.team.services import owning_team

NEW = {"username": "carol", "email": "", "password": "harbour-lamp-9"}


@pytest.fixture
def web(user) -> Client:
    """By the log-in page: it makes the session one that can be listed and ended."""
    client = Client()
    client.post("/login/", {"login": "alice", "password": "alice-password"})
    return client


@pytest.fixture
def log():
    """Stream of what goes to stderr in an installation."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(log_filter.LinkFilter())
    logging.getLogger("django.request").addHandler(handler)
    yield stream
    logging.getLogger("django.request").removeHandler(handler)


def link_in(answer) -> str:
    (link,) = re.findall(r'id="link">(\S+?)<', answer.content.decode())
    assert "no-store" in answer["Cache-Control"]
    return link


def invited(team, by, role=Role.VIEWER) -> str:
    return f"/join/{invitations.invite(team, role, by)[1]}/"


def test_an_invitation_makes_an_account_in_the_team(web, team):
    link = link_in(web.post(f"/team/{team.pk}/invite/", {"role": "viewer", "email": ""}))
    assert link not in web.get(f"/team/{team.pk}/").content.decode()
    stranger = Client()
    assert b"Join Storage" in stranger.get(link).content
    assert stranger.post(link, NEW)["Location"] == f"/team/{team.pk}/"
    assert stranger.get("/").status_code == 200
    member = Membership.objects.get(user__username="carol")
    assert (member.team, member.role) == (team, Role.VIEWER)
    assert Client().post(link, {**NEW, "username": "dave"}).status_code == 410  # once
    assert not User.objects.filter(username="dave").exists()


def test_the_database_cannot_tell_the_link(web, team):
    link = link_in(web.post(f"/team/{team.pk}/invite/", {"role": "viewer", "email": ""}))
    row = Invitation.objects.values().get()
    assert link.split("/")[-2] not in str(row) and len(row["digest"]) == 64


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"expires_at": timezone.now() - timedelta(seconds=1)}, "has expired"),
        ({"revoked_at": timezone.now()}, "was taken back"),
        ({"used_at": timezone.now()}, "was used already"),
    ],
)
def test_a_link_that_ended_says_so(team, user, change, words):
    link = invited(team, user)
    Invitation.objects.update(**change)
    for answer in (Client().get(link), Client().post(link, NEW)):
        assert answer.status_code == 410 and words in answer.content.decode()
    assert not User.objects.filter(username="carol").exists()
    assert "no such invitation" in Client().get("/join/never-was/").content.decode()


def test_who_has_an_account_joins_with_it(team, user, other_user, other_web):
    link = invited(team, user, Role.OPERATOR)
    assert b"Join as bob" in other_web.get(link).content
    assert other_web.post(link)["Location"] == f"/team/{team.pk}/"
    assert Membership.objects.get(team=team, user=other_user).role == Role.OPERATOR
    again = invited(team, user, Role.OWNER)
    assert b"in this team already" in other_web.post(again).content
    assert Membership.objects.get(team=team, user=other_user).role == Role.OPERATOR
    assert invitations.open_invitations().count() == 1  # not spent


@pytest.mark.parametrize("name", ["alice", "ALICE", "bad name", ""])
def test_a_name_that_cannot_be_is_refused(team, user, name):
    answer = Client().post(invited(team, user), {**NEW, "username": name})
    assert answer.status_code == 200 and b"errorlist" in answer.content
    assert invitations.open_invitations().count() == 1


def test_an_invitation_is_taken_back(web, team, user):
    link = invited(team, user)
    web.post(f"/team/{team.pk}/invitations/{Invitation.objects.get().pk}/revoke/")
    assert Client().get(link).status_code == 410


def test_an_invitation_is_mailed_where_there_is_mail(web, team, settings):
    settings.SENDS_MAIL = True
    answer = web.post(f"/team/{team.pk}/invite/", {"role": "viewer", "email": "c@example.org"})
    assert link_in(answer) in mail.outbox[0].body and b"mailed to c@example.org" in answer.content


def test_who_is_no_owner_any_more_leaves_no_open_invitation(team, user, carol):
    members.change_role(carol, Role.OWNER)
    link = invited(team, carol.user, Role.OWNER)
    members.change_role(carol, Role.OPERATOR)
    assert Client().get(link).status_code == 410


def test_roles_are_changed_and_members_removed(web, team, carol):
    web.post(f"/team/{team.pk}/members/{carol.pk}/role/", {"role": "operator"})
    carol.refresh_from_db()
    assert carol.role == Role.OPERATOR
    web.post(f"/team/{team.pk}/members/{carol.pk}/role/", {"role": "king"})
    carol.refresh_from_db()
    assert carol.role == Role.OPERATOR
    web.post(f"/team/{team.pk}/members/{carol.pk}/remove/")
    assert not Membership.objects.filter(pk=carol.pk).exists()


def test_the_last_owner_stays(web, team, user, carol):
    mine = Membership.objects.get(user=user)
    for path, sent in (
        (f"members/{mine.pk}/role/", {"role": "viewer"}),
        (f"members/{mine.pk}/remove/", {}),
        ("leave/", {}),
    ):
        answer = web.post(f"/team/{team.pk}/{path}", sent, follow=True)
        assert b"last owner of Storage" in answer.content
        mine.refresh_from_db()
        assert mine.role == Role.OWNER
    members.change_role(carol, Role.OWNER)
    User.objects.filter(pk=carol.user_id).update(is_active=False)
    with pytest.raises(ValidationError):  # nobody could log in as owner
        members.remove_member(mine)
    User.objects.filter(pk=carol.user_id).update(is_active=True)
    assert web.post(f"/team/{team.pk}/leave/")["Location"] == "/team/"
    assert web.get(f"/team/{team.pk}/").status_code == 404


def test_a_member_of_another_team_is_no_member_here(web, team, other_user):
    theirs = Membership.objects.get(user=other_user)
    assert web.post(f"/team/{team.pk}/members/{theirs.pk}/remove/").status_code == 404
    assert Membership.objects.filter(pk=theirs.pk).exists()


def test_a_team_is_renamed(web, team, other_user):
    web.post(f"/team/{team.pk}/change/", {"name": "Disks"})
    team.refresh_from_db()
    assert team.name == "Disks"
    assert web.post(f"/team/{team.pk}/change/", {"name": "Others"}).status_code == 400


def test_new_things_belong_to_the_chosen_team(web, user, team):
    second = Team.objects.create(name="Second")
    Membership.objects.create(team=second, user=user, role=Role.OPERATOR)
    third = Team.objects.create(name="Third")
    Membership.objects.create(team=third, user=user, role=Role.VIEWER)

    def made() -> Team:
        return owning_team(web.get("/").wsgi_request.user)

    assert made() == team
    web.post("/team/choose/", {"team": second.pk})
    assert made() == second
    assert b"Belong here" in web.get("/team/").content
    assert web.post("/team/choose/", {"team": "x"}).status_code == 404


# The site admin's


def test_a_deactivated_user_is_out_at_once(root, web, user, team):
    key = tokens.create_token(user, "t", Role.OWNER)[1]
    link = invited(team, user)
    api = APIClient()
    api.credentials(HTTP_AUTHORIZATION=f"Token {key}")
    assert api.get("/api/hosts/").status_code == 200 and web.get("/").status_code == 200
    root.post(f"/site/users/{user.pk}/active/")
    assert api.get("/api/hosts/").status_code == 401 and web.get("/").status_code == 302
    assert Client().get(link).status_code == 410 and not ApiToken.objects.exists()
    refused = Client().post("/login/", {"login": "alice", "password": "alice-password"})
    assert refused["Location"] == "/account/inactive/"
    root.post(f"/site/users/{user.pk}/active/", {"active": "1"})
    assert api.get("/api/hosts/").status_code == 401  # the token does not come back
    again = Client().post("/login/", {"login": "alice", "password": "alice-password"})
    assert again["Location"] == "/"


def test_nobody_deactivates_themselves(root):
    me = User.objects.get(username="root")
    answer = root.post(f"/site/users/{me.pk}/active/", follow=True)
    assert b"cannot deactivate yourself" in answer.content
    assert User.objects.get(pk=me.pk).is_active


def test_a_reset_link_is_shown_once_and_works(root, user):
    link = link_in(root.post(f"/site/users/{user.pk}/reset/"))
    assert b"password1" in Client().get(link, follow=True).content


def test_users_cost_the_same_queries_for_many(root, team, django_assert_max_num_queries):
    for n in range(5):
        person = User.objects.create_user(f"p{n}")
        Membership.objects.create(team=team, user=person)
    with django_assert_max_num_queries(5):
        assert root.get("/site/users/").content.count(b"Storage") == 5


def test_a_site_admin_makes_a_team_and_invites_an_owner(root, team):
    root.post("/site/teams/", {"name": "Flash"})
    made = Team.objects.get(name="Flash")
    assert Membership.objects.get(team=made).role == Role.OWNER
    link_in(root.post(f"/site/teams/{team.pk}/owner/"))  # of a team that they are not in
    assert Invitation.objects.get(team=team).role == Role.OWNER
    library = Team.objects.filter(library=True).first()
    if library:
        assert root.post(f"/site/teams/{library.pk}/owner/").status_code == 404


def test_links_are_not_in_the_log(team, user, log):
    token = invitations.invite(team, Role.VIEWER, user)[1]
    Invitation.objects.update(revoked_at=timezone.now())
    Client().get(f"/join/{token}/?x=1")
    Client().get(f"/account/reset/1-{token}/nowhere/")
    Client().get(f"/s/{token}/embed/")
    said = log.getvalue()
    assert "/s/***/embed/" in said
    assert token not in said and "/join/***/" in said and "/account/reset/1-***/nowhere/" in said
