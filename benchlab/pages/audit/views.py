# SPDX-License-Identifier: Apache-2.0
"""The audit log's page, and the same as CSV."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import django_filters
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_GET

from benchlab.audit.chain import WHOLE
from benchlab.audit.models import Entry, EntryQuerySet
from benchlab.charts.downloads import csv_response
from benchlab.web import lists
from benchlab.web.filters import OneOf
from benchlab.web.pages import Bounded
from benchlab.web.spreadsheets import lines

PER_PAGE = 100
# By the word that the list's address has for each column. All that sorts has an index (audit/models.py).
COLUMNS = {
    "when": lists.by("When (UTC)", "at"),
    "who": lists.by("Who", "actor"),
    "by": lists.By("By"),
    "from": lists.By("From"),
    "what": lists.by("What", "action"),
    "to": lists.By("To what"),
    "outcome": lists.by("Outcome", "outcome"),
}


class Lower(django_filters.CharFilter):  # type: ignore[misc]
    """For a column that has no capitals: five times as fast as to fold the case of every row."""

    def filter(self, qs: EntryQuerySet, value: str) -> EntryQuerySet:
        return super().filter(qs, value.lower())  # type: ignore[no-any-return]


class Filter(django_filters.FilterSet):  # type: ignore[misc]
    actor = django_filters.CharFilter(lookup_expr="icontains", label="Who")
    action = Lower(lookup_expr="contains", label="What")
    subject = django_filters.CharFilter(lookup_expr="icontains", label="To what")
    outcome = OneOf(
        choices=[("done", "done"), ("refused", "refused")], label="Outcome", empty_label="any"
    )
    since = django_filters.DateFilter("at", lookup_expr="date__gte", label="From (date)")
    until = django_filters.DateFilter("at", lookup_expr="date__lte", label="To (date)")

    class Meta:
        model = Entry
        fields: tuple[str, ...] = ()


def chosen(request: HttpRequest) -> tuple[Any, EntryQuerySet]:
    """The filter's form, and what it lets through; nothing when a filter is wrong."""
    found = Filter(request.GET, Entry.objects.to_sort_for(request.user))
    return found.form, found.qs if found.is_valid() else Entry.objects.none()


@require_GET
def log(request: HttpRequest) -> HttpResponse:
    form, rows = chosen(request)
    listed = lists.listed(request, rows, COLUMNS, (), filters=Filter.base_filters)
    page = Bounded(listed.rows, PER_PAGE).get_page(request.GET.get("page"))
    context = {
        "form": form,
        "listed": listed,
        "sort": lists.sorted_by(request, COLUMNS),
        "page": page,
        "query": lists.without(request.GET, "page").urlencode(),
    }
    return render(request, "audit/log.html", context)


@require_GET
def log_csv(request: HttpRequest) -> HttpResponseBase:
    """Everything that the page's filter lets through, oldest first, with the seals."""
    # the page's address has its order
    lists.understood(request, lists.SORT, *Filter.base_filters)
    form, found = chosen(request)
    # an empty file would look as if nothing had happened
    if not form.is_valid():
        raise BadRequest(form.errors.as_text())

    def made() -> Iterator[str]:
        rows = found.order_by("pk").iterator(chunk_size=1000)
        return lines(WHOLE, ([getattr(row, name) for name in WHOLE] for row in rows))

    return csv_response(request, made, "audit.csv")
