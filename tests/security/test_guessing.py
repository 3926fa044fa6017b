"""Guessed passwords: invented addresses change nothing, an account has a limit of its own, and nobody is locked out."""

from __future__ import annotations

import re
import urllib.error
import urllib.parse
import urllib.request
from http.cookiejar import CookieJar

import pytest
import redis
from django.contrib.auth.models import User
from django.core.cache.backends.redis import RedisCache
from django.test import Client
from django.urls import reverse

from benchlab.audit.models import Entry
from benchlab.team import accounts
from tests import stack
from tests.team.test_accounts import MEMORY

REDIS = stack.redis_url(6)
PASSWORD = "alice-password"
REFUSED = b"Too many failed login attempts"


@pytest.fixture
def counting(settings):
    """A cache that remembers attempts, empty; an account may be tried twelve times by strangers."""
    from django.core.cache import cache

    settings.CACHES = MEMORY
    settings.LOGIN_FAILURES_PER_ACCOUNT = (12, 3600)
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def empty_redis():
    with redis.Redis.from_url(REDIS) as store:
        store.flushdb()
        yield
        store.flushdb()


def try_password(url: str, name: str, password: str, forwarded: str) -> bytes:
    """POST the log-in form as a browser does, claiming to come from `forwarded`."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    form = opener.open(f"{url}/login/", timeout=30).read().decode()
    (token,) = set(re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', form))
    fields = {"login": name, "password": password, "csrfmiddlewaretoken": token}
    headers = {
        "X-Forwarded-For": forwarded,
        "X-Real-IP": forwarded,
        "Forwarded": f"for={forwarded}",
    }
    body = urllib.parse.urlencode(fields).encode()
    request = urllib.request.Request(f"{url}/login/", data=body, headers=headers)
    try:
        return bytes(opener.open(request, timeout=30).read())
    except urllib.error.HTTPError as error:
        with error:
            return error.read()


@pytest.mark.django_db(transaction=True)
def test_invented_addresses_are_not_believed(tmp_path, user, empty_redis):
    """On the real server: uvicorn believes X-Forwarded-For of everybody who connects from this machine."""
    with stack.web(tmp_path, REDIS) as url:
        answers = [try_password(url, "alice", "wrong", f"198.51.100.{n}") for n in range(8)]
    assert [REFUSED in answer for answer in answers] == [False] * 5 + [True] * 3
    addresses = Entry.objects.filter(action="login").values_list("address", flat=True)
    assert set(addresses) == {"127.0.0.1"}


def log_in(address: str, password: str, web: Client | None = None, name: str = "alice") -> bytes:
    """Answer to a log-in from that address; b"" for one that succeeds."""
    web = web or Client()
    answer = web.post("/login/", {"login": name, "password": password}, REMOTE_ADDR=address)
    return b"" if answer.status_code == 302 else answer.content


def attack(count: int, name: str = "alice") -> list[bytes]:
    """Try wrong passwords, each from another address."""
    return [log_in(f"203.0.113.{n}", "wrong", name=name) for n in range(count)]


@pytest.mark.parametrize("name", ["alice", "nobody-of-that-name"])
def test_many_addresses_share_an_accounts_limit(user, counting, name):
    """The answer is the same whether or not there is such an account."""
    answers = attack(16, name)
    assert [REFUSED in answer for answer in answers] == [False] * 12 + [True] * 4
    assert b"browser that you have used before" in answers[-1]


def test_a_browser_of_the_persons_own_is_never_locked_out(user, counting):
    own = Client()
    assert log_in("198.51.100.1", PASSWORD, own) == b""
    own.post("/logout/")
    attack(16)
    assert REFUSED in log_in("198.51.100.2", PASSWORD)
    # Also from a new address, as in a train, and from one that strangers use.
    for address in ("198.51.100.3", "203.0.113.1"):
        assert log_in(address, PASSWORD, own) == b""
        own.post("/logout/")


def test_nor_is_an_address_where_the_person_is_logged_in(user, counting):
    assert log_in("198.51.100.1", PASSWORD) == b""
    attack(16)
    assert log_in("198.51.100.1", PASSWORD) == b""


def test_nor_who_is_asked_for_the_password_again(user, counting):
    own = Client()
    assert log_in("198.51.100.1", PASSWORD, own) == b""
    attack(16)
    own.defaults["REMOTE_ADDR"] = "198.51.100.9"
    assert own.post("/account/again/", {"password": PASSWORD}).status_code == 302


def test_a_neighbour_behind_the_same_address_locks_nobody_out(user, counting):
    own = Client()
    assert log_in("198.51.100.1", PASSWORD, own) == b""
    own.post("/logout/")
    for name in ("alice", "bob", "carol", "dave", "eve"):
        for _ in range(5):
            log_in("198.51.100.1", "wrong", name=name)
    assert REFUSED in log_in("198.51.100.1", PASSWORD)
    assert log_in("198.51.100.1", PASSWORD, own) == b""


def test_a_stolen_cookie_has_a_limit_too(user, counting):
    thief = Client()
    assert log_in("198.51.100.1", PASSWORD, thief) == b""
    thief.post("/logout/")
    answers = [log_in(f"203.0.113.{n}", "wrong", thief) for n in range(7)]
    assert [REFUSED in answer for answer in answers] == [False] * 5 + [True] * 2
    assert log_in("198.51.100.2", PASSWORD) == b""


def test_a_cookie_is_good_for_its_own_account_and_as_it_was_signed(user, other_user, counting):
    own = Client()
    assert log_in("198.51.100.1", "bob-password", own, "bob") == b""
    own.post("/logout/")
    ours = {name: cookie.value for name, cookie in own.cookies.items() if "device" in name}
    assert len(ours) == 1
    from benchlab.team import login_limits

    own.cookies[login_limits.cookie_name("alice")] = next(iter(ours.values()))
    attack(16)
    assert REFUSED in log_in("198.51.100.7", PASSWORD, own)
    own.cookies[login_limits.cookie_name("alice")] = "invented:1:x"
    assert REFUSED in log_in("198.51.100.8", PASSWORD, own)


def test_the_cookie_is_no_scripts_business(user, counting, settings):
    settings.SESSION_COOKIE_SECURE = True
    own = Client()
    log_in("198.51.100.1", PASSWORD, own)
    (cookie,) = [cookie for name, cookie in own.cookies.items() if "device" in name]
    assert cookie["httponly"] and cookie["secure"] and cookie["samesite"] == "Lax"
    assert "alice" not in cookie.output()


def test_a_new_password_opens_the_account_again(user, counting):
    attack(16)
    assert REFUSED in log_in("198.51.100.2", PASSWORD)
    web = Client()
    form = web.get(accounts.reset_path(User.objects.get(pk=user.pk)), follow=True)
    new = {"password1": "harbour-lamp-9", "password2": "harbour-lamp-9"}
    assert web.post(form.redirect_chain[-1][0], new).status_code == 302
    assert log_in("198.51.100.3", "harbour-lamp-9") == b""


def test_success_costs_an_account_nothing(user, counting):
    for n in range(14):
        assert log_in(f"198.51.100.{n}", PASSWORD) == b""
    assert Client().get(reverse("login")).status_code == 200


@pytest.mark.parametrize("forgiven", [False, True])
def test_a_period_that_ends_between_two_commands_leaves_no_endless_count(
    empty_redis, monkeypatch, forgiven
):
    """Django asks whether the key exists, then increments it. Here it has always just expired."""
    from benchlab.team import login_limits

    cache = RedisCache(REDIS, {})
    monkeypatch.setattr(login_limits, "cache", cache)
    monkeypatch.setattr(cache, "add", lambda *args, **options: True)
    monkeypatch.setattr(redis.Redis, "exists", lambda self, key: 1)
    if forgiven:
        login_limits.Attempt("limit").forgive()
    else:
        assert login_limits._consume_try("limit", "alice", 5, 60)
    with redis.Redis.from_url(REDIS) as store:
        assert [key for key in store.scan_iter() if store.ttl(key) < 0] == []
