# SPDX-License-Identifier: Apache-2.0
"""Pages of the import: hand in, look at what was found, agree; the reference library; files as they came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import (
    RequestDataTooBig,
    TooManyFieldsSent,
    TooManyFilesSent,
    ValidationError,
)
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import content_disposition_header
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from agents.drivers import registry
from benchlab.audit import request_notes
from benchlab.campaigns.models import Campaign, Origin
from benchlab.charts import numbered_lines
from benchlab.imports import draft_answers, draft_store, drafts, readings
from benchlab.imports.agreements import Refused
from benchlab.imports.draft_store import State, StoreOutcome
from benchlab.imports.forms import DraftForms, ResultForm
from benchlab.imports.models import Draft, DraftFile, Source, Storing
from benchlab.imports.readings import OfferedResult
from benchlab.team.services import owning_team
from benchlab.web import lists

PAGE = "imports/draft.html"
# By the word that the list's address has for each column.
COLUMNS = {
    "name": lists.name_column("Upload"),
    "by": lists.name_column("By", "created_by__username"),
    "made": lists.sort_column("Uploaded (UTC)", "created_at"),
    "state": lists.SortColumn("State", Storing.state_order()),
}
# likewise, of every article the same
LIBRARY_COLUMNS = {
    "campaign": lists.name_column("Campaign"),
    "results": lists.sort_column("Results", "results", "num"),
    "actions": lists.SortColumn("Actions"),
}
FINDS = ("name", "question", "origin__title", "origin__author")
# numbers on one page; more are one click away
MAX_INLINE_NUMBERS = 3000


@dataclass(frozen=True, slots=True)
class ResultRow:
    """A result on the page."""

    number: int
    result: OfferedResult
    form: ResultForm | None


@dataclass(frozen=True, slots=True)
class FileRow:
    file: DraftFile
    # already imported
    campaign: Campaign | None
    unread: list[dict[str, Any]]
    machine: list[dict[str, Any]]
    rows: list[ResultRow]


# only until the upload handler is in place; _import_new is protected
@csrf_exempt
@require_http_methods(["GET", "POST"])
def import_new(request: HttpRequest) -> HttpResponse:
    if drafts.is_too_large(request):
        return _render_new(request, drafts.TOO_LARGE, 413)
    request.upload_handlers = [drafts.Spooled(request)]
    try:
        request.POST  # noqa: B018  # read here, so that a limit is a sentence and not a bare 400
    except RequestDataTooBig:
        return _render_new(request, drafts.TOO_LONG, 413)
    except (TooManyFilesSent, TooManyFieldsSent):
        return _render_new(request, drafts.TOO_MANY, 413)
    return _import_new(request)


@csrf_protect
def _import_new(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return _render_new(request)
    uploads = [
        drafts.Upload(file.name or "unnamed", file.file, file.size or 0)  # type: ignore[arg-type]
        for file in request.FILES.getlist("files")
    ]
    if text := request.POST.get("text", ""):
        uploads.insert(0, drafts.pasted_upload(text))
    try:
        draft = drafts.create_draft(
            team=owning_team(request.user), user=request.user, uploads=uploads
        )
    except ValidationError as error:
        return _render_new(request, " ".join(error.messages), 200)
    return redirect("import-detail", draft.pk)


def _render_new(request: HttpRequest, error: str = "", status: int = 200) -> HttpResponse:
    mine = Draft.objects.for_user(request.user).select_related("created_by")
    context = {
        "error": error,
        "kinds": sorted(reader.LABEL for reader in registry.all_readers().values()),
        "listed": lists.filter_rows(request, mine, COLUMNS, ("name", "created_by__username")),
        "text": request.POST.get("text", "") if status == 200 else "",
    }
    return render(request, "imports/new.html", context, status=status)


def _own_draft(request: HttpRequest, pk: int) -> Draft:
    return get_object_or_404(Draft.objects.for_user(request.user), pk=pk)


@require_http_methods(["GET", "POST"])
def import_detail(request: HttpRequest, pk: int) -> HttpResponse:
    """Page of what was found. POST agrees to what was chosen, and shows all that was typed again when it cannot be.

    While it is read or stored by workers, how far that is.
    """
    draft = _own_draft(request, pk)
    state = draft_store.draft_state(draft)
    if state is not State.READ:
        return _render_progress(request, draft, state)
    if request.htmx:  # type: ignore[attr-defined]
        return HttpResponse(headers={"HX-Refresh": "true"})
    results = readings.offered_results(draft)
    draft_forms = DraftForms(draft, results, request.POST if request.method == "POST" else None)
    if request.method == "POST" and draft_forms.is_valid():
        try:
            draft_store.agree(draft, draft_forms.agreement(), user=request.user)
        except Refused as refused:
            draft_forms.add_errors(refused)
        else:
            # how far that is
            return redirect("import-detail", draft.pk)
    return render(request, PAGE, _draft_context(draft, results, draft_forms))


def _render_progress(request: HttpRequest, draft: Draft, state: State) -> HttpResponse:
    """Page of how far the workers are."""
    part = "#import-progress" if request.htmx else ""  # type: ignore[attr-defined]
    if state is State.READING:
        context: dict[str, Any] = {"draft": draft, "progress": drafts.reading_progress(draft)}
        return render(request, "imports/reading.html" + part, context)
    if state is State.STORING:
        context = {
            "draft": draft,
            "stored": draft_store.get_progress(draft.pk),
            "agreed": draft_store.count_agreed(draft),
        }
        return render(request, "imports/storing.html" + part, context)
    if request.htmx:  # type: ignore[attr-defined]
        return HttpResponse(headers={"HX-Refresh": "true"})
    outcome = StoreOutcome.of_draft(draft)
    campaign = outcome.stored_campaign()
    if campaign and not outcome.failed and not outcome.workloads:
        return redirect("campaign-detail", campaign.pk)
    context = {"draft": draft, "outcome": outcome, "campaign": campaign}
    return render(request, "imports/stored.html", context)


def _draft_context(
    draft: Draft, results: list[OfferedResult], draft_forms: DraftForms
) -> dict[str, Any]:
    campaigns = readings.campaigns_by_hash(draft)
    numbers = sum(len(result.parsed.metrics) for result in results)
    by_file: dict[int, list[ResultRow]] = {}
    for number, result in enumerate(results, 1):
        row = ResultRow(number, result, draft_forms.forms.get(result.result_key))
        by_file.setdefault(result.file.pk, []).append(row)
    files = [
        FileRow(
            file,
            campaigns.get(file.sha256) if not file.trouble else None,
            (file.reading or {}).get("unread", []),
            (file.reading or {}).get("machine", []),
            by_file.get(file.pk, []),
        )
        for file in draft.files.defer("content")
    ]
    return {
        "draft": draft,
        "answer": draft_answers.stored_answer(draft),
        "files": files,
        "results": len(results),
        "numbers": numbers,
        "compared": readings.compare_results(results),
        "far_apart": readings.far_apart_results(results),
        "draft_forms": draft_forms,
        "inline": numbers <= MAX_INLINE_NUMBERS,
    }


@require_GET
def import_file(request: HttpRequest, pk: int, file_pk: int) -> HttpResponse:
    """The text of a file with its line numbers, and every number that was read in it. ?line= chooses the page."""
    draft = _own_draft(request, pk)
    file = get_object_or_404(draft.files.defer("content"), pk=file_pk)
    if file.reading is None and not file.trouble:
        # which shows how far the reading is
        return redirect("import-detail", draft.pk)
    results = [result for result in readings.offered_results(draft) if result.file.pk == file.pk]
    context = {
        "draft": draft,
        "file": file,
        "rows": [ResultRow(number, result, None) for number, result in enumerate(results, 1)],
        "lines": drafts.file_page(file, numbered_lines.parse_line_number(request.GET.get("line"))),
    }
    return render(request, "imports/file.html", context)


@require_POST
def import_discard(request: HttpRequest, pk: int) -> HttpResponse:
    draft = _own_draft(request, pk)
    if draft_store.draft_state(draft) is State.STORING:
        request_notes.mark_refused(
            request, f"{draft} is being stored; delete the campaign once it is there."
        )
        return redirect("import-detail", draft.pk)
    stored = draft.stored_at is not None
    draft.delete()
    if not stored:
        messages.success(request, f"{draft} is discarded; nothing of it was stored.")
    return redirect("import-new")


@dataclass(frozen=True, slots=True)
class Publication:
    """Campaigns of one publication, by their origin."""

    origin: Origin
    campaigns: list[Campaign]

    @property
    def compare(self) -> str:
        query = urlencode([("campaign", row.pk) for row in self.campaigns])
        return f"{reverse('compare')}?{query}"


@require_GET
def library(request: HttpRequest) -> HttpResponse:
    rows = (
        Campaign.objects.visible_to(request.user)
        .filter(source=Campaign.Source.LIBRARY)
        .annotate(results=Count("runs"))
        .order_by("pk")
    )
    listed = lists.filter_rows(request, rows, LIBRARY_COLUMNS, FINDS)
    articles: dict[str, Publication] = {}
    for row in listed.rows:
        origin = Origin.from_campaign(row)
        key = origin.url or origin.title or row.name
        articles.setdefault(key, Publication(origin, [])).campaigns.append(row)
    publications = sorted(
        articles.values(),
        key=lambda publication: (publication.origin.date, publication.origin.title),
    )
    return render(request, "imports/library.html", {"articles": publications, "listed": listed})


@require_GET
def source_download(request: HttpRequest, pk: int) -> HttpResponse:
    """Byte for byte as it came. A browser saves it and never guesses a type."""
    row = get_object_or_404(Source.objects.visible_to(request.user), pk=pk)
    answer = HttpResponse(bytes(row.content), content_type="application/octet-stream")
    answer["Content-Disposition"] = content_disposition_header(True, row.name) or "attachment"
    answer["X-Content-Type-Options"] = "nosniff"
    answer["X-Content-SHA256"] = row.sha256
    return answer
