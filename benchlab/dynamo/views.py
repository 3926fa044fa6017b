# SPDX-License-Identifier: Apache-2.0
"""Pages of dynamo: its program, hosts that only it reaches, and IOmeter's own files."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from agents.contracts import ParseError
from agents.dynamo import icf
from benchlab.audit import request_notes
from benchlab.audit.subjects import describe_row
from benchlab.campaigns.models import Campaign, Workload
from benchlab.charts.figure_views import attempt_title, figure_response
from benchlab.dynamo import iometer_files, program_check, programs, reported_hosts, run_part
from benchlab.dynamo.models import Binary, Reported
from benchlab.hosts import host_tasks
from benchlab.hosts.models import Host
from benchlab.runs.models import Attempt
from benchlab.team.services import owning_team
from benchlab.web import lists

# By the word that the list's address has for each column.
PROGRAMS = {
    "name": lists.name_column(),
    "version": lists.name_column("Version", "version"),
    "size": lists.sort_column("Size", "size", "num"),
    "binary": lists.sort_column("Option binary", "sha256"),
    "by": lists.name_column("By", "uploaded_by__username"),
    "made": lists.sort_column("Made", "created_at"),
    "actions": lists.SortColumn("Actions"),
}


class ProgramForm(forms.Form):
    program = forms.FileField(
        help_text="The Linux build of dynamo 1.1.0 (x86-64 or i386), the program itself."
    )


class CheckForm(forms.Form):
    host = forms.ModelChoiceField(queryset=Host.objects.none())
    path = forms.CharField(
        max_length=400,
        initial="dynamo",
        help_text="Its path there, or its name if it is on the PATH.",
    )

    def __init__(self, user: Any, *args: Any) -> None:
        super().__init__(*args)
        field = self.fields["host"]
        assert isinstance(field, forms.ModelChoiceField)
        field.queryset = Host.objects.for_user(user).filter(access=Host.Access.SSH)


@require_http_methods(["GET", "POST"])
def dynamo(request: HttpRequest) -> HttpResponse:
    """Page of dynamo: its source, the uploaded programs, the hosts that have it. POST uploads one."""
    form = ProgramForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid():
        upload = form.cleaned_data["program"]
        try:
            program, new = programs.store_upload(owning_team(request.user), request.user, upload)
            request_notes.note_subject(request, program.team_id, describe_row(program))
            messages.success(
                request,
                f"{program}, version {program.version}, is {'kept' if new else 'here already'}.",
            )
            return redirect("dynamo")
        except program_check.Refused as error:
            form.add_error("program", str(error))
    return _render_page(
        request, form if request.method == "POST" else ProgramForm(), CheckForm(request.user)
    )


@require_POST
def dynamo_check(request: HttpRequest) -> HttpResponse:
    """Have a program on a host looked at; nothing of it is run."""
    form = CheckForm(request.user, request.POST)
    if not form.is_valid():
        return _render_page(request, ProgramForm(), form)
    host = form.cleaned_data["host"]
    request_notes.note_subject(request, host.team_id, describe_row(host))
    row = host_tasks.request_task(
        host, "check_dynamo", request.user, path=form.cleaned_data["path"]
    )
    return redirect(f"{reverse('dynamo')}?task={row.pk}#check")


def _render_page(request: HttpRequest, upload: ProgramForm, check: CheckForm) -> HttpResponse:
    rows = Binary.objects.for_user(request.user).defer("content").select_related("uploaded_by")
    finds = ("name", "version", "sha256", "uploaded_by__username")
    listed = lists.filter_rows(request, rows, PROGRAMS, finds, "#uploaded", filters=("task",))
    task = host_tasks.user_task_view(request.user, request.GET.get("task"), "check_dynamo")
    result = task.row.result if task else None
    context = {
        "upload": upload,
        "check": check,
        "rows": listed.rows,
        "listed": listed,
        "host_task": task,
        "looked": program_check.report_from_json(result) if result else None,
        "listening": programs.listen_address(),
    }
    return render(request, "dynamo/dynamo.html", context)


@require_http_methods(["GET", "POST"])
def program_delete(request: HttpRequest, pk: int) -> HttpResponse:
    """GET asks, POST deletes an uploaded program; refused while a workload or campaign has it."""
    rows = Binary.objects.for_user(request.user).defer("content")
    row = get_object_or_404(rows, pk=pk)
    context = {"row": row, "users": programs.program_users(row)}
    if request.method == "POST":
        try:
            programs.delete_program(row)
        except programs.InUse:
            return render(request, "dynamo/delete.html", context, status=409)
        messages.success(request, f"{row.name}, {row.sha256[:12]}…, is deleted.")
        return redirect("dynamo")
    return render(request, "dynamo/delete.html", context)


@require_POST
def accept_dynamo(request: HttpRequest, pk: int) -> HttpResponse:
    """Accept the dynamo with the id `port` as this host; `same_machine` keeps marks and known sizes."""
    hosts = Host.objects.for_user(request.user).select_related("team")
    host = get_object_or_404(hosts, pk=pk)
    port = request.POST.get("port", "")
    number = int(port) if port.isascii() and port.isdigit() and len(port) < 6 else 0
    try:
        reported_hosts.accept_dynamo(host, request.user, number, "same_machine" in request.POST)
        messages.success(request, f"The dynamo with id {number} is accepted: tests may run on it.")
    except reported_hosts.Refused as error:
        request_notes.mark_refused(request, str(error))
    return redirect("host-detail", host.pk)


@require_POST
def reported_spare(request: HttpRequest, pk: int) -> HttpResponse:
    """A whole disk that dynamo reports: `typed` is its name, letter by letter; `keep` takes it back."""
    row = _own_target(request, pk)
    try:
        if "keep" in request.POST:
            reported_hosts.unmark_spare(row)
            messages.success(request, f"{row} is kept: nothing is written to it.")
        else:
            reported_hosts.mark_spare(row, request.user, request.POST.get("typed", ""))
            messages.warning(request, f"{row} is spare: a campaign may destroy all that is on it.")
    except reported_hosts.Refused as error:
        request_notes.mark_refused(request, str(error))
    return redirect("host-detail", row.host_id)


@require_POST
def reported_topology(request: HttpRequest, pk: int) -> HttpResponse:
    """A topology of what dynamo reports, to be chosen in a campaign."""
    topology, _ = reported_hosts.create_topology(_own_target(request, pk))
    return redirect("topology-detail", topology.pk)


def _own_target(request: HttpRequest, pk: int) -> Reported:
    rows = Reported.objects.for_user(request.user).select_related("host__team")
    return get_object_or_404(rows, pk=pk)


@require_http_methods(["GET", "POST"])
def icf_new(request: HttpRequest) -> HttpResponse:
    """POST with a file shows what becomes of it; with `take` and the same text it makes those workloads."""
    if request.method != "POST":
        return render(request, "dynamo/icf.html", {})
    text = _submitted_text(request)
    try:
        workloads = icf.read_workloads(text)
    except ParseError as error:
        return render(request, "dynamo/icf.html", {"error": str(error)})
    if "take" not in request.POST:
        return render(request, "dynamo/icf.html", {"found": workloads, "text": text})
    chosen = set(request.POST.getlist("take"))
    created, errors = 0, []
    for number, workload in enumerate(workloads):
        if str(number) in chosen:
            try:
                iometer_files.create_icf_workload(
                    team=owning_team(request.user),
                    user=request.user,
                    name=workload.name,
                    options=workload.options,
                    sweep=workload.sweep,
                    description=workload.description,
                )
                created += 1
            except ValidationError as error:
                errors += error.messages
    # some may be, though others could not
    if created:
        request_notes.note_subject(
            request,
            owning_team(request.user).pk,
            f"{created} workload{'s' if created != 1 else ''} of an .icf file",
        )
        request_notes.mark_done(request)
    if errors:
        return render(
            request,
            "dynamo/icf.html",
            {"found": workloads, "text": text, "error": " ".join(errors)},
        )
    messages.success(request, f"{created} workload{'s' if created != 1 else ''} made.")
    return redirect("workload-list")


def _submitted_text(request: HttpRequest) -> str:
    upload = request.FILES.get("file")
    if upload is not None:
        raw: bytes = upload.read(iometer_files.MAX_FILE_CHARACTERS)
        return raw.decode("latin-1")
    return request.POST.get("text", "")[: iometer_files.MAX_FILE_CHARACTERS]


@require_GET
def icf_download(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(Workload.objects.visible_to(request.user), pk=pk)
    try:
        text = iometer_files.icf_text(row)
    except ParseError as error:
        request_notes.mark_refused(request, str(error))
        return redirect("workload-detail", row.pk)
    return _attachment(text, f"{row.name}.icf", "text/plain")


@require_GET
def attempt_csv(request: HttpRequest, pk: int) -> HttpResponse:
    attempt = get_object_or_404(
        Attempt.objects.visible_to(request.user).select_related("run"), pk=pk
    )
    return _attachment(
        iometer_files.attempts_csv([attempt], str(attempt.run)),
        f"attempt-{pk}-iometer.csv",
        "text/csv",
    )


@require_GET
def campaign_csv(request: HttpRequest, pk: int) -> HttpResponse:
    campaign = get_object_or_404(Campaign.objects.visible_to(request.user), pk=pk)
    text = iometer_files.attempts_csv(iometer_files.campaign_attempts(campaign), campaign.name)
    return _attachment(text, f"campaign-{pk}-iometer.csv", "text/csv")


def _attachment(text: str, name: str, kind: str) -> HttpResponse:
    answer = HttpResponse(text.encode("utf-8"), content_type=f"{kind}; charset=utf-8")
    answer["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    return answer


@require_GET
def attempt_latency(request: HttpRequest, pk: int) -> HttpResponse:
    """The histogram of dynamo's 21 bins, as a figure."""
    attempt = _visible_attempt(request, pk)
    return figure_response(
        run_part.latency_histogram(
            attempt_title(attempt), run_part.latency_bins(list(attempt.measurements.all()))
        )
    )


@require_GET
def attempt_now(request: HttpRequest, pk: int) -> HttpResponse:
    """Part of the run's page with what the console says right now."""
    attempt = _visible_attempt(request, pk)
    return render(
        request, "dynamo/_now.html", {"attempt": attempt, "now": run_part.live_figures(attempt)}
    )


def _visible_attempt(request: HttpRequest, pk: int) -> Attempt:
    rows = Attempt.objects.visible_to(request.user).select_related("run__topology", "run__workload")
    return get_object_or_404(rows, pk=pk)
