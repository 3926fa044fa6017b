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
            asked = request.query_params[CURSOR]
            found = cursors.read_page(queryset, self.terms, asked, self.size + 1, self.read_entries)
            self.count = None
        else:
            start = (self.number - 1) * self.size
            found = self.read_entries(queryset, start, start + self.size + 1)
            if not found and self.number > 1:
                raise NotFound("There is no such page.")
            self.count = self._total_rows(queryset, start + len(found), len(found) > self.size)
        # Told by what was read to find the page, not by its rows: one of those may be gone by now.
        self.following = (
            self.entry_position(found[self.size - 1]) if len(found) > self.size else None
        )
        return self.load_rows(queryset, found[: self.size])

    def read_entries(self, queryset: Any, start: int, end: int) -> list[Any]:
        """Rows of a page from the queryset: here the rows themselves."""
        return list(queryset[start:end])

    def entry_position(self, one: Any) -> list[Any]:
        """Of what `read` gave: its values of what the list is ordered by."""
        return cursors.sort_values(one, self.terms)

    def load_rows(self, queryset: Any, found: list[Any]) -> list[Any]:
        """Of what `read` gave."""
        return found

    def _page_number(self, request: Request) -> int | None:
        """The page's number; None: by cursor. Raises ValidationError or NotFound."""
        asked = request.query_params.get("page")
        if CURSOR in request.query_params:
            if asked is not None:
                raise ValidationError({CURSOR: ["Give either page or cursor."]})
            return None
        if asked is None:
            return 1
        if not (asked.isascii() and asked.isdecimal() and int(asked[:20])):
            raise NotFound("Pages are numbered from 1.")
        number = int(asked[:20])
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

    def _total_rows(self, queryset: Any, seen: int, more: bool) -> int | None:
        """Number of rows; None: more than COUNTED."""
        if not more:
            return seen
        found: int = queryset.order_by()[: MAX_COUNTED_ROWS + 1].count()
        return found if found <= MAX_COUNTED_ROWS else None

    def get_paginated_response(self, data: Any) -> Response:
        told = {"count": self.count, "next": self._next_url(), "previous": self._previous_url()}
        return Response(told | {"results": data})

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
        found = super().get_paginated_response_schema(schema)
        found["properties"]["count"] |= {
            "nullable": True,
            "description": f"null when asked by cursor, and for more than {MAX_COUNTED_ROWS} rows",
        }
        return found

    def get_page_size(self, request: Request) -> int:
        """Refuses what it cannot give: rows that are silently missing would be worse than an error."""
        asked = request.query_params.get("page_size")
        if asked is None:
            return int(self.page_size)
        if not (asked.isascii() and asked.isdecimal() and len(asked) < 5):
            raise ValidationError({"page_size": [self._page_size_error(asked)]})
        if not 1 <= int(asked) <= self.max_page_size:
            raise ValidationError({"page_size": [self._page_size_error(asked)]})
        return int(asked)

    def _page_size_error(self, asked: str) -> str:
        return f"Give a number from 1 to {self.max_page_size}, not {asked[:20]!r}."

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
    """Of rows that are large."""

    page_size = 10


class KeysFirstPagination(ApiPagination):
    """Of rows found by way of several tables: an index alone tells which they are, then those are read."""

    def read_entries(self, queryset: Any, start: int, end: int) -> list[Any]:
        names = [term.removeprefix("-") for term in self.terms]
        return list(queryset.values_list("pk", *names)[start:end])

    def entry_position(self, one: Any) -> list[Any]:
        return list(one[1:])

    def load_rows(self, queryset: Any, found: list[Any]) -> list[Any]:
        """Those that are still there."""
        keys = [one[0] for one in found]
        rows = {row.pk: row for row in queryset.filter(pk__in=keys).order_by()} if keys else {}
        return [rows[key] for key in keys if key in rows]
