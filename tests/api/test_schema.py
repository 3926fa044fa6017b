"""The schema tells the truth: a machine that reads it and tries everything finds nothing wrong."""

from __future__ import annotations

import io

import pytest
import schemathesis
from django.core.management import call_command
from hypothesis import HealthCheck, Phase, settings
from rest_framework.authtoken.models import Token

from benchlab.wsgi import application

# They would connect to whatever address was made up.
REACH_A_HOST = r"/(offer-key|read-facts|mark-spare)/$"

schema = schemathesis.pytest.from_fixture("served")


def test_the_schema_has_no_warnings():
    call_command("spectacular", validate=True, fail_on_warn=True, stdout=io.StringIO())


def test_every_operation_tells_its_refusals():
    from drf_spectacular.generators import SchemaGenerator

    paths = SchemaGenerator().get_schema(request=None, public=True)["paths"]
    for path, methods in paths.items():
        for operation in methods.values():
            refusals = {c: r for c, r in operation["responses"].items() if c.startswith("4")}
            assert "401" in refusals and ("{id}" not in path or "404" in refusals)
            for answer in refusals.values():
                ((kind, body),) = answer["content"].items()
                assert kind == "application/problem+json" and "Problem" in str(body)


@pytest.fixture
def served(api, ours):
    token = Token.objects.get().key
    return schemathesis.openapi.from_wsgi(
        "/api/schema/?format=json", application, headers={"Authorization": f"Token {token}"}
    )


@(schema.include(method=["GET", "POST"]).exclude(path_regex=REACH_A_HOST)).parametrize()
@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_schemathesis_finds_nothing(case):
    token = Token.objects.get().key
    case.call_and_validate(headers={"Authorization": f"Token {token}"})
