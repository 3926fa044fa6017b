# SPDX-License-Identifier: Apache-2.0
"""Page on which a topology is planned on a host, with nothing behind it: a dry run."""

from __future__ import annotations

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods

from benchlab.audit import request_notes
from benchlab.audit.subjects import describe_row
from benchlab.engine import dry_run
from benchlab.hosts import host_tasks
from benchlab.hosts.models import Host
from benchlab.topologies import plan_view
from benchlab.topologies.models import Topology


class HostForm(forms.Form):
    host = forms.ModelChoiceField(Host.objects.none(), empty_label=None)

    def __init__(self, request: HttpRequest) -> None:
        super().__init__(request.POST or None, initial={"host": request.GET.get("host")})
        field = self.fields["host"]
        assert isinstance(field, forms.ModelChoiceField)
        field.queryset = Host.objects.for_user(request.user)


@require_http_methods(["GET", "POST"])
def topology_plan(request: HttpRequest, pk: int) -> HttpResponse:
    """GET asks which host; POST has its facts read, and leads to where the plan is shown when they are."""
    topology = get_object_or_404(Topology.objects.for_user(request.user), pk=pk)
    form = HostForm(request)
    context: dict[str, object] = {"topology": topology, "form": form}
    context["hosts"] = Host.objects.for_user(request.user).exists()
    if not topology.stack:
        request_notes.mark_refused(
            request, "Its layers are not known, so it cannot be planned: say them first."
        )
        return redirect("topology-detail", topology.pk)
    if request.method == "POST" and form.is_valid():
        host = form.cleaned_data["host"]
        # It changes nothing, but somebody had the host read.
        request_notes.note_subject(
            request, topology.team_id, f"{describe_row(topology)}, {describe_row(host)}"
        )
        row = host_tasks.request_task(host, "read_facts", request.user)
        return redirect(f"{request.path}?host={host.pk}&task={row.pk}")
    if task := host_tasks.user_task_view(request.user, request.GET.get("task"), "read_facts"):
        run = _dry_run(topology, task)
        context |= {"host": task.row.host, "host_task": task, "run": run}
        if run and run.plan:
            name = task.row.host.name
            context["lost"] = [plan_view.LostDisk(name, disk) for disk in run.plan.destroyed]
    return render(request, "topologies/plan.html", context)


def _dry_run(topology: Topology, task: host_tasks.TaskView) -> dry_run.DryRun | None:
    """The plan by that reading; None while it goes on."""
    row = task.row
    if not task.over:
        return None
    if row.error or not row.result:
        return dry_run.failed_dry_run(row.host, row.error)
    snapshot = row.host.snapshots.filter(pk=row.result["snapshot"]).first()
    return dry_run.dry_run(topology, row.host, snapshot) if snapshot else None
