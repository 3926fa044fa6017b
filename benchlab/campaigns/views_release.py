"""Page on which an owner releases a host whose layout is stuck."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods

from benchlab.campaigns.views import say
from benchlab.runs import release
from benchlab.runs.commands import CommandError
from benchlab.runs.models import Layout
from benchlab.runs.states import LayoutPhase


@require_http_methods(["GET", "POST"])
def layout_release(request: HttpRequest, pk: int) -> HttpResponse:
    """GET says what it means and asks; POST does it. `typed`: the phrase."""
    rows = Layout.objects.for_user(request.user).select_related("host", "topology", "campaign")
    layout = get_object_or_404(rows, pk=pk)
    if request.method == "POST":
        return _release(request, layout)
    if layout.phase != LayoutPhase.STUCK:
        say(request, f"{layout.name} is not stuck.")
        return redirect("campaign-detail", layout.campaign_id)
    context = {
        "layout": layout,
        "disks": release.disks(layout),
        "phrase": release.phrase(layout),
    }
    return render(request, "campaigns/release.html", context)


def _release(request: HttpRequest, layout: Layout) -> HttpResponse:
    try:
        taken = release.release(layout, str(request.POST.get("typed", "")), request.user)
    except CommandError as error:
        say(request, str(error), error=True)
    else:
        names = ", ".join(device.name for device in taken)
        lost = f" No longer spare: {names}." if names else " All disks of it are proven blank."
        say(request, f"{layout.host} is free.{lost}")
    return redirect("campaign-detail", layout.campaign_id)
