"""The schema tells the truth: a machine that reads it and tries everything finds nothing wrong."""

from __future__ import annotations

import io
import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import schemathesis
from django.core.management import call_command
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, transaction
from hypothesis import HealthCheck, Phase, given, settings, strategies
from schemathesis.specs.openapi.checks import positive_data_acceptance

from benchlab.hosts import host_tasks
from benchlab.rest.body_examples import EXAMPLES
from benchlab.rest.urls import router
from benchlab.team import tokens
from benchlab.team.api_docs import SharedGenerator
from benchlab.team.roles import Role
from benchlab.testing import profiles
from benchlab.wsgi import application
from tests.each_case import check_each

# Nothing but what was made up could be typed.
TYPED = r"/mark-spare/$"


def test_the_schema_has_no_warnings():
    call_command("spectacular", validate=True, fail_on_warn=True, stdout=io.StringIO())


def test_every_operation_tells_its_refusals():
    from drf_spectacular.generators import SchemaGenerator

    paths = SchemaGenerator().get_schema(request=None, public=True)["paths"]
    for path, methods in paths.items():
        for operation in methods.values():
            refusals = {c: r for c, r in operation["responses"].items() if c.startswith("4")}
            assert "401" in refusals and ("{id}" not in path or "404" in refusals)
            assert all("RateLimit-Reset" in r["headers"] for r in operation["responses"].values())
            for answer in refusals.values():
                ((kind, body),) = answer["content"].items()
                assert kind == "application/problem+json" and "Problem" in str(body)


def test_the_schema_is_written_once(api, db, monkeypatch):
    """It took 0.9 s of CPU time each; what the address says of a version makes no other one."""
    first = {form: api.get(f"/api/schema/?format={form}") for form in ("json", "yaml")}
    assert json.loads(first["json"].content)["openapi"].startswith("3.")
    assert first["yaml"].content.startswith(b"openapi: 3.")

    def fails(*given, **more):
        raise AssertionError("written again")

    monkeypatch.setattr(SharedGenerator, "get_schema", fails)
    for form, answer in first.items():
        again = api.get(f"/api/schema/?format={form}&version=7")
        assert again.content == answer.content
        for name in ("Content-Type", "Content-Disposition"):
            assert again[name] == answer[name]


def bodies() -> list[tuple[str, dict[str, Any]]]:
    """(operation and media type, its content) of every request body."""
    paths = SharedGenerator().get_schema(public=True)["paths"]
    return [
        (f"{method} {path} {kind}", content)
        for path, methods in paths.items()
        for method, operation in methods.items()
        for kind, content in operation.get("requestBody", {}).get("content", {}).items()
    ]


def test_every_request_body_has_an_example_that_its_schema_allows():
    """Of what may be sent: neither a field that is only read, nor without one that is required."""
    known = SharedGenerator().get_schema(public=True)["components"]

    def check(case):
        _, content = case
        schema = content["schema"]
        part = known["schemas"].get(schema.get("$ref", "").rpartition("/")[2], schema)
        sent = {name for name, field in part["properties"].items() if not field.get("readOnly")}
        assert content["example"].keys() <= sent
        assert sent & set(part.get("required", ())) <= content["example"].keys()
        writable = {**part, "required": sorted(sent & set(part.get("required", ())))}
        jsonschema.validate(dict(content["example"]), {**writable, "components": known})

    cases = bodies()
    assert len(cases) > 40
    check_each(check, cases, lambda case: case[0])
    asked = {" ".join(name.split(" ")[:2]) for name, _ in cases}
    assert {" ".join(name.split(" ")[:2]) for name in EXAMPLES} == asked


def test_examples_make_what_they_say(api, ours):
    """A key, a host, a topology, a workload and, of those, a campaign."""
    made = {}
    for noun in ("credentials", "topologies", "workloads"):
        answer = api.post(f"/api/{noun}/", EXAMPLES[f"post /api/{noun}/"])
        assert answer.status_code == 201, answer.content
        made[noun] = answer.json()["id"]
    host = {**EXAMPLES["post /api/hosts/"], "credential": made["credentials"], "name": "vm-10"}
    answer = api.post("/api/hosts/", host)
    assert answer.status_code == 201, answer.content
    own = {
        "hosts": [answer.json()["id"]],
        "topologies": [made["topologies"]],
        "workloads": [made["workloads"]],
    }
    answer = api.post("/api/campaigns/", {**EXAMPLES["post /api/campaigns/"], **own})
    assert answer.status_code == 201, answer.content
    draft = api.post("/api/imports/", EXAMPLES["post /api/imports/"])
    assert draft.status_code == 201, draft.content


@pytest.fixture
def rows(api, ours) -> dict[str, int]:
    """The id of one row of each noun."""
    nouns = [noun for noun, view, _ in router.registry if getattr(view, "pagination_class", None)]
    found = {noun: api.get(f"/api/{noun}/").json()["results"][0]["id"] for noun in nouns}
    # They are no rows: what is done to one is its campaign's
    return found | {"verdicts": ours.campaign.pk}


@pytest.fixture
def headers(user) -> dict[str, str]:
    token = tokens.create_token(user, "schema", Role.OWNER)[1]
    # Its client, without a socket, unpacks nothing.
    return {"Authorization": f"Token {token}", "Accept-Encoding": "identity"}


@pytest.fixture
def served(rows, headers, monkeypatch):
    monkeypatch.setattr(host_tasks, "MAX_WAIT_S", 0)
    for signal in (request_started, request_finished):  # as Django's own test client does
        signal.disconnect(close_old_connections)
    yield schemathesis.openapi.from_wsgi("/api/schema/?format=json", application, headers=headers)
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@settings(
    max_examples=10,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(data=strategies.data())
def try_out(operation, headers, rows, data) -> None:
    case = data.draw(operation.as_strategy())
    if "id" in case.path_parameters and data.draw(strategies.booleans()):
        case.path_parameters["id"] = rows[operation.path.split("/")[2]]  # one that is there
    if isinstance(case.body, dict) and data.draw(strategies.booleans()):
        # A field that nobody knows is all that would be told of most bodies
        known = named(operation)
        case.body = {name: value for name, value in case.body.items() if name in known}
    with transaction.atomic():
        # A tool's options and a layer's are checked by its driver; the schema only knows that they are objects.
        case.call_and_validate(headers=headers, excluded_checks=[positive_data_acceptance])
        transaction.set_rollback(True)  # what one request changes or deletes is there for the next


def named(operation) -> set[str]:
    """Fields of its body."""
    return {name for body in operation.body for name in body.optimized_schema.get("properties", {})}


@pytest.mark.draws
@pytest.mark.slow
@pytest.mark.one_in(1)
def test_schemathesis_finds_nothing(served, rows, headers):
    """Ten made-up requests to each operation drawn: no server error, no answer that the schema does not know."""
    operations = {
        found.ok().label: found.ok()
        for found in served.exclude(path_regex=TYPED).get_all_operations()
    }
    methods = {one.method.upper() for one in operations.values()}
    assert methods == {"GET", "POST", "PATCH", "DELETE"}
    wrong = {}
    for label in profiles.drawn("operations", list(operations), quick=20, more=30):
        try:
            try_out(operations[label], headers, rows)
        except (Exception, BaseExceptionGroup) as error:
            wrong[label] = str(error)
    assert not wrong, "\n\n".join(f"{label}: {said}" for label, said in wrong.items())
