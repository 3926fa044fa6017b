# SPDX-License-Identifier: Apache-2.0
"""Pages for packages that a host lacks: what would be run, then what it printed."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from benchlab.audit import request_notes
from benchlab.hosts import errors, host_tasks, package_installs
from benchlab.pages.hosts.views import own_host


@require_http_methods(["GET", "POST"])
def package_install(request: HttpRequest, pk: int) -> HttpResponse:
    """GET ?package= shows the command and asks; POST `package` and `command`, as it was shown, runs it."""
    host = own_host(request, pk)
    parameters = request.POST if request.method == "POST" else request.GET
    chosen = parameters.getlist("package")
    try:
        argv = package_installs.install_command(host, chosen)
        if request.method == "POST":
            confirmed = str(request.POST.get("command", ""))
            row = package_installs.start_install(host, chosen, confirmed, request.user)
            return redirect("host-install", host.pk, row.pk)
    except errors.HostsError as error:
        request_notes.mark_refused(request, str(error))
        return redirect("host-detail", host.pk)
    context = {"host": host, "packages": chosen, "command": " ".join(argv)}
    return render(request, "hosts/install.html", context)


@require_GET
def package_install_progress(request: HttpRequest, pk: int, install_pk: int) -> HttpResponse:
    """Page of how far it is, as a worker saw it last: see benchlab.hosts.package_installs."""
    host = own_host(request, pk)
    row = get_object_or_404(host.installs.select_related("by"), pk=install_pk)
    worker = "" if row.ended_at else host_tasks.worker_trouble()
    context = {"host": host, "install": row, "worker": worker}
    part = "#install-state" if request.htmx else ""  # type: ignore[attr-defined]
    return render(request, "hosts/installing.html" + part, context)
