"""A field that nobody knows is refused, on every operation that takes a body: one that is passed over looks done."""

from __future__ import annotations

from typing import Any

import pytest
from drf_spectacular.generators import SchemaGenerator

from benchlab.rest.urls import router
from tests.api.conftest import DIRECTORY, is_problem
from tests.team.test_table import ACTIONS, row_of
from tests.team.test_table import rows as table_rows  # noqa: F401  # a fixture


def writing() -> list[tuple[str, str, str, str]]:
    return [one for one in ACTIONS if one[2] in ("post", "patch")]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("prefix", "action", "method", "noun"), writing())
def test_every_operation_refuses_it(table_rows, api, user, prefix, action, method, noun):  # noqa: F811
    path = f"/api/{prefix}/"
    if action != "create":
        path += f"{row_of(noun, table_rows)}/"
        path += "" if action == "partial_update" else f"{action.replace('_', '-')}/"
    user.is_superuser = True  # who may make teams
    user.save()
    if noun == "comment":
        table_rows.comment.by = user
        table_rows.comment.save()
    form = "multipart" if prefix == "dynamo-programs" else "json"
    said = is_problem(getattr(api, method)(path, {"colour": "red"}, format=form), 400)
    assert "colour" in said["errors"], said
    assert said["errors"]["colour"][0].startswith("No such field")


def test_the_words_tell_what_there_is(api, ours):
    said = is_problem(api.post("/api/credentials/", {"name": "k", "privatekey": "x"}), 400)
    (words,) = said["errors"]["privatekey"]
    assert "private_key" in words and "team" in words and "public_key" not in words


def test_what_is_read_only_may_come_back(api, ours):
    made = api.post("/api/topologies/", {"name": "dir", "stack": DIRECTORY}).json()
    assert api.post("/api/topologies/", made | {"name": "dir2"}).status_code == 201


def test_it_is_refused_within_objects_too(api, ours):
    result = {"file": 1, "first": 1, "colour": "red"}
    sent: dict[str, Any] = {"results": [result], "campaign": "c", "origin": {"smell": "odd"}}
    said = is_problem(api.post(f"/api/imports/{ours.draft.pk}/agree/", sent), 400)
    assert {"results.0.colour", "origin.smell"} <= set(said["errors"])


def test_every_body_is_told_by_the_schema():
    """Requests are refused for what the schema does not name: an operation without one would refuse everything."""
    paths = SchemaGenerator().get_schema(request=None, public=True)["paths"]
    bodies = {path for path, found in paths.items() if "requestBody" in found.get("post", {})}
    assert {
        f"/api/{prefix}/" for prefix, view, _ in router.registry if hasattr(view, "create")
    } <= bodies
