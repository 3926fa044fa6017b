"""The page about the API, and the one that gives a token."""

from __future__ import annotations

from django.test import Client
from django.urls import reverse

from benchlab.rest.urls import router
from benchlab.team import api_docs, api_permission_rows, permissions_api
from benchlab.team.levels import Level


def test_the_page_tells_of_every_noun_and_field(web):
    shown = web.get(reverse("api-docs")).text
    for noun, _, _ in router.registry:
        assert f"/api/{noun}/" in shown
    assert "POST /api/campaigns/{id}/apply/" in shown
    assert "plan fingerprint that was looked at" in shown  # a field that is sent
    assert "Outstanding I/Os" in shown  # one that is given
    assert "<script>" not in shown and " style=" not in shown


def test_fields_are_told_in_words():
    listed, made = api_docs.operation_groups()["hosts"][:2]
    assert (listed.method, made.method, listed.paged) == ("GET", "POST", True)
    assert {field.name: field.kind for field in listed.parameters}["page_size"] == (
        "integer, from 1, to 1000"
    )
    sent = {field.name: field for field in made.sent}
    assert sent["port"].kind == "integer, from 1, to 65535" and not sent["port"].required
    assert sent["address"].required and "host_key" not in sent
    assert ("409", api_docs.STATUS_TEXTS["409"]) in api_docs.operation_groups()["runs"][-1].answers


def test_the_page_prints_the_permission_table(web):
    shown = web.get(reverse("api-docs")).text
    section = shown[shown.index('id="who-may-do-what"') :]
    for noun, _, _ in router.registry:
        assert f"<code>/api/{noun}/</code>" in section
    rows = {row.address: row for row in api_permission_rows.page_rows()}
    assert (rows["/hosts/{pk}/key/"].see, rows["/hosts/{pk}/key/"].do) == ("owner", "owner")
    assert (rows["/healthz"].see, rows["/healthz"].do) == ("anyone, also without an account", "")
    assert all(f"<code>{address}</code>" in section for address in rows)
    assert "{{" not in section and "<script" not in section.partition("</section>")[0]


def test_every_line_of_the_table_is_told():
    told = api_permission_rows.noun_rows(api_docs.operation_groups())
    words = [
        word for noun in told for actions in noun.actions for word in actions.split(", ") if word
    ]
    assert len(words) == len(permissions_api.API)
    hosts = next(noun for noun in told if noun.address == "/api/hosts/")
    level = dict(zip(api_permission_rows.LEVELS, hosts.actions, strict=True))
    assert level[Level.OPERATOR] == "read facts" and "confirm key" in level[Level.OWNER]


def test_both_pages_want_a_login(db):
    for name in ("api-docs", "api-token"):
        assert "/login/" in Client().get(reverse(name))["Location"]
