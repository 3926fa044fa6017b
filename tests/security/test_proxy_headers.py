"""A proxy that does not send what it must: the page says which header or setting is missing."""

from __future__ import annotations

import logging

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client

from benchlab import env
from benchlab.up.management.commands import check
from benchlab.web import middleware

Sent = dict[str, str]
TLS: Sent = {"X-Forwarded-Proto": "https"}
PLAIN: Sent = {"X-Forwarded-Proto": "http"}
BY_BROWSER: Sent = {"Sec-Fetch-Mode": "navigate"}
pytestmark = pytest.mark.django_db


@pytest.fixture
def behind(settings):
    """Settings as behind one proxy that ends TLS."""
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    settings.SECURE_SSL_REDIRECT = True
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 1
    settings.ALLOWED_HOSTS = ["bench.example.org", "testserver", "localhost"]
    return settings


def said(status: int, sent: Sent, path: str = "/login/") -> str:
    answer = Client().get(path, headers={"X-Forwarded-For": "192.0.2.1", **sent})
    assert answer.status_code == status
    return answer.content.decode()


def test_all_that_it_must(behind):
    assert "Log in" in said(200, TLS)


def test_plain_http_is_redirected(behind):
    said(301, PLAIN)
    said(301, {"Host": "localhost", **PLAIN, **BY_BROWSER})


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({}, "this request has no X-Forwarded-Proto"),
        (BY_BROWSER, "this request has no X-Forwarded-Proto"),
        ({**PLAIN, **BY_BROWSER}, "X-Forwarded-Proto: http"),
    ],
)
def test_no_redirect_without_end(behind, sent, words):
    assert words in said(400, {"Host": "bench.example.org", **sent})


def test_the_api_is_told_in_its_own_shape(behind):
    assert '"detail": "BENCHLAB_HTTPS is set' in said(400, {}, "/api/hosts/")


def test_health_is_asked_without_a_proxy(behind):
    from tests.test_asgi import answered

    assert answered("/healthz")[0] == 200


def test_fewer_addresses_than_proxies(behind):
    behind.ALLAUTH_TRUSTED_PROXY_COUNT = 2
    assert "BENCHLAB_PROXIES is 2, but X-Forwarded-For names 1" in said(400, TLS)


def test_no_address_is_warned_of_once(behind, caplog):
    middleware._warn_once.cache_clear()
    with caplog.at_level(logging.WARNING, "benchlab.web.middleware"):
        for _ in range(3):
            assert Client().get("/login/", headers=TLS).status_code == 200
    (row,) = [row for row in caplog.records if row.name == "benchlab.web.middleware"]
    assert "no X-Forwarded-For" in row.getMessage()


@pytest.mark.parametrize("path", ["/login/", "/api/hosts/"])
def test_a_name_that_is_not_served(behind, path):
    page = said(400, {"Host": "<b>other.example.org", **TLS}, path)
    assert "does not answer to the name" in page and "ALLOWED_HOSTS" in page
    assert "<b>other" not in page or path.startswith("/api/")


def posted(origin: str, sent: Sent | None = None, *, cookie: bool = True) -> str:
    """Answer to a log-in form of that origin."""
    browser = Client(enforce_csrf_checks=True)
    if cookie:
        browser.get("/login/", headers=sent)
    answer = browser.post("/login/", {"login": "a"}, headers={"Origin": origin, **(sent or {})})
    assert answer.status_code == 403
    return answer.content.decode()


def test_a_form_by_tls_where_nobody_said_so():
    page = posted("https://testserver")
    assert "https://testserver" in page and "http://testserver" in page
    assert "sets BENCHLAB_HTTPS" in page and "CSRF_TRUSTED_ORIGINS" not in page


def test_a_form_under_another_name(behind):
    page = posted("https://bench.example.org:8443", TLS)
    assert "CSRF_TRUSTED_ORIGINS" in page and "pass on the Host" in page


def test_a_form_of_a_page_that_names_no_origin():
    page = posted("null")
    assert "one of null" in page and "CSRF_TRUSTED_ORIGINS" not in page


def test_a_form_without_a_cookie_and_one_that_is_too_old():
    assert "no cookie" in posted("http://testserver", cookie=False)
    assert "too old" in posted("http://testserver")


@pytest.mark.parametrize(
    "given",
    ["https://bench.example.org/", "bench.example.org", "https://", "https://a b", "ftp://a"],
)
def test_an_origin_that_no_browser_sends_is_refused(monkeypatch, given):
    monkeypatch.setenv("CSRF_TRUSTED_ORIGINS", f"https://good.example.org, {given}")
    with pytest.raises(ImproperlyConfigured, match="CSRF_TRUSTED_ORIGINS: expected origins"):
        env.origins("CSRF_TRUSTED_ORIGINS")


def test_origins_are_taken(monkeypatch):
    good = ["https://bench.example.org:8443", "https://*.example.org", "http://[::1]:8000"]
    monkeypatch.setenv("CSRF_TRUSTED_ORIGINS", ",".join(good))
    assert env.origins("CSRF_TRUSTED_ORIGINS") == good


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ALLAUTH_TRUSTED_PROXY_COUNT": 0}, "BENCHLAB_PROXIES is 0"),
        ({"ALLOWED_HOSTS": ["localhost", "127.0.0.1"]}, "add the one that people type"),
        ({"CSRF_TRUSTED_ORIGINS": ["http://bench.example.org"]}, "pages are had by TLS"),
    ],
)
def test_check_names_what_cannot_be_right(behind, change, words):
    for name, value in change.items():
        setattr(behind, name, value)
    with pytest.raises(check.Wrong, match=words):
        check.proxy()


def test_check_tells_what_the_proxy_must_send(behind):
    assert check.proxy().startswith("1 in front, sending Host, X-Forwarded-For, X-Forwarded-Proto")
    # Compose's own proxy, on one machine
    behind.SECURE_SSL_REDIRECT, behind.ALLOWED_HOSTS = False, ["localhost", "127.0.0.1"]
    assert check.proxy().startswith("1 in front, sending Host, X-Forwarded-For (")
    behind.SECURE_SSL_REDIRECT, behind.ALLAUTH_TRUSTED_PROXY_COUNT = False, 0
    with pytest.raises(check.Off):
        check.proxy()
