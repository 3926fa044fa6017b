"""The OpenAPI schema of what DRF leaves out: every refusal is a Problem, on every operation."""

from __future__ import annotations

from typing import Any, Literal

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema

KIND = "application/problem+json"


class Schema(AutoSchema):
    """Adds the refusals that any operation may answer with; `extend_schema` need only name its 409."""

    def _get_response_bodies(self, direction: Literal["request", "response"] = "response") -> Any:
        from benchlab.api import Problem  # that module's base class loads this one

        bodies = super()._get_response_bodies(direction)
        own = {code for code in bodies if code.startswith("4")}
        for code in sorted(own | self._refusals()):
            bodies[code] = self._get_response_for_code(  # type: ignore[no-untyped-call]
                Problem, code, [KIND], direction
            )
        return bodies

    def _refusals(self) -> set[str]:
        """400 wherever something is sent, 404 where a row or page is asked for, 403 where something changes."""
        found = {"401", "406"}
        if self.method == "POST":
            found |= {"400", "403", "415"}
        if self._is_list_view():
            found |= {"400", "404"}
        if "{" in self.path:
            found.add("404")
        return found


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How a token is sent."""

    target_class = "benchlab.team.tokens.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {
            "type": "apiKey",
            "in": "header",
            "name": "Authorization",
            "description": "`Token blab_…`; /api/token/ makes one.",
        }
