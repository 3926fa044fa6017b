# SPDX-License-Identifier: Apache-2.0
"""Page on which a person has what a layout left on a host taken down."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from benchlab.audit import request_notes
from benchlab.engine import orphans
from benchlab.engine.commands import CommandError
from benchlab.hosts.models import Host
from benchlab.pages import confirmation
from benchlab.pages.hosts.views import own_host
from benchlab.topologies import plan_view
from benchlab.web.row_ids import parse_row_id


@require_http_methods(["GET", "POST"])
def orphan_teardown(request: HttpRequest, pk: int, layout_pk: int) -> HttpResponse:
    """GET shows what is left and which disks will be wiped; POST does it. `snapshot`: the reading that was shown."""
    host = own_host(request, pk)
    latest = host.snapshots.first()
    leftovers = (
        [leftover for leftover in orphans.find_orphans(host, latest) if leftover.layout]
        if latest
        else []
    )
    orphan = next(
        (leftover for leftover in leftovers if leftover.layout and leftover.layout.pk == layout_pk),
        None,
    )
    if request.method == "POST":
        return _tear_down(request, host, layout_pk, orphan)
    if orphan is None or orphan.why_not:
        messages.info(request, "Nothing is left that can be taken down from here.")
        return redirect("host-detail", pk)
    lost = _lost_disks(host, orphan)
    context = {"host": host, "orphan": orphan, "snapshot": latest, "lost": lost}
    context["phrase"] = phrase = plan_view.destroy_phrase(lost)
    context["mistyped"] = confirmation.pop_mistyped(request, phrase)
    return render(request, "hosts/orphan.html", context)


def _tear_down(
    request: HttpRequest, host: Host, layout_pk: int, orphan: orphans.Orphan | None
) -> HttpResponse:
    layout = host.layouts.filter(pk=layout_pk).select_related("host").first()
    if layout is None:
        raise Http404
    if orphan and not confirmation.is_confirmed(
        request, plan_view.destroy_phrase(_lost_disks(host, orphan))
    ):
        return redirect("host-orphan", host.pk, layout_pk)
    snapshot_id = request.POST.get("snapshot", "")
    try:
        orphans.tear_down_orphan(layout, parse_row_id(snapshot_id))
    except CommandError as error:
        request_notes.mark_refused(request, str(error))
    else:
        messages.success(request, f"Taking down what {layout.name} left.")
    return redirect("host-detail", host.pk)


def _lost_disks(host: Host, orphan: orphans.Orphan) -> list[plan_view.LostDisk]:
    return [plan_view.LostDisk(host.name, disk) for disk in orphan.destroys]
