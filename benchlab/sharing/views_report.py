# SPDX-License-Identifier: Apache-2.0
"""The report of a campaign or of a saved comparison, for its team; guests have a campaign's under a link."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from benchlab.audit import request_notes
from benchlab.campaigns.models import Campaign
from benchlab.charts import tables
from benchlab.sharing import comparisons, raw_data, report, report_files
from benchlab.sharing import report as reports
from benchlab.sharing import report_files as files
from benchlab.sharing.models import MadeReport, SavedView
from benchlab.sharing.report import Subject
from benchlab.team.models import has_role
from benchlab.team.roles import Role
from benchlab.team.services import requesting_user
from benchlab.web.lists import without_parameters

HTML = "text/html; charset=utf-8"


@require_GET
def report_page(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    """?metric= and ?moment= as on the campaign's page, or the compare page's."""
    return _render_report(request, _report_subject(request, kind, pk))


@require_POST
def report_text(request: HttpRequest, kind: str, pk: int, place: str) -> HttpResponse:
    """`text` at one of the report's places; `seen` tells which text the form showed."""
    if place not in report.Place.values:
        raise Http404(f"{place[:20]!r} is not a place of a report.")
    subject = _report_subject(request, kind, pk, change=True)
    text = request.POST.get("text", "")
    try:
        report.write_text(
            subject.row, place, requesting_user(request), text, request.POST.get("seen", "")
        )
    except (ValidationError, report.ChangedMeanwhile) as error:
        texts = report.texts_with_error(subject.row, place, text, error)
        return _render_report(request, subject, texts, status=409)
    return redirect(f"{subject.page_url}#text-{place}")


@require_GET
def report_file(request: HttpRequest, kind: str, pk: int) -> HttpResponseBase:
    """One HTML file to keep and to send. ?metric= and ?moment= as on the page; ?numbers=1 adds the runs, ?raw=1 what
    their tools wrote, as far as there is room for it."""
    attached, raw = (request.GET.get(name) == "1" for name in ("numbers", "raw"))
    subject = _report_subject(request, kind, pk)
    name = f"{subject.file_stem}.html"
    if raw:
        stream = files.stream_with_raw(request, subject, attached=attached)
        return tables.streamed_response(request, stream, HTML, name)
    return _download_response(files.render_file(request, subject, attached=attached), name)


@require_GET
def report_raw(request: HttpRequest, kind: str, pk: int) -> HttpResponseBase:
    """All raw output behind the report, as a ZIP. 413 beyond its bounds: the page says where each file can be had."""
    subject = _report_subject(request, kind, pk)
    raw = reports.raw_artifacts(request, subject)
    if too_much := raw_data.raw_output_of(request.user, raw).size_error:
        at = ", ".join(reports.artifact_list_urls(request, subject))
        request_notes.mark_refused(request, f"{too_much} {at}")
        return _render_report(request, subject, status=413)
    rows, name = raw_data.readable_artifacts(request.user, raw), f"{subject.file_stem}-raw.zip"
    return tables.streamed_response(
        request, lambda: raw_data.stream_archive(rows), "application/zip", name
    )


@require_http_methods(["GET", "POST"])
def report_made(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    """Files that workers make of it: POST asks for one (`format`, `numbers`), GET tells how far they are."""
    subject = _report_subject(request, kind, pk)
    if request.method == "GET":
        return render(request, "sharing/_made_reports.html", _files_context(request, subject))
    attached = request.POST.get("numbers") == "1"
    try:
        report_files.request_report(
            request, subject, request.POST.get("format", ""), attached=attached
        )
    except ValidationError as error:
        request_notes.mark_refused(request, error.messages[0])
    query = request.META.get("QUERY_STRING", "")
    return redirect(f"{subject.page_url}{'?' if query else ''}{query}#report-files")


@require_GET
def made_file(request: HttpRequest, pk: int) -> HttpResponse:
    """Only for who asked for it, while they see what is in it."""
    rows = MadeReport.objects.for_user(request.user).select_related("campaign", "view")
    row = get_object_or_404(rows.defer("page"), pk=pk)
    if row.content is None or not report_files.may_still_see(request.user, row):
        raise Http404
    name, kind = report_files.download_name(row)
    return _download_response(bytes(row.content), name, kind)


def _report_subject(request: HttpRequest, kind: str, pk: int, *, change: bool = False) -> Subject:
    """Raises Http404. A comparison's report is asked for what it was saved with."""
    if kind == "campaign":
        rows = Campaign.objects.for_user if change else Campaign.objects.visible_to
        return Subject(get_object_or_404(rows(request.user), pk=pk))
    view = get_object_or_404(SavedView.objects.for_user(request.user), pk=pk)
    if comparisons.is_explored(view.query):
        raise Http404("A view of Explore has no report; save the comparison, which has one.")
    request.GET = reports.saved_query(request, view)  # type: ignore[assignment]  # as all that charts know
    return Subject(view)


def _render_report(
    request: HttpRequest,
    subject: Subject,
    texts: dict[str, report.PlaceText] | None = None,
    status: int = 200,
) -> HttpResponse:
    context = reports.member_context(request, subject)
    context["writable"] = has_role(request.user, subject.row.team_id, Role.OPERATOR)
    if texts is not None:
        context["texts"] = texts
    raw = reports.raw_artifacts(request, subject, context["lines"])
    context["raw_output"] = raw_data.raw_output_of(request.user, raw)
    context["raw_listed"] = reports.artifact_list_urls(request, subject)
    full_context = context | _files_context(request, subject)
    return render(request, "sharing/report.html", full_context, status=status)


def _files_context(request: HttpRequest, subject: Subject) -> dict[str, Any]:
    rows = report_files.reports_of(request.user, subject)
    query = request.META.get("QUERY_STRING", "")
    return {
        "subject": subject,
        "asked_for": without_parameters(QueryDict(query), "numbers", "raw").urlencode(),
        "made_reports": [(row, report_files.download_name(row)[0]) for row in rows],
        "under_way": any(not row.is_ready for row in rows),
        "prints": bool(settings.CHROMIUM),
    }


def _download_response(content: str | bytes, name: str, kind: str = HTML) -> HttpResponse:
    answer = HttpResponse(content, content_type=kind)
    answer["Content-Disposition"] = content_disposition_header(True, name) or ""
    answer["X-Content-Type-Options"] = "nosniff"
    return answer
