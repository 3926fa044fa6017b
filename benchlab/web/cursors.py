# SPDX-License-Identifier: Apache-2.0
"""Cursors: a page begins after a row, told by its values of what the list is ordered by. No row is stepped over."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import Any

from django.core import signing
from django.db.models import Model, Q, QuerySet
from rest_framework.exceptions import ValidationError

CURSOR = "cursor"
CURSOR_SALT = "benchlab.web.paging"


def sort_values(row: Model, terms: list[str]) -> list[Any]:
    """The row's, of what the list is ordered by."""
    return [getattr(row, _attribute_name(row, term)) for term in terms]


def encode_cursor(place: list[Any], terms: list[str]) -> str:
    """Return the signed cursor of the page after the row with these values."""
    texts = [v.isoformat() if isinstance(v, date) else v for v in place]
    return signing.dumps([terms, texts], salt=CURSOR_SALT)


def read_page(
    queryset: QuerySet[Any],
    terms: list[str],
    cursor: str,
    size: int,
    read: Callable[[QuerySet[Any], int, int], list[Any]],
) -> list[Any]:
    """The next rows behind the cursor's, from the start for an empty one.

    Raises ValidationError for a cursor that is none of this list's.
    """
    if not cursor:
        return read(queryset, 0, size)
    place = _decode_cursor(queryset, terms, cursor)
    entries: list[Any] = []
    for part in _index_ranges(queryset, terms[0], place[0]):
        entries += read(part.filter(_rows_behind(terms, place)), 0, size - len(entries))
        if len(entries) == size:
            break
    return entries


def _decode_cursor(queryset: QuerySet[Any], terms: list[str], cursor: str) -> list[Any]:
    try:
        made_for, texts = signing.loads(cursor, salt=CURSOR_SALT)
    except signing.BadSignature:
        raise ValidationError({CURSOR: ["Give it as `next` has it; empty to begin."]}) from None
    if made_for != terms:
        raise ValidationError({CURSOR: ["It is of a list in another order; begin anew."]})
    return [
        datetime.fromisoformat(value)
        if isinstance(value, str) and "Date" in type(_model_field(queryset, term)).__name__
        else value
        for term, value in zip(terms, texts, strict=True)
    ]


def _index_ranges(queryset: QuerySet[Any], term: str, value: Any) -> list[QuerySet[Any]]:
    """The rows from the first term's value on, as ranges of an index, in order: without them it would be read from
    its start. Values that are not there are the greatest, and a range of their own."""
    name, descending = term.removeprefix("-"), term.startswith("-")
    not_null = Q(**{f"{name}__isnull": False})
    if value is None:
        return [queryset.filter(~not_null), *([queryset.filter(not_null)] if descending else [])]
    if descending:
        return [queryset.filter(Q(**{f"{name}__lte": value}))]
    rest = [queryset.filter(~not_null)] if _model_field(queryset, term).null else []
    return [queryset.filter(Q(**{f"{name}__gte": value})), *rest]


def _rows_behind(terms: list[str], place: list[Any]) -> Q:
    behind, same = Q(pk__in=[]), Q()
    for term, value in zip(terms, place, strict=True):
        name = term.removeprefix("-")
        behind |= same & _values_behind(name, value, term.startswith("-"))
        same &= Q(**{f"{name}__isnull": True}) if value is None else Q(**{name: value})
    return behind


def _values_behind(name: str, value: Any, descending: bool) -> Q:
    """PostgreSQL has NULL as the greatest."""
    null = Q(**{f"{name}__isnull": True})
    if descending:
        return ~null if value is None else Q(**{f"{name}__lt": value})
    return Q(pk__in=[]) if value is None else null | Q(**{f"{name}__gt": value})


def _attribute_name(row: Model, term: str) -> str:
    return str(getattr(row._meta.get_field(term.removeprefix("-")), "attname", ""))


def _model_field(queryset: QuerySet[Any], term: str) -> Any:
    return queryset.model._meta.get_field(term.removeprefix("-"))
