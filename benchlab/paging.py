"""Pages of the API. A module of its own: DRF imports it while it loads the views that benchlab.api builds on.

Two ways, in one shape: numbers for people (with a count; what is added meanwhile shifts the pages), and `cursor=` for
scripts: each page begins after the last row of the one before, so no row comes twice or is missed, the thousandth page
costs what the first does, and nothing is counted (`count` is null).
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from django.core import signing
from django.db.models import Model, Q, QuerySet
from rest_framework.exceptions import ValidationError
from rest_framework.pagination import PageNumberPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

CURSOR = "cursor"
SALT = "benchlab.paging"


class Pages(PageNumberPagination):
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 1000

    def paginate_queryset(
        self, queryset: Any, request: Request, view: Any = None
    ) -> list[Any] | None:
        self.by_cursor = CURSOR in request.query_params
        if not self.by_cursor:
            return super().paginate_queryset(queryset, request, view)
        if "page" in request.query_params:
            raise ValidationError({CURSOR: ["Give either page or cursor."]})
        self.request = request
        size = self.get_page_size(request)
        terms = [str(term) for term in queryset.query.order_by]
        asked = request.query_params[CURSOR]
        rows = list((after(queryset, terms, asked) if asked else queryset)[: size + 1])
        self.following = cursor_of(rows[size - 1], terms) if len(rows) > size else ""
        return rows[:size]

    def get_paginated_response(self, data: Any) -> Response:
        if not self.by_cursor:
            return super().get_paginated_response(data)
        assert self.request is not None
        url = self.request.build_absolute_uri()
        following = replace_query_param(url, CURSOR, self.following) if self.following else None
        return Response({"count": None, "next": following, "previous": None, "results": data})

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Which of the two ways it was, `count` tells."""
        found = super().get_paginated_response_schema(schema)
        found["properties"]["count"] |= {
            "nullable": True,
            "description": "null when asked by cursor",
        }
        return found

    def get_page_size(self, request: Request) -> int:
        """Refuses what it cannot give: rows that are silently missing would be worse than an error."""
        asked = request.query_params.get("page_size")
        if asked is None:
            return int(self.page_size)
        if not (asked.isascii() and asked.isdecimal() and len(asked) < 5):
            raise ValidationError({"page_size": [self._range(asked)]})
        if not 1 <= int(asked) <= self.max_page_size:
            raise ValidationError({"page_size": [self._range(asked)]})
        return int(asked)

    def _range(self, asked: str) -> str:
        return f"Give a number from 1 to {self.max_page_size}, not {asked[:20]!r}."

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        page, size = super().get_schema_operation_parameters(view)
        page["schema"] = {"type": "integer", "minimum": 1}
        size["schema"] = {"type": "integer", "minimum": 1, "maximum": self.max_page_size}
        cursor = {
            "name": CURSOR,
            "in": "query",
            "required": False,
            "description": "Empty for the first page, then as `next` has it; instead of page",
            "schema": {"type": "string"},
        }
        return [page, size, cursor]


def cursor_of(row: Model, terms: list[str]) -> str:
    """Where the next page begins: this row's values of what the list is ordered by. Signed, so nobody makes one up."""
    values = [getattr(row, _attribute(row, term)) for term in terms]
    told = [v.isoformat() if isinstance(v, date) else v for v in values]
    return signing.dumps([terms, told], salt=SALT)


def after(queryset: QuerySet[Any], terms: list[str], cursor: str) -> QuerySet[Any]:
    """The rows behind the cursor's. Raises ValidationError for a cursor that is none of this list's."""
    try:
        made_for, told = signing.loads(cursor, salt=SALT)
    except signing.BadSignature:
        raise ValidationError({CURSOR: ["Give it as `next` has it; empty to begin."]}) from None
    if made_for != terms:
        raise ValidationError({CURSOR: ["It is of a list in another order; begin anew."]})
    wanted, same = Q(pk__in=[]), Q()
    for term, value in zip(terms, told, strict=True):
        name = term.removeprefix("-")
        if isinstance(value, str) and "Date" in type(_field(queryset, name)).__name__:
            value = datetime.fromisoformat(value)
        wanted |= same & _beyond(name, value, term.startswith("-"))
        same &= Q(**{f"{name}__isnull": True}) if value is None else Q(**{name: value})
    return queryset.filter(wanted)


def _beyond(name: str, value: Any, descending: bool) -> Q:
    """PostgreSQL has NULL as the greatest."""
    null = Q(**{f"{name}__isnull": True})
    if descending:
        return ~null if value is None else Q(**{f"{name}__lt": value})
    return Q(pk__in=[]) if value is None else null | Q(**{f"{name}__gt": value})


def _attribute(row: Model, term: str) -> str:
    return str(getattr(row._meta.get_field(term.removeprefix("-")), "attname", ""))


def _field(queryset: QuerySet[Any], name: str) -> Any:
    return queryset.model._meta.get_field(name)
