"""What a person may do to a campaign: each a POST, carried out by benchlab.runs.commands, then back to its page."""

from __future__ import annotations

from collections.abc import Callable

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from benchlab.campaigns import planview, progress
from benchlab.campaigns.models import Campaign, Run
from benchlab.campaigns.views import say
from benchlab.runs import commands
from benchlab.runs.models import Layout
from benchlab.runs.moves import Moved
from benchlab.topologies import planned


def _campaign(request: HttpRequest, pk: int) -> Campaign:
    return get_object_or_404(Campaign.objects.for_user(request.user), pk=pk)


def _do(request: HttpRequest, pk: int, act: Callable[[], object], done: str) -> HttpResponse:
    """Carry it out, say how it went, and go back to the campaign."""
    try:
        act()
    except commands.CommandError as error:
        say(request, str(error), error=True)
    except Moved:
        say(request, "It has moved on meanwhile; look again.", error=True)
    else:
        say(request, done)
    return redirect("campaign-detail", pk)


@require_POST
def campaign_start(request: HttpRequest, pk: int) -> HttpResponse:
    """`layout-<id>` = the fingerprint of the plan that was shown; `typed` names what is lost."""
    campaign = _campaign(request, pk)
    wanted = planview.of(campaign).phrase
    if wanted and not planned.agreed(request.POST.get("typed", ""), wanted):
        say(request, f"Nothing was started: type “{wanted}” to agree to it.", error=True)
        return redirect("campaign-detail", pk)
    seen = {
        int(name.removeprefix("layout-")): str(value)
        for name, value in request.POST.items()
        if name.removeprefix("layout-").isdecimal() and name.startswith("layout-")
    }
    return _do(
        request,
        pk,
        lambda: commands.start(campaign, seen, by=request.user.get_username()),
        "Started.",
    )


@require_POST
def campaign_plan(request: HttpRequest, pk: int) -> HttpResponse:
    campaign = _campaign(request, pk)
    return _do(request, pk, lambda: commands.plan(campaign), "Planning anew from fresh facts.")


@require_POST
def campaign_pause(request: HttpRequest, pk: int) -> HttpResponse:
    campaign = _campaign(request, pk)
    done = "Paused: the running point ends as it will, and no other is started."
    return _do(request, pk, lambda: commands.pause(campaign), done)


@require_POST
def campaign_resume(request: HttpRequest, pk: int) -> HttpResponse:
    campaign = _campaign(request, pk)
    return _do(request, pk, lambda: commands.resume(campaign), "It goes on.")


@require_http_methods(["GET", "POST"])
def campaign_cancel(request: HttpRequest, pk: int) -> HttpResponse:
    """GET asks, POST does; twice is as good as once."""
    campaign = _campaign(request, pk)
    if request.method != "POST":
        context = {"campaign": campaign, "progress": progress.of_one(campaign)}
        return render(request, "campaigns/cancel.html", context)
    done = "Cancelled: what runs is stopped, and its layouts are taken down."
    return _do(request, pk, lambda: commands.cancel(campaign), done)


@require_POST
def campaign_retry(request: HttpRequest, pk: int) -> HttpResponse:
    """Retry the runs given as `run`."""
    campaign = _campaign(request, pk)
    chosen = [int(text) for text in request.POST.getlist("run") if text.isdecimal()]
    runs = list(campaign.runs.filter(pk__in=chosen).order_by("position"))

    @transaction.atomic  # all of them or none, as it is told
    def act() -> None:
        if not runs:
            raise commands.CommandError("No run was chosen.")
        for run in runs:
            commands.retry(run)

    return _do(request, pk, act, _retried(len(runs)))


@require_POST
def run_retry(request: HttpRequest, pk: int) -> HttpResponse:
    run = get_object_or_404(Run.objects.for_user(request.user), pk=pk)
    return _do(request, run.campaign_id, lambda: commands.retry(run), _retried(1))


@require_POST
def layout_teardown(request: HttpRequest, pk: int) -> HttpResponse:
    layout = get_object_or_404(Layout.objects.for_user(request.user), pk=pk)
    done = f"{layout.name} is taken down once more."
    return _do(request, layout.campaign_id, lambda: commands.teardown_again(layout), done)


@require_POST
def layout_person_done(request: HttpRequest, pk: int) -> HttpResponse:
    """`key` = Layout.person_key as it was shown."""
    layout = get_object_or_404(Layout.objects.for_user(request.user), pk=pk)
    key, who = str(request.POST.get("key", "")), request.user.get_username()
    done = f"{layout.name} looks whether it is so, and goes on."
    act = lambda: commands.person_done(layout, key, who)  # noqa: E731
    return _do(request, layout.campaign_id, act, done)


def _retried(number: int) -> str:
    what = "one run" if number == 1 else f"{number} runs"
    return f"A new attempt of {what} is planned. Read its plan, then start it."
