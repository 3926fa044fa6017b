"""Every page and every API action, for every role, in the own team and a foreign one, against the permission table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.cookies import SimpleCookie
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpResponseBase
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.test import APIClient

from benchlab.hosts import host_tasks
from benchlab.rest.urls import router
from benchlab.sharing import links
from benchlab.sharing.models import MadeReport, Star
from benchlab.team import enforcement, invitations, permissions, permissions_api
from benchlab.team.levels import Level
from benchlab.team.models import Invitation, Membership, Team
from benchlab.team.roles import Role
from benchlab.workers import messages
from tests.api.conftest import everything
from tests.shares import LEFT_TO_CI

RANK = {Role.VIEWER: 1, Role.OPERATOR: 2, Role.OWNER: 3}
NEEDS = {Level.VIEWER: 1, Level.OPERATOR: 2, Level.OWNER: 3}
# Names of keyword arguments beyond `pk`, and which row of `everything` each stands for.
PK_OF = {"host": "host", "credential": "credential", "topology": "topology", "workload": "workload",
         "campaign": "campaign", "run": "run", "layout": "layout", "attempt": "attempt", "artifact": "artifact",
         "device": "host", "team": "team", "import": "draft", "talk": "campaign", "comment": "comment",
         "finding": "finding", "view": "view", "share": "share", "shared": "shared", "reported": "reported",
         "dynamo": "binary", "source": "source", "made": "report"}  # fmt: skip
# 404 to whoever has no second factor, no provider, or names no team of theirs.
NEEDS_MORE = {"mfa_view_recovery_codes", "mfa_deactivate_totp", "openid_connect_login", "openid_connect_callback",
              "team-choose", "api-token-revoke", "api-tokens-end", "api-nowhere", "metrics"}  # fmt: skip
TOKEN = "the-link-of-an-invitation"
RUNS_LINK = "the-link-of-a-run"  # all other links are of a campaign
OF_A_RUN = {
    "shared-devices", "shared-histogram", "shared-cpu", "shared-cache", "shared-series", "shared-artifact",
}  # fmt: skip
# Only whose it is may: the table's level lets them in, and the view asks. Owners may delete what others wrote.
OF_ITS_AUTHOR = {"comment-edit": False, "comment-delete": True, "view-delete": True, "comment.partial_update": False,
                 "comment.destroy": True, "savedview.destroy": True, "star.retrieve": False,
                 "made-report": False}  # fmt: skip


def pages(
    patterns: list[Any] | None = None, prefix: str = ""
) -> Iterator[tuple[str, URLPattern, str]]:
    """(name, pattern, route) of every page, "" for one without; the API's nouns are walked by their router."""
    for entry in get_resolver().url_patterns if patterns is None else patterns:
        route = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from pages(entry.url_patterns, route)
        elif not hasattr(entry.callback, "actions"):
            yield entry.name or "", entry, route


def actions() -> Iterator[tuple[str, str, str, Any]]:
    """(noun, action, method, viewset) of every API action."""
    for prefix, viewset, _ in router.registry:
        for route in router.get_routes(viewset):
            for method, action in router.get_method_map(viewset, route.mapping).items():
                yield prefix, action, method, viewset


PAGES = {name: route for name, _, route in pages()}


def noun(viewset: Any) -> str:
    return str(getattr(viewset, "noun", viewset.queryset.model._meta.model_name))


def unlisted(patterns: list[Any] | None = None) -> list[str]:
    """Addresses that the table does not name, or whose permission class does not ask it."""
    return [
        route
        for name, entry, route in pages(patterns)
        if name not in permissions.PAGES
        or (hasattr(entry.callback, "cls") and not enforcement._uses_table(entry.callback))
    ]


def test_the_table_has_every_page_and_no_other():
    assert set(PAGES) == set(permissions.PAGES)
    assert unlisted() == []


@pytest.fixture(autouse=True)
def quiet(monkeypatch, worker_seen):
    """Nothing leaves the house: no nudge to a worker, no look at a host."""
    monkeypatch.setattr(messages, "send", lambda task, pk: None)
    monkeypatch.setattr(host_tasks, "MAX_WAIT_S", 0)


@pytest.fixture
def rows(team):
    made = everything(team)
    made.person = User.objects.create_user("somebody")
    made.member = Membership.objects.create(team=team, user=made.person, role=Role.OPERATOR)
    made.star = Star.objects.create(user=made.person, kind="run", object_id=made.run.pk)
    made.report = MadeReport.objects.create(
        campaign=made.campaign,
        shown=[made.campaign.pk],
        format="pdf",
        by=made.person,
        content=b"%PDF-",
    )
    made.invitation = Invitation.objects.get(team=team)
    made.invitation.digest = invitations.token_digest(TOKEN)
    made.invitation.save()
    for row, token in ((made.share, TOKEN), (made.run_share, RUNS_LINK)):
        row.digest = links.token_digest(token)
        row.save()
    return made


def person(role: Role | None, team: Team) -> User:
    made = User.objects.create_user(f"{role or 'nobody'}", password="a-password")
    if role:
        Membership.objects.create(team=team, user=made, role=role)
    return made


def url(name: str, rows: Any) -> str:
    """With ids of these rows in it: <int:pk> is the one that the name begins with."""
    if name == "api-nowhere":
        return "/api/nothing/"
    route = PAGES[name]
    for part, value in ids(name, rows).items():
        if part in route:
            route = route.replace(part, str(value()))
    assert "<" not in route, f"{name}: say what {route} means"
    return f"/{route}"


def ids(name: str, rows: Any) -> dict[str, Callable[[], int | str]]:
    """What each part of an address may stand for. A value is a call, for most addresses have one part."""
    first = PK_OF.get(name.partition("-")[0], "")
    attempt = rows.attempts[0]
    its = {
        "attempt": lambda: attempt,
        "artifact": lambda: attempt.artifacts.first(),
        "shared": lambda: attempt.artifacts.first(),
        "source": lambda: rows.campaign.sources.first(),
    }
    row = its.get(first, lambda: getattr(rows, first, None))
    return {
        "<int:pk>": lambda: getattr(row(), "pk", 1),
        "<int:device_pk>": lambda: rows.device.pk,
        "<int:member_pk>": lambda: rows.member.pk,
        "<int:invitation_pk>": lambda: rows.invitation.pk,
        "<int:user_pk>": lambda: rows.person.pk,
        "<int:team_pk>": lambda: rows.team.pk,
        "<str:token>": lambda: RUNS_LINK if name in OF_A_RUN else TOKEN,
        "<slug:kind>": lambda: "campaign",
        "<slug:place>": lambda: "opening",
        "<base36:uidb36>-<str:key>": lambda: "1-no-such-key",
        "<slug:provider_id>": lambda: "oidc",
        "<int:layout_pk>": lambda: rows.layout.pk,
        "<int:file_pk>": lambda: rows.draft.files.first().pk,
        "<slug:which>": lambda: "caches",
        "<slug:name>": lambda: "method",
        "<str:name>": lambda: "home-light.webp",
        "<int:task_pk>": lambda: rows.host.tasks.get().pk,
        "<int:install_pk>": lambda: rows.host.installs.get().pk,
        "<int:snapshot_pk>": lambda: getattr(rows.host.snapshots.first(), "pk", 1),
    }


def of_a_row(name: str) -> bool:
    return "<" in PAGES[name]


METHODS = [
    (name, method)
    for name, rule in permissions.PAGES.items()
    for method, level in (("get", rule.see), ("post", rule.do))
    if level is not None
]


# Quick leaves two of them out.
ROLES = (
    Role.VIEWER,
    Role.OPERATOR,
    *(pytest.param(role, marks=LEFT_TO_CI) for role in (None, Role.OWNER)),
)


@pytest.mark.parametrize("role", ROLES)
def test_pages(rows, team, role):
    cookies = logged_in(person(role, team))
    for name, method in METHODS:
        found = ask_page(cookies, name, method, rows)
        said = f"{method} {name} as {role}: {found}"
        allowed = may_see(role, name, method)
        assert (found not in (403, 404)) == allowed or (found == 404 and name in NEEDS_MORE), said
        assert found < 500, said


def may_see(role: Role | None, name: str, method: str) -> bool:
    level = permissions.page_level(name, method.upper())
    if name in OF_ITS_AUTHOR:
        return role is Role.OWNER and OF_ITS_AUTHOR[name]
    if role is None and level is Level.VIEWER and not of_a_row(name):
        return True  # an empty page that says what to do
    return level in (Level.ANYONE, Level.SIGNED_IN) or (
        level in NEEDS and RANK.get(role, 0) >= NEEDS[level]
    )


def test_pages_of_strangers(rows):
    """Strangers are sent to log in."""
    for name, method in METHODS:
        level = permissions.page_level(name, method.upper())
        with rolled_back(f"{method} {name}"):
            answer = getattr(Client(), method)(url(name, rows))
        to_log_in = answer.status_code == 302 and answer["Location"].startswith("/login/?next=")
        # Theirs are the API's way, and the way back to the first half of a log-in.
        if name not in ("schema", "api-root", "api-nowhere", "mfa_authenticate"):
            assert to_log_in == (level is not Level.ANYONE), f"{method} {name}: {answer}"


def test_pages_of_site_admins(rows):
    """The site's pages are for site admins; that nobody else sees them is test_pages'."""
    admin = User.objects.create_superuser("root")
    cookies = logged_in(admin)
    for name, method in METHODS:
        if permissions.page_level(name, method.upper()) is Level.SITE_ADMIN:
            assert ask_page(cookies, name, method, rows) in (200, 302), f"{method} {name}"


def test_pages_of_another_team(rows, other_user):
    """Its owner is an owner, but not of these rows."""
    asked = [
        (name, method)
        for name, method in METHODS
        if of_a_row(name) and permissions.page_level(name, method.upper()) in NEEDS
    ]
    assert len(asked) > 50
    cookies = logged_in(other_user)
    for name, method in asked:
        assert ask_page(cookies, name, method, rows) == 404, f"{method} {name}"


@contextmanager
def rolled_back(asked: str) -> Iterator[None]:
    """Block whose changes are undone: the next role finds what one may delete. An exception says what was asked."""
    try:
        with transaction.atomic():
            yield
            transaction.set_rollback(True)
    except Exception as error:
        error.add_note(asked)
        raise


def logged_in(user: User) -> SimpleCookie:
    """Once for all pages: what each does to the session is rolled back."""
    web = Client()
    web.force_login(user)
    return web.cookies


def ask_page(cookies: SimpleCookie, name: str, method: str, rows: Any) -> int:
    web = Client(raise_request_exception=True)
    web.cookies = SimpleCookie({key: one.value for key, one in cookies.items()})
    with rolled_back(f"{method} {name}"):
        answer = getattr(web, method)(url(name, rows))
    assert for_its_reader_only(answer), f"{method} {name}: {answer.headers}"
    return int(answer.status_code)


def for_its_reader_only(answer: HttpResponseBase) -> bool:
    """No shared cache keeps it, and a browser does not show it again without asking: the reader may have logged out."""
    said = {word.strip() for word in answer.get("Cache-Control", "").split(",")}
    return (
        "no-store" in said
        or {"private", "no-cache"} <= said
        or answer["Content-Type"] == "image/webp"
    )


ACTIONS = sorted({(prefix, action, method, noun(v)) for prefix, action, method, v in actions()})


@pytest.mark.parametrize("role", ROLES)
def test_api(rows, team, role):
    user = person(role, team)
    for prefix, action, method, noun in ACTIONS:
        found = ask_api(user, prefix, action, method, noun, rows)
        said = f"{method} {prefix} {action} as {role}: {found}"
        assert (found not in (403, 404)) == may_do(role, noun, action), said
        assert found < 500, said


def may_do(role: Role | None, noun: str, action: str) -> bool:
    level = permissions_api.API[f"{noun}.{action}"]
    if f"{noun}.{action}" in OF_ITS_AUTHOR:
        return role is Role.OWNER and OF_ITS_AUTHOR[f"{noun}.{action}"]
    if role is None and level is Level.VIEWER and action == "list":
        return True  # and empty
    return level in NEEDS and RANK.get(role, 0) >= NEEDS[level]


def test_api_of_another_team(rows, other_user):
    for prefix, action, method, noun in ACTIONS:
        if action not in ("list", "create"):
            found = ask_api(other_user, prefix, action, method, noun, rows)
            assert found == 404, f"{method} {prefix} {action}: {found}"


def ask_api(user: User, prefix: str, action: str, method: str, noun: str, rows: Any) -> int:
    client = APIClient()
    client.force_authenticate(user)
    path = f"/api/{prefix}/"
    if action not in ("list", "create"):
        path += f"{row_of(noun, rows)}/"
        if action not in ("retrieve", "partial_update", "destroy"):
            path += f"{action.replace('_', '-')}/"
    with rolled_back(f"{method} {path} as {user}"):
        answer = getattr(client, method)(path, {} if method != "get" else None)
    assert for_its_reader_only(answer), f"{method} {path}: {answer.headers}"
    return int(answer.status_code)


def row_of(noun: str, rows: Any) -> int:
    found = {
        "team": lambda: rows.team,
        "membership": lambda: rows.member,
        "hosttask": lambda: rows.host.tasks.get(),
        "packageinstall": lambda: rows.host.installs.get(),
        "factsnapshot": lambda: rows.host.snapshots.get(),
        "steplog": lambda: rows.layout.steps.first(),
        "transition": lambda: rows.layout.transitions.first(),
        "attempt": lambda: rows.attempts[0],
        "artifact": lambda: rows.attempts[0].artifacts.first(),
        "measurement": lambda: rows.attempts[0].measurements.first(),
        "histogram": lambda: rows.attempts[0].histograms.first(),
        "series": lambda: rows.attempts[0].series.first(),
        "savedview": lambda: rows.view,
        "source": lambda: rows.campaign.sources.first(),
        "verdict": lambda: rows.campaign,
    }.get(noun, lambda: getattr(rows, noun))()
    return int(found.pk)
