# SPDX-License-Identifier: Apache-2.0
"""Page on which a topology is planned on a host, with nothing behind it: a dry run."""

from __future__ import annotations

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods

from benchlab.audit import view_notes
from benchlab.audit.subjects import words
from benchlab.engine import dry_run
from benchlab.hosts import host_tasks
from benchlab.hosts.models import Host
from benchlab.topologies import planned
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
        view_notes.refused(
            request, "Its layers are not known, so it cannot be planned: say them first."
        )
        return redirect("topology-detail", topology.pk)
    if request.method == "POST" and form.is_valid():
        host = form.cleaned_data["host"]
        # It changes nothing, but somebody had the host read.
        view_notes.about(request, topology.team_id, f"{words(topology)}, {words(host)}")
        row = host_tasks.ask(host, "read_facts", request.user)
        return redirect(f"{request.path}?host={host.pk}&task={row.pk}")
    if found := host_tasks.named(request.user, request.GET.get("task"), "read_facts"):
        run = _dry_run(topology, found)
        context |= {"host": found.row.host, "host_task": found, "run": run}
        if run and run.plan:
            name = found.row.host.name
            context["lost"] = [planned.Lost(name, disk) for disk in run.plan.destroyed]
    return render(request, "topologies/plan.html", context)


def _dry_run(topology: Topology, found: host_tasks.Shown) -> dry_run.DryRun | None:
    """The plan by that reading; None while it goes on."""
    row = found.row
    if not found.over:
        return None
    if row.error or not row.result:
        return dry_run.failed(row.host, row.error)
    snapshot = row.host.snapshots.filter(pk=row.result["snapshot"]).first()
    return dry_run.of(topology, row.host, snapshot) if snapshot else None
