"""NUL and lone surrogates, which PostgreSQL takes neither as text nor as JSON: no way in answers 500, and the audit log
has an entry of every refusal of a change."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import pytest
from django.conf import settings
from django.test import Client

from benchlab.audit import chain
from benchlab.audit.models import Entry
from benchlab.rest.urls import router
from tests.api.conftest import client_of
from tests.audit.test_audit import sealed
from tests.each_case import check_each
from tests.team.test_table import PAGES

__all__ = ["sealed"]
pytestmark = pytest.mark.django_db
HEADERS = (
    "Authorization",
    "HX-Current-URL",
    "Idempotency-Key",
    "If-None-Match",
    "User-Agent",
    "X-Forwarded-For",
)
GROUP = re.compile(r"\(\?P<\w+>(?:\[[^\]]*\]|[^()])+\)")
CONVERTER = re.compile(r"<(?:\w+:)?\w+>")


def endpoints() -> list[tuple[str, str]]:
    """(method, address) of every API action whose address has a parameter, which is NUL here."""
    found = []
    for pattern in cast(list[Any], router.get_urls()):
        route = str(pattern.pattern).strip("^$").replace("\\.", ".").replace("/\\Z", "/")
        if GROUP.search(route) and "format" not in route:
            for method in pattern.callback.actions:
                found.append((method, "/api/" + GROUP.sub("%00", route)))
    return found


def page_addresses() -> list[tuple[str, str]]:
    routes = (route for route in PAGES.values() if CONVERTER.search(route) and "(?P" not in route)
    return [
        (method, "/" + CONVERTER.sub("1%00", route))
        for route in routes
        for method in ("get", "post")
    ]


def test_no_address_of_the_api_answers_500_and_none_is_lost_from_the_log(user, team):
    api = client_of(user)
    api.raise_request_exception = False

    def ask(case):
        method, address = case
        before = Entry.objects.count()
        answer = getattr(api, method)(address, {}, format="json")
        assert 400 <= answer.status_code < 500, answer.status_code
        if method not in ("get", "head", "options") and answer.status_code in (403, 404):
            assert Entry.objects.count() == before + 1

    cases = [*endpoints(), ("post", "/api/hosts/%ED%A0%80/probe/"), ("delete", "/api/hosts/1%00/")]
    assert len(cases) > 100
    check_each(ask, cases, str)
    assert Entry.objects.filter(details__path__icontains="\\x00").exists()
    assert not chain.check_log().broken


def test_no_address_of_a_page_answers_500(web):
    web.raise_request_exception = False

    def ask(case):
        method, address = case
        answer = getattr(web, method)(address)
        assert answer.status_code < 500, answer.status_code

    check_each(ask, page_addresses(), str)


@pytest.mark.parametrize("bad", ["\0", "a\0b", "\ud800"])
def test_neither_cookie_nor_header_nor_body_answers_500(user, team, bad):
    octal = "session-" + "".join(f"\\{byte:03o}" for byte in bad.encode("utf-8", "surrogatepass"))
    web = Client(raise_request_exception=False)
    answers: dict[str, Any] = {}
    for name in (settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME, "messages"):
        answers[f"cookie {name}"] = web.get("/", headers={"cookie": f'{name}="{octal}"'})
        answers[f"api {name}"] = web.post(
            "/api/campaigns/", headers={"cookie": f'{name}="{octal}"'}
        )
    typed = bad.encode("utf-8", "surrogatepass").decode("latin-1")
    for header in (
        "Authorization",
        "Idempotency-Key",
        "User-Agent",
        "X-Forwarded-For",
        "If-None-Match",
        "HX-Current-URL",
    ):
        api = client_of(user)
        api.raise_request_exception = False
        words = f"Token {typed}" if header == "Authorization" else typed
        answers[f"header {header}"] = api.post(
            "/api/comments/", {}, format="json", headers={header: words}
        )
        answers[f"get {header}"] = api.get("/api/hosts/", headers={header: words})
        answers[f"page {header}"] = web.post(
            "/login/", {"login": "alice", "password": "x"}, headers={header: words}
        )
    answers["login"] = web.post("/login/", {"login": typed, "password": typed})
    api = client_of(user)
    api.raise_request_exception = False
    body = json.dumps({"name": bad, "address": bad, "note": bad, bad: bad})
    for noun in (
        "hosts",
        "campaigns",
        "topologies",
        "workloads",
        "tags",
        "imports",
        "comments",
        "views",
    ):
        answers[f"body {noun}"] = api.generic(
            "POST", f"/api/{noun}/", body, content_type="application/json"
        )
    failed = {
        name: answer.status_code for name, answer in answers.items() if answer.status_code >= 500
    }
    assert failed == {}
