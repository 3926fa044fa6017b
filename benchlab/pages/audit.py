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
from django.urls import path
from django.views.decorators.http import require_GET

from benchlab.audit.chain import ENTRY_FIELDS
from benchlab.audit.models import Entry, EntryQuerySet
from benchlab.charts.tables import csv_response
from benchlab.web import lists
from benchlab.web.filters import StrictChoiceFilter
from benchlab.web.lists import BoundedPaginator
from benchlab.web.texts import csv_lines

PER_PAGE = 100
# By the word that the list's address has for each column. All that sorts has an index (audit/models.py).
COLUMNS = {
    "when": lists.sort_column("When (UTC)", "at"),
    "who": lists.sort_column("Who", "actor"),
    "by": lists.SortColumn("By"),
    "from": lists.SortColumn("From"),
    "what": lists.sort_column("What", "action"),
    "to": lists.SortColumn("To what"),
    "outcome": lists.sort_column("Outcome", "outcome"),
}


class LowercaseFilter(django_filters.CharFilter):  # type: ignore[misc]
    """Filter for a column without capitals, five times as fast as folding the case of every row."""

    def filter(self, qs: EntryQuerySet, value: str) -> EntryQuerySet:
        return super().filter(qs, value.lower())  # type: ignore[no-any-return]


class AuditFilter(django_filters.FilterSet):  # type: ignore[misc]
    actor = django_filters.CharFilter(lookup_expr="icontains", label="Who")
    action = LowercaseFilter(lookup_expr="contains", label="What")
    subject = django_filters.CharFilter(lookup_expr="icontains", label="To what")
    outcome = StrictChoiceFilter(
        choices=[("done", "done"), ("refused", "refused")], label="Outcome", empty_label="any"
    )
    since = django_filters.DateFilter("at", lookup_expr="date__gte", label="From (date)")
    until = django_filters.DateFilter("at", lookup_expr="date__lte", label="To (date)")

    class Meta:
        model = Entry
        fields: tuple[str, ...] = ()


def filtered_entries(request: HttpRequest) -> tuple[Any, EntryQuerySet]:
    """The filter's form, and what it lets through; nothing when a filter is wrong."""
    filterset = AuditFilter(request.GET, Entry.objects.to_sort_for(request.user))
    return filterset.form, filterset.qs if filterset.is_valid() else Entry.objects.none()


@require_GET
def audit_log(request: HttpRequest) -> HttpResponse:
    form, rows = filtered_entries(request)
    listed = lists.filter_rows(request, rows, COLUMNS, (), filters=AuditFilter.base_filters)
    page = BoundedPaginator(listed.rows, PER_PAGE).get_page(request.GET.get("page"))
    context = {
        "form": form,
        "listed": listed,
        "sort": lists.sort_parameter(request, COLUMNS),
        "page": page,
        "query": lists.without_parameters(request.GET, "page").urlencode(),
    }
    return render(request, "audit/log.html", context)


@require_GET
def audit_csv(request: HttpRequest) -> HttpResponseBase:
    """Everything that the page's filter lets through, oldest first, with the seals."""
    # the page's address has its order
    lists.reject_unknown_parameters(request, lists.SORT, *AuditFilter.base_filters)
    form, entries = filtered_entries(request)
    # an empty file would look as if nothing had happened
    if not form.is_valid():
        raise BadRequest(form.errors.as_text())

    def make_csv() -> Iterator[str]:
        rows = entries.order_by("pk").iterator(chunk_size=1000)
        return csv_lines(
            ENTRY_FIELDS, ([getattr(row, name) for name in ENTRY_FIELDS] for row in rows)
        )

    return csv_response(request, make_csv, "audit.csv")


urlpatterns = [
    path("", audit_log, name="audit-log"),
    path("audit.csv", audit_csv, name="audit-csv"),
]
