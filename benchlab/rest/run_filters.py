"""Filters of runs and of all that belongs to one."""

from __future__ import annotations

from typing import Any

import django_filters
from django.db.models import QuerySet

from benchlab.topologies import moments


class Moment(django_filters.CharFilter):  # type: ignore[misc]
    """Of a run: when in its layout's life it measures."""

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Raises ValueError for what no run has."""
        return super().filter(qs, moments.parse(value).code if value else value)  # type: ignore[no-any-return]
