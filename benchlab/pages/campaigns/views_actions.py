# SPDX-License-Identifier: Apache-2.0
"""Actions of a person on a campaign: each a POST, carried out by benchlab.engine, then back to its page."""

from __future__ import annotations

from collections.abc import Callable

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from benchlab.campaigns.models import Campaign, Run
from benchlab.engine import commands, host_cleanup, new_runs
from benchlab.hosts import host_tasks
from benchlab.pages import confirmation
from benchlab.pages.campaigns import plan_view
from benchlab.pages.campaigns.views import add_message
from benchlab.runs import progress
from benchlab.runs.models import Layout
from benchlab.runs.states import LayoutPhase
from benchlab.runs.transitions import Moved
from benchlab.web.texts import parse_row_id


def _own_campaign(request: HttpRequest, pk: int) -> Campaign:
    return get_object_or_404(Campaign.objects.for_user(request.user), pk=pk)


def _run_command(
    request: HttpRequest, pk: int, act: Callable[[], object], success: str | Callable[[], str]
) -> HttpResponse:
    """Carry it out, say how it went, and go back to the campaign."""
    try:
        act()
    except commands.CommandError as error:
        add_message(request, str(error), error=True)
    except Moved:
        add_message(request, "Its state has changed in the meantime; check again.", error=True)
    else:
        add_message(request, success if isinstance(success, str) else success())
    return redirect("campaign-detail", pk)


@require_POST
def campaign_start(request: HttpRequest, pk: int) -> HttpResponse:
    """`layout-<id>` = the fingerprint of the plan that was shown; `typed` names what is lost."""
    campaign = _own_campaign(request, pk)
    if not confirmation.is_confirmed(request, plan_view.read_plans(campaign).phrase):
        return redirect("campaign-detail", pk)
    fingerprints = {
        layout: str(value)
        for name, value in request.POST.items()
        if name.startswith("layout-") and (layout := parse_row_id(name.removeprefix("layout-")))
    }
    return _run_command(
        request,
        pk,
        lambda: commands.start_campaign(campaign, fingerprints, by=request.user.get_username()),
        "Started.",
    )


@require_POST
def campaign_plan(request: HttpRequest, pk: int) -> HttpResponse:
    campaign = _own_campaign(request, pk)
    return _run_command(
        request, pk, lambda: commands.request_plans(campaign), "Planning again from fresh facts."
    )


@require_POST
def campaign_pause(request: HttpRequest, pk: int) -> HttpResponse:
    campaign = _own_campaign(request, pk)
    success = "Paused: the current run finishes, and no further run is started."
    return _run_command(request, pk, lambda: commands.pause_campaign(campaign), success)


@require_POST
def campaign_resume(request: HttpRequest, pk: int) -> HttpResponse:
    campaign = _own_campaign(request, pk)
    return _run_command(request, pk, lambda: commands.resume_campaign(campaign), "Resumed.")


@require_http_methods(["GET", "POST"])
def campaign_cancel(request: HttpRequest, pk: int) -> HttpResponse:
    """GET asks, POST does; twice is as good as once."""
    campaign = _own_campaign(request, pk)
    if request.method != "POST":
        context = {"campaign": campaign, "progress": progress.campaign_progress(campaign)}
        return render(request, "campaigns/cancel.html", context)
    success = "Cancelled: running jobs are stopped, and its layouts are taken down."
    return _run_command(request, pk, lambda: commands.cancel_campaign(campaign), success)


@require_POST
def campaign_retry(request: HttpRequest, pk: int) -> HttpResponse:
    """Retry the runs given as `run`."""
    campaign = _own_campaign(request, pk)
    chosen = [number for text in request.POST.getlist("run") if (number := parse_row_id(text))]
    runs = list(campaign.runs.filter(pk__in=chosen).order_by("position"))

    # all of them or none, as it is told
    @transaction.atomic
    def act() -> None:
        if not runs:
            raise commands.CommandError("No run was chosen.")
        for run in runs:
            commands.retry_run(run)

    return _run_command(request, pk, act, _retried_message(len(runs)))


@require_POST
def campaign_add_repeats(request: HttpRequest, pk: int) -> HttpResponse:
    """`repeats` more of the points of `runs` (ids between commas); `after`: the largest repeat that was seen."""
    campaign = _own_campaign(request, pk)
    values = {name: request.POST.get(name, "") for name in ("runs", "repeats", "after")}
    numbers = [number for text in values["runs"].split(",") if (number := parse_row_id(text))]
    repeats = parse_row_id(values["repeats"]) or 0
    added: list[int] = []
    act = lambda: added.append(  # noqa: E731
        new_runs.add_repeats(campaign, numbers, repeats, parse_row_id(values["after"]))
    )
    return _run_command(request, pk, act, lambda: _added_message(added[0]))


def _added_message(runs: int) -> str:
    many = "One run was added." if runs == 1 else f"{runs} runs were added."
    return (
        f"{many} Nothing runs before the plans of layouts that are built once more are agreed to."
    )


@require_POST
def run_retry(request: HttpRequest, pk: int) -> HttpResponse:
    run = get_object_or_404(Run.objects.for_user(request.user), pk=pk)
    return _run_command(
        request, run.campaign_id, lambda: commands.retry_run(run), _retried_message(1)
    )


@require_POST
def layout_teardown(request: HttpRequest, pk: int) -> HttpResponse:
    layout = get_object_or_404(Layout.objects.for_user(request.user), pk=pk)
    success = f"Tearing {layout.name} down again."
    return _run_command(
        request, layout.campaign_id, lambda: commands.retry_teardown(layout), success
    )


@require_http_methods(["GET", "POST"])
def layout_release(request: HttpRequest, pk: int) -> HttpResponse:
    """A host whose layout is stuck. GET says what it means and asks, then how it goes on; POST has it done.

    `typed`: the phrase.
    """
    rows = Layout.objects.for_user(request.user).select_related("host", "topology", "campaign")
    layout = get_object_or_404(rows, pk=pk)
    if request.method == "POST":
        return _request_release(request, layout)
    task = host_tasks.user_task_view(request.user, request.GET.get("task"), "release")
    if task and task.over:
        return _finish_release(request, layout, task)
    if layout.phase != LayoutPhase.STUCK:
        add_message(request, f"{layout.name} is not stuck.")
        return redirect("campaign-detail", layout.campaign_id)
    context = {
        "layout": layout,
        "disks": host_cleanup.touched_devices(layout),
        "phrase": host_cleanup.release_phrase(layout),
        "host_task": task,
    }
    return render(request, "campaigns/release.html", context)


def _request_release(request: HttpRequest, layout: Layout) -> HttpResponse:
    try:
        row = host_cleanup.request_release(layout, str(request.POST.get("typed", "")), request.user)
    except commands.CommandError as error:
        add_message(request, str(error), error=True)
        return redirect("campaign-detail", layout.campaign_id)
    return redirect(f"{request.path}?task={row.pk}")


def _finish_release(
    request: HttpRequest, layout: Layout, task: host_tasks.TaskView
) -> HttpResponse:
    if task.row.error or not task.row.result:
        add_message(request, task.row.error, error=True)
    else:
        names = ", ".join(task.row.result["taken"])
        lost = f" No longer spare: {names}." if names else " All disks of it are proven blank."
        add_message(request, f"{layout.host} is free.{lost}")
    return redirect("campaign-detail", layout.campaign_id)


@require_POST
def layout_person_done(request: HttpRequest, pk: int) -> HttpResponse:
    """`key` = Layout.person_key as it was shown."""
    layout = get_object_or_404(Layout.objects.for_user(request.user), pk=pk)
    key, who = str(request.POST.get("key", "")), request.user.get_username()
    success = f"Checking the manual step of {layout.name}."
    act = lambda: commands.report_manual_step(layout, key, who)  # noqa: E731
    return _run_command(request, layout.campaign_id, act, success)


def _retried_message(number: int) -> str:
    what = "one run" if number == 1 else f"{number} runs"
    return f"A new attempt of {what} is planned. Review its plan, then start it."
