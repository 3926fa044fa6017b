"""Log in, second factor, sessions, forgotten passwords: allauth's pages in our look, with real codes."""

from __future__ import annotations

import re

import pytest
from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib.auth.hashers import Argon2PasswordHasher
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from benchlab.team import accounts, current_roles, tokens
from benchlab.team.roles import Role
from tests.team.test_environment import env_settings
from tests.team.totp import code

MEMORY = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}


@pytest.fixture
def counting(settings):
    """A cache that remembers attempts, empty."""
    from django.core.cache import cache

    settings.CACHES = MEMORY
    cache.clear()
    yield
    cache.clear()


def log_in(
    name: str = "alice", password: str = "alice-password", web: Client | None = None, **more: str
) -> tuple:
    web = web or Client()
    return web, web.post("/login/", {"login": name, "password": password, **more})


def confirmed(web: Client) -> Client:
    """Client that gave the password once more, as all that touches the account's safety asks for."""
    assert web.post("/account/again/", {"password": "alice-password"}).status_code == 302
    return web


def set_up(web: Client) -> tuple[str, list[str]]:
    """(secret, recovery codes), as a person reads them from the pages."""
    page = confirmed(web).get(reverse("mfa_activate_totp")).content.decode()
    (secret,) = re.findall(r'<code id="secret">(\w+)</code>', page)
    answer = web.post(reverse("mfa_activate_totp"), {"code": code(secret)}, follow=True)
    return secret, re.findall(r"<li><code>(\d+)</code></li>", answer.content.decode())


def test_a_log_in_lasts_as_long_as_was_asked_for(user):
    web, answer = log_in()
    assert answer.status_code == 302 and answer["Location"] == "/"
    assert not web.cookies[settings.SESSION_COOKIE_NAME]["max-age"]
    web, _ = log_in(remember="on")
    assert int(web.cookies[settings.SESSION_COOKIE_NAME]["max-age"]) > 86400
    assert web.get("/").status_code == 200


def test_a_wrong_name_says_the_same_as_a_wrong_password(user):
    said = [log_in(n, "wrong")[1].content.decode().split("<h1>")[1] for n in ("alice", "nobody")]
    errors = [re.findall(r'role="alert">(.*?)<', one) for one in said]
    assert errors[0] == errors[1] != []


def test_tries_are_limited(user, counting):
    for _ in range(5):
        assert b"not correct" in log_in(password="wrong")[1].content
    _, answer = log_in()  # even with the right one
    assert b"Too many failed login attempts" in answer.content
    User.objects.create_user("dave", password="dave-password")
    assert log_in("dave", "dave-password")[1].status_code == 302  # others are not shut out


HERE, ELSEWHERE = "198.51.100.7", "203.0.113.9"


def direct(address: str) -> Client:
    return Client(REMOTE_ADDR=address)


def behind_a_proxy(address: str) -> Client:
    """Ours adds the address it was asked from; what stood before, the browser may have made up."""
    return Client(REMOTE_ADDR="10.0.0.1", HTTP_X_FORWARDED_FOR=f"192.0.2.1, {address}")


@pytest.mark.parametrize(("proxies", "web"), [(0, direct), (1, behind_a_proxy)])
def test_a_stranger_cannot_lock_a_person_out(user, counting, settings, proxies, web):
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = proxies
    for _ in range(8):
        log_in(password="wrong", web=web(ELSEWHERE))
    assert b"Too many failed" in log_in(web=web(ELSEWHERE))[1].content
    assert log_in(web=web(HERE))[1].status_code == 302
    shut = web(ELSEWHERE)
    for _ in range(8):  # nor out of what asks for the password once more
        log_in(password="wrong", web=shut)
    inside, _ = log_in(web=web(HERE))
    assert inside.post("/account/again/", {"password": "alice-password"}).status_code == 302


def test_an_address_that_was_made_up_is_no_other_address(user, counting, settings):
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 1
    for n in range(5):
        web = Client(REMOTE_ADDR="10.0.0.1", HTTP_X_FORWARDED_FOR=f"192.0.2.{n}, {ELSEWHERE}")
        log_in(password="wrong", web=web)
    assert b"Too many failed" in log_in(web=behind_a_proxy(ELSEWHERE))[1].content


def test_addresses_of_one_ipv6_network_are_one(user, counting):
    for n in range(5):
        log_in(password="wrong", web=direct(f"2001:db8:1:2::{n:x}"))
    assert b"Too many failed" in log_in(web=direct("2001:db8:1:2:ffff::1"))[1].content
    assert log_in(web=direct("2001:db8:7::1"))[1].status_code == 302


def test_one_address_cannot_try_many_names(db, counting):
    for n in range(20):
        log_in(f"name{n}", "wrong")
    assert b"Too many failed login attempts" in log_in("name20", "wrong")[1].content


def test_a_second_factor_is_set_up_and_asked_for(user):
    web, _ = log_in()
    page = confirmed(web).get(reverse("mfa_activate_totp"))
    assert b"<svg" in page.content and b"<?xml" not in page.content
    secret, codes = set_up(web)
    assert len(codes) == 10
    web, answer = log_in()
    assert answer["Location"] == reverse("mfa_authenticate")
    assert web.get("/")["Location"].startswith("/login/")  # half a log-in is none
    assert b"Incorrect code" in web.post(answer["Location"], {"code": "000000"}).content
    assert web.post(answer["Location"], {"code": code(secret)})["Location"] == "/"
    assert web.get("/").status_code == 200


def test_recovery_codes_work_once_and_are_shown_once(user):
    web, _ = log_in()
    _, codes = set_up(web)
    again = web.get(reverse("mfa_view_recovery_codes")).content.decode()
    assert not any(one in again for one in codes)
    for expected in ("/", None):
        other, answer = log_in()
        sent = other.post(answer["Location"], {"code": codes[0]})
        assert sent.get("Location") == expected


def test_a_code_works_once(user, counting):
    secret, _ = set_up(log_in()[0])
    now = code(secret)
    web, answer = log_in()
    assert web.post(answer["Location"], {"code": now})["Location"] == "/"
    web, answer = log_in()
    assert b"Incorrect code" in web.post(answer["Location"], {"code": now}).content


def test_codes_cannot_be_tried_one_after_the_other(user, counting):
    secret, _ = set_up(log_in()[0])
    web, answer = log_in()
    said = [web.post(answer["Location"], {"code": f"{n:06}"}).content for n in range(6)]
    assert b"Incorrect code" in said[0] and b"Too many failed" in said[5]
    assert b"Too many failed" in web.post(answer["Location"], {"code": code(secret)}).content


def test_secrets_are_closed_in_the_database(user):
    secret, codes = set_up(log_in()[0])
    stored = str([row.data for row in Authenticator.objects.all()])
    assert secret not in stored and not any(one in stored for one in codes)


def test_a_team_may_demand_a_second_factor(user, team):
    web, _ = log_in()
    team.require_mfa = True
    team.save()
    for page in ("/", "/hosts/", f"/team/{team.pk}/"):
        assert web.get(page)["Location"] == reverse("mfa_index")
    assert b"Storage" in web.get(reverse("mfa_index")).content
    assert web.get(reverse("account")).status_code == 200
    api = APIClient()
    api.credentials(HTTP_AUTHORIZATION=f"Token {tokens.create_token(user, 't', Role.OWNER)[1]}")
    refused = api.get("/api/hosts/")
    assert refused.status_code == 403 and "second factor" in refused.json()["detail"]
    set_up(web)
    assert web.get("/").status_code == 200 and api.get("/api/hosts/").status_code == 200
    web.post(reverse("mfa_deactivate_totp"))
    assert Authenticator.objects.filter(user=user, type="totp").exists()  # it stays on


def test_it_can_be_turned_off_where_nobody_demands_it(user):
    web, _ = log_in()
    set_up(web)
    assert web.post(reverse("mfa_deactivate_totp")).status_code == 302
    assert not Authenticator.objects.filter(user=user).exists()


def test_sessions_are_listed_and_ended(user):
    here, there, third = log_in()[0], log_in()[0], log_in()[0]
    page = here.get(reverse("usersessions_list"))
    other = next(
        one for one in page.context["sessions"] if one.session_key != here.session.session_key
    )
    assert page.content.count(b">This one<") == 1
    here.post(reverse("usersessions_list"), {"session": other.pk})
    assert sorted(web.get("/").status_code for web in (here, there, third)) == [200, 200, 302]
    here.post(reverse("usersessions_list"))
    assert sorted(web.get("/").status_code for web in (here, there, third)) == [200, 302, 302]


def test_nobody_ends_anothers_session(user, other_user):
    log_in("bob", "bob-password")
    from allauth.usersessions.models import UserSession

    theirs = UserSession.objects.get(user=other_user)
    web, _ = log_in()
    assert web.post(reverse("usersessions_list"), {"session": theirs.pk}).status_code == 404
    assert web.post(reverse("usersessions_list"), {"session": "x"}).status_code == 404
    assert UserSession.objects.filter(pk=theirs.pk).exists()


def test_a_new_password_ends_the_other_sessions(user):
    here, there = log_in()[0], log_in()[0]
    new = "harbour-lamp-9"
    change = {"oldpassword": "alice-password", "password1": new, "password2": new}
    assert here.post(reverse("account_change_password"), change).status_code == 302
    assert here.get("/").status_code == 200 and there.get("/").status_code == 302


@pytest.mark.parametrize("bad", ["short-1", "password1234", "1234509876543"])
def test_weak_passwords_are_refused(user, bad):
    web, _ = log_in()
    change = {"oldpassword": "alice-password", "password1": bad, "password2": bad}
    answer = web.post(reverse("account_change_password"), change)
    assert answer.status_code == 200 and b"errorlist" in answer.content


def test_the_address_is_changed_after_the_password_was_asked_for(user):
    stale = Client()
    stale.force_login(user)
    sent = {"email": "a@example.org"}
    assert stale.post("/account/email/", sent)["Location"].startswith("/account/again/")
    web, _ = log_in()
    confirmed(web).post("/account/email/", sent)
    user.refresh_from_db()
    assert user.email == "a@example.org"


def test_without_mail_a_site_admin_hands_the_reset_link_over(user):
    assert b"manage.py changepassword" in Client().get(reverse("account_reset_password")).content
    there, _ = log_in()
    user.refresh_from_db()  # a log-in ends older links
    link = accounts.reset_path(user)
    web = Client()
    form = web.get(link, follow=True)
    new = {"password1": "harbour-lamp-9", "password2": "harbour-lamp-9"}
    assert web.post(form.redirect_chain[-1][0], new).status_code == 302
    assert log_in(password="harbour-lamp-9")[1].status_code == 302
    assert there.get("/").status_code == 302
    assert b"has been used" in Client().get(link, follow=True).content


def test_with_mail_the_link_goes_out(user, settings):
    settings.SENDS_MAIL = True
    User.objects.filter(pk=user.pk).update(email="alice@example.org")
    for address in ("alice@example.org", "nobody@example.org"):
        sent = Client().post(reverse("account_reset_password"), {"email": address})
        assert sent.status_code == 302  # who has an account is not told
    (link,) = re.findall(r"http\S+/account/reset/\S+", str(mail.outbox[0].body))
    assert mail.outbox[0].to == ["alice@example.org"]
    assert b"password1" in Client().get(link, follow=True).content


def test_nobody_signs_up(db):
    assert Client().get("/account/signup/").status_code == 404
    assert b"sign up" not in Client().get("/login/").content.lower()


def test_passwords_are_stored_with_argon2():
    assert env_settings("PASSWORD_HASHERS[0]").endswith("Argon2PasswordHasher")
    assert Argon2PasswordHasher().encode("x", "a-salt-of-a-test").startswith("argon2$argon2id$")


def test_what_a_person_may_costs_no_query(web, user, team, django_assert_num_queries):
    from django.contrib.auth import get_user
    from django.test import RequestFactory

    request = RequestFactory().get("/")
    request.session = web.session
    with django_assert_num_queries(2):  # session, user
        found = current_roles.user_roles(get_user(request))
    assert found.owner == found.viewer == {team.pk} and not found.second_factor
