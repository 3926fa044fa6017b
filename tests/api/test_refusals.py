"""Every refusal has one shape."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from tests.api.conftest import is_problem

JSON = "application/json"


@pytest.mark.parametrize("path", ["hosts/", "hosts/1/", "schema/", "", "nothing/"])
def test_nobody_gets_in_without_a_name(db, path):
    answer = APIClient().get(f"/api/{path}")
    is_problem(answer, 401)
    assert answer["WWW-Authenticate"] == "Token"


@pytest.mark.parametrize("header", ["Token wrong", "Token", "Token a b", "Bearer x", "Token \xe9"])
def test_a_wrong_token_is_refused(db, header):
    is_problem(APIClient().get("/api/hosts/", HTTP_AUTHORIZATION=header), 401)


def test_a_token_of_somebody_who_left_is_refused(api, user):
    user.is_active = False
    user.save()
    is_problem(api.get("/api/hosts/"), 401)


def test_a_session_reads_and_writes_only_with_the_csrf_token(user):
    client = APIClient(enforce_csrf_checks=True)
    client.force_login(user)
    assert client.get("/api/hosts/").status_code == 200
    is_problem(client.post("/api/credentials/", {"name": "x"}), 403)


def test_somebody_in_no_team_makes_nothing(api, user):
    user.teams.clear()
    said = is_problem(api.post("/api/credentials/", {"name": "key"}), 403)
    assert "no team" in said["detail"]


@pytest.mark.parametrize("path", ["hosts/999/", "hosts/one/", f"hosts/{10**30}/", "nothing/"])
def test_what_is_not_there(api, path):
    is_problem(api.get(f"/api/{path}"), 404)


@pytest.mark.parametrize(
    ("method", "path"),
    [("delete", "hosts/"), ("put", "campaigns/1/"), ("post", "runs/"), ("get", "runs/1/retry/")],
)
def test_a_method_that_is_not_there(api, method, path):
    is_problem(getattr(api, method)(f"/api/{path}"), 405)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded"])
def test_only_json_is_taken(api, kind):
    is_problem(api.post("/api/credentials/", "name=x", content_type=kind), 415)


def test_only_json_is_given(api):
    is_problem(api.get("/api/hosts/", HTTP_ACCEPT="text/html"), 406)


@pytest.mark.parametrize(
    "body",
    ["{", '{"name": NaN}', "\xff", '{"a":' * 5000, "[" * 100_000, f'{{"name": {"9" * 5000}}}'],
)
def test_malformed_json(api, body):
    is_problem(api.post("/api/credentials/", body.encode("latin-1"), content_type=JSON), 400)


@pytest.mark.parametrize("word", ['"\\ud800"', '{"a": ["x\\udfff"]}', '{"\\ud83d": 1}'])
@pytest.mark.parametrize("field", ["name", "order", "hosts"])
def test_half_of_a_character(api, field, word):
    """It is valid JSON; a refusal that repeated it could not be sent: 500."""
    body = f'{{"{field}": {word}}}'
    is_problem(api.post("/api/campaigns/", body, content_type=JSON), 400)


@pytest.mark.parametrize(
    "body", ["[]", "null", "3", '"x"', '{"name": null}', '{"name": "\\u0000"}']
)
def test_json_of_another_shape(api, body):
    assert "errors" in is_problem(api.post("/api/credentials/", body, content_type=JSON), 400)


@pytest.mark.parametrize("value", ["\0", "\ud800", {"\0": 1}, [{"a": "\0"}]])
def test_what_the_database_cannot_hold_is_refused(api, value):
    import json

    stack = [{"kind": "directory", "options": {"path": value}}]
    body = json.dumps({"name": "t", "stack": stack})
    answer = api.post("/api/topologies/", body, content_type=JSON)
    assert is_problem(answer, 400)["errors"].keys() == {"stack"}


def test_infinity_is_refused(api):
    body = '{"name": "w", "tool": "fio", "options": {"rw": "read", "size": 1e999}}'
    answer = api.post("/api/workloads/", body, content_type=JSON)
    assert "finite" in is_problem(answer, 400)["detail"]


def test_errors_name_the_field(api):
    said = is_problem(api.post("/api/hosts/", {"name": "x", "address": "a b"}), 400)
    assert said["errors"].keys() == {"address", "credential"}
    assert "credential: This field is required." in said["detail"]


def test_a_token_is_enough(api):
    assert api.get("/api/").status_code == 200


def test_a_forgotten_slash_is_forgiven(api):
    assert api.get("/api/hosts")["Location"] == "/api/hosts/"
