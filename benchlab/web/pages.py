# SPDX-License-Identifier: Apache-2.0
"""Numbered pages of lists that may be long. The API has its own: benchlab/web/paging.py."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from django.core.paginator import Paginator

# rows: to step over more, or to count more, takes longer than people wait
MAX_ROWS = 2_000


class BoundedPaginator(Paginator):  # type: ignore[type-arg]  # it is generic for mypy only
    """The first REACH rows. `more`: there are others behind them; of a list, one more than REACH tells that."""

    @cached_property
    def _reached_rows(self) -> int:
        rows: Any = self.object_list
        return len(rows if isinstance(rows, list) else rows[: MAX_ROWS + 1].values_list("pk"))

    @cached_property
    def count(self) -> int:
        return min(self._reached_rows, MAX_ROWS)

    @property
    def has_more(self) -> bool:
        return self._reached_rows > MAX_ROWS
