# SPDX-License-Identifier: Apache-2.0
"""Pages of the API. A module of its own: DRF imports it while it loads the views that benchlab.web.api builds on.

Two ways, in one shape. Numbers are for people: the first REACH rows, and a count as far as COUNTED (what is added
meanwhile shifts the pages); who follows `next` goes on by cursor behind them. `cursor=` is for scripts: each page
begins after the last row of the one before, so no row comes twice or is missed, the thousandth page costs what the
first does, and nothing is counted (`count` is null). How a page is found behind a row: benchlab/web/cursors.py.
"""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.pagination import PageNumberPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import remove_query_param, replace_query_param

from benchlab.web import cursors
from benchlab.web.cursors import CURSOR

# Rows: to step over more, or to count more, takes longer than people wait.
MAX_NUMBERED_ROWS, MAX_COUNTED_ROWS = 2_000, 10_000


class ApiPagination(PageNumberPagination):
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 1000

    def paginate_queryset(
        self, queryset: Any, request: Request, view: Any = None
    ) -> list[Any] | None:
        self.request = request
        self.size = self.get_page_size(request)
        self.terms = [str(term) for term in queryset.query.order_by]
        self.number = self._page_number(request)
        if self.number is None:
            cursor = request.query_params[CURSOR]
            entries = cursors.read_page(
                queryset, self.terms, cursor, self.size + 1, self.read_entries
            )
            self.count = None
        else:
            start = (self.number - 1) * self.size
            entries = self.read_entries(queryset, start, start + self.size + 1)
            if not entries and self.number > 1:
                raise NotFound("There is no such page.")
            self.count = self._total_rows(queryset, start + len(entries), len(entries) > self.size)
        # Told by what was read to find the page, not by its rows: one of those may be gone by now.
        self.following = (
            self.entry_position(entries[self.size - 1]) if len(entries) > self.size else None
        )
        return self.load_rows(queryset, entries[: self.size])

    def read_entries(self, queryset: Any, start: int, end: int) -> list[Any]:
        """Rows of a page from the queryset: here the rows themselves."""
        return list(queryset[start:end])

    def entry_position(self, entry: Any) -> list[Any]:
        """Return an entry's values of the columns that order the list."""
        return cursors.sort_values(entry, self.terms)

    def load_rows(self, queryset: Any, entries: list[Any]) -> list[Any]:
        """Return the rows of the entries."""
        return entries

    def _page_number(self, request: Request) -> int | None:
        """The page's number; None: by cursor. Raises ValidationError or NotFound."""
        text = request.query_params.get("page")
        if CURSOR in request.query_params:
            if text is not None:
                raise ValidationError({CURSOR: ["Give either page or cursor."]})
            return None
        if text is None:
            return 1
        if not (text.isascii() and text.isdecimal() and int(text[:20])):
            raise NotFound("Pages are numbered from 1.")
        number = int(text[:20])
        if number > 1 and number * self.size > MAX_NUMBERED_ROWS:
            raise ValidationError(
                {
                    "page": [
                        f"Pages by number reach the first {MAX_NUMBERED_ROWS} rows; for further rows use cursor= and "
                        "follow next, or filter, or order the other way."
                    ]
                }
            )
        return number

    def _total_rows(self, queryset: Any, read: int, more: bool) -> int | None:
        """Number of rows; None: more than COUNTED."""
        if not more:
            return read
        count: int = queryset.order_by()[: MAX_COUNTED_ROWS + 1].count()
        return count if count <= MAX_COUNTED_ROWS else None

    def get_paginated_response(self, data: Any) -> Response:
        body = {"count": self.count, "next": self._next_url(), "previous": self._previous_url()}
        return Response(body | {"results": data})

    def _next_url(self) -> str | None:
        if self.following is None:
            return None
        assert self.request is not None
        url = self.request.build_absolute_uri()
        if self.number is not None and (self.number + 1) * self.size <= MAX_NUMBERED_ROWS:
            return replace_query_param(url, "page", self.number + 1)
        cursor = cursors.encode_cursor(self.following, self.terms)
        return replace_query_param(remove_query_param(url, "page"), CURSOR, cursor)

    def _previous_url(self) -> str | None:
        if self.number is None or self.number == 1:
            return None
        assert self.request is not None
        url = self.request.build_absolute_uri()
        if self.number == 2:
            return remove_query_param(url, "page")
        return replace_query_param(url, "page", self.number - 1)

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        page_schema = super().get_paginated_response_schema(schema)
        page_schema["properties"]["count"] |= {
            "nullable": True,
            "description": f"null when asked by cursor, and for more than {MAX_COUNTED_ROWS} rows",
        }
        return page_schema

    def get_page_size(self, request: Request) -> int:
        """Refuses what it cannot give: rows that are silently missing would be worse than an error."""
        text = request.query_params.get("page_size")
        if text is None:
            return int(self.page_size)
        if not (text.isascii() and text.isdecimal() and len(text) < 5):
            raise ValidationError({"page_size": [self._page_size_error(text)]})
        if not 1 <= int(text) <= self.max_page_size:
            raise ValidationError({"page_size": [self._page_size_error(text)]})
        return int(text)

    def _page_size_error(self, text: str) -> str:
        return f"Give a number from 1 to {self.max_page_size}, not {text[:20]!r}."

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        page, size = super().get_schema_operation_parameters(view)
        page["schema"] = {"type": "integer", "minimum": 1}
        page["description"] = f"From 1, as far as row {MAX_NUMBERED_ROWS}; behind it by cursor"
        size["schema"] = {"type": "integer", "minimum": 1, "maximum": self.max_page_size}
        cursor = {
            "name": CURSOR,
            "in": "query",
            "required": False,
            "description": "Empty for the first page, then as `next` has it; instead of page",
            "schema": {"type": "string"},
        }
        return [page, size, cursor]


class SmallPagination(ApiPagination):
    """Pages of large rows."""

    page_size = 10


class KeysFirstPagination(ApiPagination):
    """Pages of rows that join several tables: the keys are read from an index first, then the rows."""

    def read_entries(self, queryset: Any, start: int, end: int) -> list[Any]:
        names = [term.removeprefix("-") for term in self.terms]
        return list(queryset.values_list("pk", *names)[start:end])

    def entry_position(self, entry: Any) -> list[Any]:
        return list(entry[1:])

    def load_rows(self, queryset: Any, entries: list[Any]) -> list[Any]:
        """Those that are still there."""
        keys = [entry[0] for entry in entries]
        rows = {row.pk: row for row in queryset.filter(pk__in=keys).order_by()} if keys else {}
        return [rows[key] for key in keys if key in rows]
