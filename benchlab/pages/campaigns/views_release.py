"""Page on which an owner releases a host whose layout is stuck."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods

from benchlab.engine import release
from benchlab.engine.wishes import CommandError
from benchlab.hosts import host_tasks
from benchlab.pages.campaigns.views import say
from benchlab.runs.models import Layout
from benchlab.runs.states import LayoutPhase


@require_http_methods(["GET", "POST"])
def layout_release(request: HttpRequest, pk: int) -> HttpResponse:
    """GET says what it means and asks, then how it goes on; POST has it done. `typed`: the phrase."""
    rows = Layout.objects.for_user(request.user).select_related("host", "topology", "campaign")
    layout = get_object_or_404(rows, pk=pk)
    if request.method == "POST":
        return _release(request, layout)
    found = host_tasks.named(request.user, request.GET.get("task"), "release")
    if found and found.over:
        return _over(request, layout, found)
    if layout.phase != LayoutPhase.STUCK:
        say(request, f"{layout.name} is not stuck.")
        return redirect("campaign-detail", layout.campaign_id)
    context = {
        "layout": layout,
        "disks": release.disks(layout),
        "phrase": release.phrase(layout),
        "host_task": found,
    }
    return render(request, "campaigns/release.html", context)


def _release(request: HttpRequest, layout: Layout) -> HttpResponse:
    try:
        row = release.ask(layout, str(request.POST.get("typed", "")), request.user)
    except CommandError as error:
        say(request, str(error), error=True)
        return redirect("campaign-detail", layout.campaign_id)
    return redirect(f"{request.path}?task={row.pk}")


def _over(request: HttpRequest, layout: Layout, found: host_tasks.Shown) -> HttpResponse:
    if found.row.error or not found.row.result:
        say(request, found.row.error, error=True)
    else:
        names = ", ".join(found.row.result["taken"])
        lost = f" No longer spare: {names}." if names else " All disks of it are proven blank."
        say(request, f"{layout.host} is free.{lost}")
    return redirect("campaign-detail", layout.campaign_id)
