# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI schema as rows for a page: groups of operations, each with its parameters and fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """`kind` in words: "integer, 1 to 1000", "text, one of a, b", "list of objects"."""

    name: str
    kind: str
    required: bool
    says: str


@dataclass(frozen=True, slots=True)
class Operation:
    """`answers`: status code and what it is."""

    anchor: str
    method: str
    path: str
    says: str
    parameters: list[Field]
    sent: list[Field]
    given: list[Field]
    answers: list[tuple[str, str]]
    paged: bool


STATUS_TEXTS = {
    "200": "done",
    "201": "made",
    "304": "you have it: see If-None-Match",
    "400": "refused: see errors",
    "401": "no valid token",
    "403": "not allowed",
    "404": "no such row or page of yours",
    "406": "not given in that format",
    "409": "not in this state: see detail",
    "415": "only JSON is accepted",
    "429": "too many requests: see Retry-After",
}


class SharedGenerator(SchemaGenerator):
    """Generates the public schema once per process: it describes code alone, and takes half a second."""

    _schemas: ClassVar[dict[str | None, Any]] = {}

    def get_schema(self, request: Any = None, public: bool = False) -> Any:
        """Return the schema. Callers must not change it."""
        if not public:
            return super().get_schema(request, public)  # type: ignore[no-untyped-call]
        version = self.api_version or getattr(request, "version", None)
        if version not in self._schemas:
            self._schemas[version] = super().get_schema(request, public)  # type: ignore[no-untyped-call]
        return self._schemas[version]


class SharedSchema(SpectacularAPIView):
    """The schema, written once per process and format: it describes code alone, and took 0.9 s of CPU time each."""

    generator_class = SharedGenerator
    _written: ClassVar[dict[str, bytes]] = {}

    @extend_schema(exclude=True)
    def get(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        """There is one version: `version` in the address chooses nothing."""
        renderer = request.accepted_renderer
        kind = str(renderer.media_type)
        if kind not in self._written:
            schema = SharedGenerator().get_schema(request=request, public=True)  # type: ignore[no-untyped-call]
            self._written[kind] = renderer.render(schema, renderer_context={})
        name = f"{settings.SPECTACULAR_SETTINGS['TITLE']}.{renderer.format}"
        headers = {"Content-Disposition": f'inline; filename="{name}"'}
        return HttpResponse(self._written[kind], content_type=kind, headers=headers)


def operation_groups() -> dict[str, list[Operation]]:
    """Operations by noun, in the order of the addresses."""
    schema = SharedGenerator().get_schema(public=True)  # type: ignore[no-untyped-call]
    groups: dict[str, list[Operation]] = {}
    for path, methods in schema["paths"].items():
        for method, raw in methods.items():
            noun = path.split("/")[2]
            groups.setdefault(noun, []).append(_operation(schema, path, method, raw))
    return groups


def _operation(schema: Json, path: str, method: str, raw: Json) -> Operation:
    request_schema = _body_schema(raw.get("requestBody", {}))
    response_schema = _body_schema(
        next((r for code, r in raw["responses"].items() if code < "3"), {})
    )
    response_schema = _resolved(schema, response_schema)
    paged = "results" in response_schema.get("properties", {})
    row = response_schema["properties"]["results"]["items"] if paged else response_schema
    return Operation(
        anchor=raw["operationId"],
        method=method.upper(),
        path=path,
        says=raw.get("description", ""),
        parameters=[
            Field(
                p["name"],
                _field_kind(schema, p["schema"]),
                p.get("required", False),
                p.get("description", ""),
            )
            for p in raw.get("parameters", [])
        ],
        sent=list(_schema_fields(schema, request_schema, without="readOnly")),
        given=list(_schema_fields(schema, row, without="writeOnly")),
        answers=[(code, STATUS_TEXTS.get(code, "")) for code in sorted(raw["responses"])],
        paged=paged,
    )


def _body_schema(body: Json) -> Json:
    return next((kind.get("schema", {}) for kind in body.get("content", {}).values()), {})


def _resolved(schema: Json, node: Json) -> Json:
    """The schema that a reference leads to."""
    for key in ("allOf", "oneOf", "anyOf"):
        if key in node:
            return _resolved(schema, {**node[key][0], **{k: node[k] for k in node if k != key}})
    if "$ref" not in node:
        return node
    referenced = schema["components"]["schemas"][node["$ref"].rpartition("/")[2]]
    return {**referenced, **{key: value for key, value in node.items() if key != "$ref"}}


def _schema_fields(schema: Json, node: Json, without: str, prefix: str = "") -> Iterator[Field]:
    """Fields of a schema, those of nested objects one by one: progress.eta_s."""
    resolved = _resolved(schema, node)
    required = resolved.get("required", ())
    for name, raw in resolved.get("properties", {}).items():
        field = _resolved(schema, raw)
        if field.get(without):
            continue
        yield Field(prefix + name, _field_kind(schema, raw), name in required, _help_text(field))
        yield from _schema_fields(schema, field, without, f"{prefix}{name}.")


def _help_text(field: Json) -> str:
    """The help text; without the list of choices that the generator appends."""
    text: str = field.get("description", "")
    return "" if text.startswith("* `") else text.partition("\n\n* `")[0]


def _field_kind(schema: Json, raw: Json) -> str:
    field = _resolved(schema, raw)
    if "enum" in field:
        return "one of " + ", ".join(str(value) for value in field["enum"] if value != "")
    kind: str = field.get("type", "anything")
    if kind == "array":
        return f"list of {_field_kind(schema, field.get('items', {}))}"
    words: dict[str, str] = {"string": field.get("format", "text")}
    limits = [
        f"{word} {field[key]}" for key, word in LIMITS.items() if _is_worth_showing(field.get(key))
    ]
    null = " or null" if field.get("nullable") else ""
    return ", ".join([words.get(kind, kind), *limits]) + null


def _is_worth_showing(limit: int | None) -> bool:
    """True if the limit is worth showing; one that only gives the width of a column would be noise."""
    return (limit is not None and abs(limit) < 2**15 - 1) or limit == 65535


LIMITS = {"minimum": "from", "maximum": "to", "maxLength": "at most"}
