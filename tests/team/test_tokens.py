"""API tokens: shown once, stored as a hash, and never more than they say."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher, make_password
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from benchlab.audit.models import Entry
from benchlab.team import accounts, tokens
from benchlab.team.models import ApiToken, Membership, Team
from benchlab.team.roles import Role
from tests.api.conftest import is_problem
from tests.charts import made

FORM = {"name": "notebook", "role": "viewer", "team": "", "days": 30}


def client(key: str) -> APIClient:
    found = APIClient()
    found.credentials(HTTP_AUTHORIZATION=f"Token {key}")
    return found


@pytest.fixture
def second(user) -> Team:
    team = Team.objects.create(name="Second")
    Membership.objects.create(team=team, user=user, role=Role.OWNER)
    return team


def test_it_is_shown_once_and_can_be_revoked(web, user):
    page = reverse("api-token")
    assert "no tokens yet" in web.get(page).text
    answer = web.post(page, FORM)
    key = answer.context["fresh"]
    assert answer["Cache-Control"] == "no-store" and key in answer.text
    (row,) = ApiToken.objects.all()
    assert key not in str(vars(row)) and key not in web.get(page).text
    assert client(key).get("/api/hosts/").status_code == 200
    web.post(reverse("api-token-revoke", args=[row.pk]))
    is_problem(client(key).get("/api/hosts/"), 401)


def test_nobody_revokes_another_ones(web, other_user):
    row, _ = tokens.create_token(other_user, "theirs", Role.VIEWER)
    assert web.post(reverse("api-token-revoke", args=[row.pk])).status_code == 404
    assert ApiToken.objects.filter(pk=row.pk).exists()


def test_a_viewers_token_of_an_owner_changes_nothing(user):
    _, key = tokens.create_token(user, "reader", Role.VIEWER)
    said = is_problem(client(key).post("/api/credentials/", {"name": "k"}), 403)
    assert "this token is a viewer's" in said["detail"]


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_a_limited_token_does_not_leave_the_team(user, other_user, team, role):
    """A limited token is refused: its person's place in the team is more than it may give up."""
    Membership.objects.create(team=team, user=other_user, role=Role.OWNER)
    _, key = tokens.create_token(user, "reader", role)
    said = is_problem(client(key).post(f"/api/teams/{team.pk}/leave/"), 403)
    assert "token is limited" in said["detail"]
    assert Membership.objects.filter(team=team, user=user).exists()
    _, key = tokens.create_token(user, "mine", Role.OWNER)
    assert client(key).post(f"/api/teams/{team.pk}/leave/").status_code == 204


def test_an_owners_token_of_a_viewer_is_a_viewers(user):
    Membership.objects.update(role=Role.VIEWER)
    _, key = tokens.create_token(user, "hope", Role.OWNER)
    is_problem(client(key).post("/api/credentials/", {"name": "k"}), 403)


def test_it_sees_only_its_team(user, team, second):
    made.topology(team, "ours")
    made.topology(second, "seconds")
    _, key = tokens.create_token(user, "narrow", Role.VIEWER, team=second)
    found = client(key).get("/api/topologies/").json()["results"]
    assert [row["name"] for row in found] == ["seconds"]


@pytest.mark.parametrize(
    "page", ["api-token", "account_change_password", "mfa_index", "account-email"]
)
def test_it_opens_no_page_of_its_persons_account(user, page):
    """So it makes no token, and changes neither password nor second factor."""
    token = client(tokens.create_token(user, "all that one may", Role.OWNER)[1])
    for answer in (token.get(reverse(page)), token.post(reverse(page), FORM)):
        assert answer.status_code == 302 and answer["Location"].startswith("/login/")
    assert ApiToken.objects.count() == 1


def test_it_expires(user):
    row, key = tokens.create_token(user, "old", Role.VIEWER, days=1)
    ApiToken.objects.filter(pk=row.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert "expired" in is_problem(client(key).get("/api/hosts/"), 401)["detail"]


def test_when_it_was_last_used_is_kept_to_the_minute(user, django_assert_num_queries):
    row, key = tokens.create_token(user, "used", Role.VIEWER)
    client(key).get("/api/hosts/")
    row.refresh_from_db()
    seen = row.last_used_at
    assert seen is not None
    client(key).get("/api/hosts/")
    row.refresh_from_db()
    assert row.last_used_at == seen


NEW = "harbour-lamp-9"
CHANGE = {"oldpassword": "alice-password", "password1": NEW, "password2": NEW}


@pytest.fixture
def two(user, other_user) -> list[str]:
    """The keys of alice's; bob has one as well."""
    tokens.create_token(other_user, "theirs", Role.VIEWER)
    return [tokens.create_token(user, f"notebook {n}", Role.VIEWER)[1] for n in range(2)]


def alive(keys: list[str]) -> list[bool]:
    assert ApiToken.objects.filter(name="theirs").exists()
    return [client(key).get("/api/hosts/").status_code == 200 for key in keys]


def test_who_changes_the_password_is_asked_about_the_tokens(web, two):
    page = reverse("account_change_password")
    assert "Your 2 API tokens" in web.get(page).text
    refused = web.post(page, CHANGE)
    assert refused.status_code == 200 and refused.context["form"].errors["tokens"]
    assert alive(two) == [True, True]


@pytest.mark.parametrize(("choice", "stay"), [("end", False), ("keep", True)])
def test_they_end_or_stay_as_was_chosen(web, two, choice, stay):
    answer = web.post(reverse("account_change_password"), CHANGE | {"tokens": choice}, follow=True)
    said = "2 API tokens kept" if stay else "2 API tokens ended"
    assert said in answer.text
    assert alive(two) == [stay, stay]
    (entry,) = Entry.objects.filter(action="account_change_password", outcome="done")
    assert entry.subject == said
    assert Entry.objects.filter(action="tokens-end", actor="alice").exists() is not stay


def test_who_has_no_token_is_not_asked(web):
    assert "tokens" not in web.get(reverse("account_change_password")).context["form"].fields
    assert web.post(reverse("account_change_password"), CHANGE).status_code == 302


def test_a_password_after_single_sign_on_asks_likewise(user, two):
    user.set_unusable_password()
    user.save()
    web = Client()
    web.force_login(user)
    keys = [tokens.create_token(user, "new", Role.VIEWER)[1]]
    sent = {"password1": NEW, "password2": NEW}
    page = reverse("account_set_password")
    assert web.post(page, sent).context["form"].errors["tokens"]
    assert web.post(page, sent | {"tokens": "keep"}).status_code == 302
    assert alive(keys) == [True]


def test_a_reset_ends_them(user, two):
    web = Client()
    form = web.get(accounts.reset_path(user), follow=True)
    sent = {"password1": NEW, "password2": NEW, "tokens": "keep"}
    done = web.post(form.redirect_chain[-1][0], sent, follow=True)
    assert "All sessions and API tokens" in done.text
    assert alive(two) == [False, False]
    (entry,) = Entry.objects.filter(action="tokens-end")
    assert entry.subject == "2 API tokens of alice: a new password"


def test_so_does_the_command_line(user, two, monkeypatch):
    monkeypatch.setattr("getpass.getpass", lambda *args, **kwargs: NEW)
    call_command("changepassword", "alice", stdout=io.StringIO())
    assert alive(two) == [False, False]


def test_a_better_hash_of_the_same_password_ends_nothing(user, two, settings):
    older = "django.contrib.auth.hashers.PBKDF2PasswordHasher"
    settings.PASSWORD_HASHERS = [*settings.PASSWORD_HASHERS, older]
    user.password = make_password("alice-password", hasher=PBKDF2PasswordHasher())
    user.save(update_fields=["password"])
    assert (
        Client().post("/login/", {"login": "alice", "password": "alice-password"}).status_code
        == 302
    )
    assert alive(two) == [True, True]


def test_all_are_ended_at_once(web, two):
    assert "2 API tokens ended" in web.post(reverse("api-tokens-end"), follow=True).text
    assert alive(two) == [False, False]
    (entry,) = Entry.objects.filter(action="api-tokens-end")
    assert entry.subject == "2 API tokens"
