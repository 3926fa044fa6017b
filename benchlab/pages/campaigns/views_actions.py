# SPDX-License-Identifier: Apache-2.0
"""Actions of a person on a campaign: each a POST, carried out by benchlab.engine, then back to its page."""

from __future__ import annotations

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from benchlab.audit import request_notes
from benchlab.campaigns.models import Campaign, Run
from benchlab.engine import commands, host_cleanup, new_runs
from benchlab.hosts import host_tasks
from benchlab.hosts.models import HostTask
from benchlab.pages.campaigns import plan_view
from benchlab.pages.shared import action_on, get_or_post, is_confirmed, refusals_shown
from benchlab.runs import progress
from benchlab.runs.models import Layout
from benchlab.runs.states import LayoutPhase
from benchlab.web.texts import parse_row_id


@action_on(Campaign)
def campaign_start(request: HttpRequest, campaign: Campaign) -> str:
    """`layout-<id>` = the fingerprint of the plan that was shown; `typed` names what is lost."""
    if not is_confirmed(request, plan_view.read_plans(campaign).phrase):
        return ""
    fingerprints = {
        layout: str(value)
        for name, value in request.POST.items()
        if name.startswith("layout-") and (layout := parse_row_id(name.removeprefix("layout-")))
    }
    commands.start_campaign(campaign, fingerprints, by=request.user.get_username())
    return "Started."


@action_on(Campaign)
def campaign_plan(request: HttpRequest, campaign: Campaign) -> str:
    commands.request_plans(campaign)
    return "Planning again from fresh facts."


@action_on(Campaign)
def campaign_pause(request: HttpRequest, campaign: Campaign) -> str:
    commands.pause_campaign(campaign)
    return "Paused: the current run finishes, and no further run is started."


@action_on(Campaign)
def campaign_resume(request: HttpRequest, campaign: Campaign) -> str:
    commands.resume_campaign(campaign)
    return "Resumed."


@action_on(Campaign)
def _cancel_campaign(request: HttpRequest, campaign: Campaign) -> str:
    commands.cancel_campaign(campaign)
    return "Cancelled: running jobs are stopped, and its layouts are taken down."


@get_or_post
def campaign_cancel(request: HttpRequest, pk: int) -> HttpResponse:
    """GET asks, POST does; twice is as good as once."""
    if request.method == "POST":
        return _cancel_campaign(request, pk)
    campaign = get_object_or_404(Campaign.objects.for_user(request.user), pk=pk)
    context = {"campaign": campaign, "progress": progress.campaign_progress(campaign)}
    return render(request, "campaigns/cancel.html", context)


@action_on(Campaign)
@transaction.atomic
def campaign_retry(request: HttpRequest, campaign: Campaign) -> str:
    """Retry the runs given as `run`, all of them or none."""
    chosen = [number for text in request.POST.getlist("run") if (number := parse_row_id(text))]
    runs = list(campaign.runs.filter(pk__in=chosen).order_by("position"))
    if not runs:
        raise commands.CommandError("No run was chosen.")
    for run in runs:
        commands.retry_run(run)
    return _retried_message(len(runs))


@action_on(Run)
def run_retry(request: HttpRequest, run: Run) -> str:
    commands.retry_run(run)
    return _retried_message(1)


def _retried_message(number: int) -> str:
    what = "one run" if number == 1 else f"{number} runs"
    return f"A new attempt of {what} is planned. Review its plan, then start it."


@action_on(Campaign)
def campaign_add_repeats(request: HttpRequest, campaign: Campaign) -> str:
    """`repeats` more of the points of `runs` (ids between commas); `after`: the largest repeat that was seen."""
    runs, repeats, after = (request.POST.get(name, "") for name in ("runs", "repeats", "after"))
    numbers = [number for text in runs.split(",") if (number := parse_row_id(text))]
    added = new_runs.add_repeats(campaign, numbers, parse_row_id(repeats) or 0, parse_row_id(after))
    many = "One run was added." if added == 1 else f"{added} runs were added."
    return (
        f"{many} Nothing runs before the plans of layouts that are built once more are agreed to."
    )


@action_on(Layout)
def layout_person_done(request: HttpRequest, layout: Layout) -> str:
    """`key` = Layout.person_key as it was shown."""
    key = str(request.POST.get("key", ""))
    commands.report_manual_step(layout, key, request.user.get_username())
    return f"Checking the manual step of {layout.name}."


@action_on(Layout)
def layout_teardown(request: HttpRequest, layout: Layout) -> str:
    commands.retry_teardown(layout)
    return f"Tearing {layout.name} down again."


@get_or_post
def layout_release(request: HttpRequest, pk: int) -> HttpResponse:
    """A host whose layout is stuck. GET says what it means and asks, then how it goes on; POST has it done.

    `typed`: the phrase.
    """
    rows = Layout.objects.for_user(request.user).select_related("host", "topology", "campaign")
    layout = get_object_or_404(rows, pk=pk)
    if request.method == "POST":
        with refusals_shown(request):
            typed = str(request.POST.get("typed", ""))
            row = host_cleanup.request_release(layout, typed, request.user)
            return redirect(f"{request.path}?task={row.pk}")
        return redirect("campaign-detail", layout.campaign_id)
    task = host_tasks.user_task_view(request.user, request.GET.get("task"), "release")
    if task and task.over:
        _show_release(request, layout, task.row)
    elif layout.phase != LayoutPhase.STUCK:
        messages.success(request, f"{layout.name} is not stuck.")
    else:
        context = {
            "layout": layout,
            "disks": host_cleanup.touched_devices(layout),
            "phrase": host_cleanup.release_phrase(layout),
            "host_task": task,
        }
        return render(request, "campaigns/release.html", context)
    return redirect("campaign-detail", layout.campaign_id)


def _show_release(request: HttpRequest, layout: Layout, task: HostTask) -> None:
    if task.error or not task.result:
        request_notes.mark_refused(request, task.error)
        return
    names = ", ".join(task.result["taken"])
    lost = f" No longer spare: {names}." if names else " All disks of it are proven blank."
    messages.success(request, f"{layout.host} is free.{lost}")
