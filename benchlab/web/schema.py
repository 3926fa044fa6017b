# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI schema of what DRF leaves out: every refusal is a Problem, on every operation."""

from __future__ import annotations

from typing import Any, Literal, cast

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter

from benchlab.web.problem import PROBLEM_TYPE, Problem
from benchlab.web.sparse_fields import allows_field_selection

LIMITS = {
    "RateLimit-Limit": "Requests that a minute may have, by the limit that is nearest",
    "RateLimit-Remaining": "Those that are left of it",
    "RateLimit-Reset": "Seconds until the next minute",
}


class ProblemSchema(AutoSchema):
    """Adds the refusals that any operation may answer with; `extend_schema` need only name its 409."""

    def _get_response_bodies(self, direction: Literal["request", "response"] = "response") -> Any:
        bodies = super()._get_response_bodies(direction)
        own = {code for code in bodies if code.startswith("4")}
        if self.method == "GET" and "200" in bodies:
            bodies["304"] = {"description": "As If-None-Match has it"}
        for code in sorted(own | self._refusals()):
            bodies[code] = self._get_response_for_code(  # type: ignore[no-untyped-call]
                Problem, code, [PROBLEM_TYPE], direction
            )
        return bodies

    def get_override_parameters(self) -> list[Any]:
        """Parameters that every operation of its kind takes, beside what its view says."""
        if self.method == "POST":
            return [
                _header_parameter(
                    "Idempotency-Key",
                    "Sent again with the same body, it gets the first answer",
                    255,
                )
            ]
        if self.method != "GET":
            return []
        parameters = [
            _header_parameter(
                "If-None-Match", "The ETag of the cached answer; 304 if it is unchanged", 200
            )
        ]
        return [*parameters, *self._fields_parameter()]

    def _fields_parameter(self) -> list[OpenApiParameter]:
        if not self._sparse():
            return []
        names = list(cast(Any, self.view).get_serializer().fields)
        return [
            OpenApiParameter(
                "fields",
                {"type": "array", "items": {"type": "string", "enum": names}, "minItems": 1},
                explode=False,
                description="Only these",
            )
        ]

    def _sparse(self) -> bool:
        return bool(getattr(self.view, "takes_fields", False)) and allows_field_selection(self.view)

    def _archives(self) -> bool:
        """True when a row may be deleted and brought back, or be part of what may."""
        return bool(getattr(self.view, "archives", False))

    def _is_list_view(self, serializer: Any = None) -> bool:
        """Some lists are one object: a column each, not a row."""
        return not getattr(self.view, "answers_whole", False) and bool(
            super()._is_list_view(serializer)
        )

    def _refusals(self) -> set[str]:
        """400 wherever something is sent, 404 where a row or page is asked for, 403 and 409 where something changes."""
        codes = {"401", "406", "429"}
        if self.method == "GET":
            codes.add("400")
        if self.method == "POST":
            codes |= {"400", "403", "409", "415"}
        if self.method == "PATCH":
            codes |= {"400", "403", "409", "415"}
        if self.method == "DELETE":
            codes |= {"403", "409"}
        if self._is_list_view():
            codes |= {"400", "404"}
        if "{" in self.path:
            codes.add("404")
            if self._archives():
                codes.add("410")
        return codes


def add_partial_rows(result: dict[str, Any], **options: Any) -> dict[str, Any]:
    """A postprocessing hook: where `fields` may be asked for, a row is whole or has some of its properties."""
    schemas = result["components"]["schemas"]
    for operation in (method for path in result["paths"].values() for method in path.values()):
        if "fields" not in {p["name"] for p in operation.get("parameters", ())}:
            continue
        content = operation["responses"]["200"]["content"]["application/json"]
        name = content["schema"].get("$ref", "").rpartition("/")[2]
        if name.startswith("Paginated"):
            rows = schemas[name]["properties"]["results"]
            rows["items"] = _whole_or_partial(rows["items"], schemas)
        elif name:
            content["schema"] = _whole_or_partial(content["schema"], schemas)
    return result


def add_rate_limits(result: dict[str, Any], **options: Any) -> dict[str, Any]:
    """A postprocessing hook: any answer to a token has what is left of its limit (throttling.py)."""
    result["components"]["headers"] = {
        name: {"description": about, "schema": {"type": "integer", "minimum": 0}}
        for name, about in LIMITS.items()
    }
    headers = {name: {"$ref": f"#/components/headers/{name}"} for name in LIMITS}
    for operation in (method for path in result["paths"].values() for method in path.values()):
        for answer in operation["responses"].values():
            answer.setdefault("headers", {}).update(headers)
    return result


def _whole_or_partial(whole: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    # done: another list has the same rows
    if "$ref" not in whole:
        return whole
    name = whole["$ref"].rpartition("/")[2]
    schemas[f"Some{name}"] = {key: part for key, part in schemas[name].items() if key != "required"}
    return {"anyOf": [whole, {"$ref": f"#/components/schemas/Some{name}"}]}


def _header_parameter(name: str, about: str, most: int) -> OpenApiParameter:
    text = {"type": "string", "minLength": 1, "maxLength": most, "pattern": "^[!-~]+$"}
    return OpenApiParameter(name, text, OpenApiParameter.HEADER, description=about)


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Scheme by which a token is sent."""

    target_class = "benchlab.team.tokens.TokenAuthentication"
    name = ["token", "basic"]

    def get_security_definition(self, auto_schema: Any) -> list[dict[str, str]]:
        return [
            {
                "type": "apiKey",
                "in": "header",
                "name": "Authorization",
                "description": "`Token blab_…`; /api/token/ makes one.",
            },
            {
                "type": "http",
                "scheme": "basic",
                "description": "User `token`, the token as password.",
            },
        ]
