"""Pages of the API. A module of its own: DRF imports it while it loads the views that benchlab.api builds on."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import ValidationError
from rest_framework.pagination import PageNumberPagination
from rest_framework.request import Request


class Pages(PageNumberPagination):
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 1000

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
        return [page, size]
