# SPDX-License-Identifier: Apache-2.0
"""Pages of campaigns: list, wizard with its presets, and the page of one campaign with its live parts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from benchlab.analysis import designs
from benchlab.audit import request_notes
from benchlab.campaigns import estimates, matrix, workload_presets
from benchlab.campaigns.estimates import Estimate, estimate
from benchlab.campaigns.forms import CampaignForm
from benchlab.campaigns.models import Campaign, Origin, Workload
from benchlab.campaigns.services import create_workload, find_or_create_workload
from benchlab.campaigns.workload_presets import PRESETS as WORKLOADS
from benchlab.charts import attempt_figures
from benchlab.charts.cards import campaign_cards, campaign_dom_ids
from benchlab.charts.queries import read_groups
from benchlab.diagnosis.campaign_answers import campaign_answer
from benchlab.engine.new_runs import create_campaign
from benchlab.hosts.models import Host
from benchlab.pages.campaigns import event_log, heat, heat_cells, live, plan_view, work
from benchlab.pages.shared import get_or_post, pop_mistyped
from benchlab.runs import progress
from benchlab.runs.models import Attempt
from benchlab.sharing.discussion import TAG, filter_by_tag
from benchlab.sharing.models import Kind
from benchlab.team.services import owning_team
from benchlab.topologies.host_shapes import PRESETS as TOPOLOGIES
from benchlab.topologies.models import Topology
from benchlab.verdicts import dismissals
from benchlab.web import lists
from benchlab.web.filters import ARCHIVED
from benchlab.web.lists import BoundedPaginator

PER_PAGE = 25
PAGE = "campaigns/detail.html"
# the page's element that asks for what is live
NOW = "campaign-now"
PENDING = "pending"
# Attempts that run at once whose disks stand beside the page; each has its chart over time
MAX_STRIPS = 3
# fields of the wizard: those that choose several, and the others that an address fills in
CHOICES = ("hosts", "topologies", "workloads", "schedulers")
PLAIN_FIELDS = ("name", "question", "repeats", "order", "visits")
# characters of a workload's name and of a campaign's question that a diagnosis fills in
MAX_STEP_NAME, MAX_STEP_QUESTION = 90, 500
# By the word that the list's address has for each column.
COLUMNS = {
    "name": lists.name_column("Campaign"),
    "state": lists.SortColumn("State", progress.state_rank()),
    "progress": lists.SortColumn("Progress", progress.share_ended()),
    "made": lists.sort_column("Made", "created_at"),
}


@require_GET
def campaign_list(request: HttpRequest) -> HttpResponse:
    mine = Campaign.objects.teams_first().for_user(request.user).select_related("created_by")
    rows = filter_by_tag(request, Kind.CAMPAIGN, lists.active_or_archived(request, mine))
    listed = lists.filter_rows(
        request, rows, COLUMNS, ("name", "question"), filters=(ARCHIVED, TAG)
    )
    page = BoundedPaginator(listed.rows, PER_PAGE).get_page(request.GET.get("page"))
    progresses = progress.progress_by_campaign(page.object_list)
    entries = [{"campaign": row, "progress": progresses[row.pk]} for row in page.object_list]
    context = {"page": page, "rows": entries, "listed": listed}
    return render(request, "campaigns/list.html", context)


@get_or_post
def campaign_new(request: HttpRequest) -> HttpResponse:
    """The wizard. GET with ?hosts= and the like fills it in; POST with `estimate` only estimates."""
    if request.method != "POST":
        many: dict[str, object] = {name: request.GET.getlist(name) for name in CHOICES}
        plain = {name: request.GET[name] for name in PLAIN_FIELDS if name in request.GET}
        return _wizard_page(request, CampaignForm(request.user, initial=many | plain))
    form = CampaignForm(request.user, request.POST)
    valid = form.is_valid()
    if "create" in request.POST and valid:
        try:
            campaign = create_campaign(
                team=owning_team(request.user), user=request.user, **form.campaign_arguments()
            )
            return redirect("campaign-detail", campaign.pk)
        except ValidationError as error:
            form.add_error(None, ValidationError(error.messages))
    estimated, refused = None, ""
    if selection := form.selection():
        chosen = form.cleaned_data
        try:
            estimated = estimate(selection, chosen["order"], chosen.get("visits"))
        except ValidationError as error:
            refused = " ".join(error.messages)
    return _wizard_page(request, form, estimated, refused)


def _wizard_page(
    request: HttpRequest, form: CampaignForm, estimated: Estimate | None = None, refused: str = ""
) -> HttpResponse:
    context = {
        "form": form,
        "estimate": estimated,
        "refused": refused,
        "presets": workload_presets.ALL_CAMPAIGN_PRESETS,
        "few": lists.MAX_UNSEARCHED_CHOICES,
    }
    part = "#campaign-estimate" if request.htmx else ""  # type: ignore[attr-defined]
    return render(request, "campaigns/new.html" + part, context)


def _redirect_to_wizard(parameters: Mapping[str, object]) -> HttpResponse:
    return redirect(f"{reverse('campaign-new')}?{urlencode(parameters, doseq=True)}")


@require_GET
def campaign_again(request: HttpRequest, pk: int) -> HttpResponse:
    """Redirect to the wizard, filled in as this campaign was, so that a person can change anything."""
    campaign = get_object_or_404(Campaign.objects.for_user(request.user).filter(source=""), pk=pk)
    parameters = {name: getattr(campaign, name) for name in PLAIN_FIELDS}
    if campaign.visits == 1:
        del parameters["visits"]
    parameters["schedulers"] = campaign.schedulers
    runs = campaign.runs.order_by()
    for name, column in (("hosts", "host"), ("topologies", "topology"), ("workloads", "workload")):
        parameters[name] = sorted(set(runs.values_list(column, flat=True)))
    return _redirect_to_wizard(parameters)


@require_POST
def campaign_preset(request: HttpRequest) -> HttpResponse:
    """Make what the team lacks of the preset with the slug `preset`, and fill the wizard with it.

    Nothing runs before the wizard's own button, and then the plan's.
    """
    preset = workload_presets.CAMPAIGN_PRESETS.get(request.POST.get("preset", ""))
    if preset is None:
        request_notes.mark_refused(request, "There is no such preset.")
        return redirect("campaign-new")
    team = owning_team(request.user)
    request_notes.note_subject(request, team.pk, f"preset {preset.name}")
    rows: dict[str, list[Topology | Workload]] = {"topologies": [], "workloads": []}
    for slug in preset.topologies:
        topology = TOPOLOGIES[slug]
        defaults = {"stack": topology.stack, "stages": topology.stages}
        row, _ = Topology.objects.get_or_create(team=team, name=topology.name, defaults=defaults)
        rows["topologies"].append(row)
    for slug in preset.workloads:
        load = WORKLOADS[slug]
        workload = Workload.objects.filter(team=team, name=load.name, imported=False).first()
        rows["workloads"].append(
            workload
            or create_workload(
                team=team,
                user=request.user,
                name=load.name,
                tool=load.tool,
                options=load.options,
                sweep=load.sweep,
            )
        )
    parameters: dict[str, object] = {
        name: getattr(preset, name) for name in ("name", "question", "repeats", "order")
    }
    for name, many in rows.items():
        for made in many:
            made.offer()
        parameters[name] = [made.pk for made in many]
    return _redirect_to_wizard(parameters)


@require_POST
def campaign_next_step(request: HttpRequest) -> HttpResponse:
    """Make the workload of a diagnosis's next step, unless the team has it, and fill the wizard with it.

    `workload`: JSON with tool, options and sweep (benchlab/diagnosis/answer_json.py); `question`: what it is to answer.
    Nothing runs before the wizard's own button, and then the plan's.
    """
    team = owning_team(request.user)
    try:
        tool, options, sweep = _step_workload(request.POST.get("workload", ""))
        swept = ", ".join(f"{name} {_values_text(name, row)}" for name, row in sweep.items())
        name = " ".join(filter(None, [tool, str(options.get("rw", "")), swept]))[:MAX_STEP_NAME]
        workload = find_or_create_workload(
            team=team, user=request.user, name=name, tool=tool, options=options, sweep=sweep
        )
    except ValidationError as error:
        request_notes.mark_refused(request, " ".join(error.messages))
        return redirect("campaign-new")
    request_notes.note_subject(request, team.pk, f"workload {workload.name}")
    parameters: dict[str, object] = {
        "name": workload.name,
        "question": f"Does it hold? {request.POST.get('question', '')[:MAX_STEP_QUESTION]}",
        "workloads": [workload.pk],
    }
    hosts = Host.objects.for_user(request.user).current().filter(team=team)
    only = list(hosts.exclude(access=Host.Access.DESCRIBED).values_list("pk", flat=True)[:2])
    if len(only) == 1:
        parameters["hosts"] = only
    return _redirect_to_wizard(parameters)


def _step_workload(text: str) -> tuple[str, dict[str, Any], dict[str, list[Any]]]:
    """Tool, options and sweep of a next step. Raises ValidationError."""
    try:
        step = json.loads(text)
        tool, options, sweep = step["tool"], step["options"], step["sweep"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValidationError(
            "This next step cannot be read. Set the campaign up by hand."
        ) from None
    lists_only = isinstance(sweep, dict) and all(isinstance(row, list) for row in sweep.values())
    if (
        not (isinstance(tool, str) and isinstance(options, dict) and lists_only)
        or "\\u0000" in text
    ):
        raise ValidationError("This next step cannot be read. Set the campaign up by hand.")
    return tool, options, sweep


def _values_text(name: str, values: Iterable[Any]) -> str:
    return ", ".join(matrix.format_value(name, value) for value in values)


@require_GET
def campaign_detail(request: HttpRequest, pk: int) -> HttpResponse:
    """The whole page, or with HX-Target what is live of it. ?log=all shows every line of the log, ?q= those with words.

    What a live page shows, it asks with (`now_url`): ?running=, ?results= and ?said= are swapped only for others,
    because a chart that is drawn must not be swapped for its like, and ?plan=pending alone has the plan swapped,
    in which a person may be writing. Where the campaign is over nothing asks by the clock; a retry is told by its
    events.
    """
    campaigns = Campaign.objects.visible_to(request.user)
    if not (request.htmx and request.htmx.target == NOW):  # type: ignore[attr-defined]
        campaign = get_object_or_404(campaigns.select_related("diagnosis"), pk=pk)
        return render(request, PAGE, _page_context(request, campaign, now=False))
    campaign = get_object_or_404(campaigns, pk=pk)
    # A plan tells what the person typed in it wrongly.
    own = request.GET.get("plan") == PENDING
    return live.render_live_part(
        request,
        campaign,
        f"{PAGE}#{NOW}",
        lambda: _page_context(request, campaign, now=True),
        own=own,
    )


def _page_context(request: HttpRequest, campaign: Campaign, *, now: bool) -> dict[str, Any]:
    progress_now = progress.campaign_progress(campaign)
    context: dict[str, Any] = {"campaign": campaign, "progress": progress_now, "now": now}
    if campaign.source:
        context["origin"] = Origin.from_campaign(campaign)
        context["sources"] = campaign.sources.defer("content")
    if not now or request.GET.get("plan") == PENDING:
        plans = (
            plan_view.read_plans(campaign) if progress_now.drafts else plan_view.CampaignPlans([])
        )
        context["plans"] = plans
        context["mistyped"] = pop_mistyped(request, plans.phrase)
    if not now and progress_now.over:
        context["diagnosis"] = campaign_answer(campaign)
    if not now and not campaign.source:
        context["design"] = designs.WORDS[estimates.campaign_design(campaign)]
    # What most campaigns have none of is not looked for there.
    context |= work.work_context(campaign, progress_now)
    context |= _running_context(request, campaign, progress_now)
    context |= _results_context(request, campaign, progress_now)
    context |= _log_context(request, campaign)
    context["now_url"] = _live_address(request, context)
    return context


def _live_address(request: HttpRequest, context: Mapping[str, Any]) -> str:
    """Return the address at which the page polls its live part, with its own parameters (?metric=)."""
    query = request.GET.copy()
    for name in ("running", "results", "said"):
        query[name] = context[f"{name}_shown"]
    if context["heat"].name not in ("", *heat_cells.NAMES):
        query[heat_cells.HEAT] = context["heat"].name
    query.pop("plan", None)
    plans = context.get("plans")
    if plans and plans.pending_count:
        query["plan"] = PENDING
    return f"{request.path}?{query.urlencode()}"


def _shown_keys(keys: Iterable[object], over: bool) -> str:
    """Return what a live page shows, as its address has it. The end is a change too."""
    return ",".join([*map(str, keys), *["over"] * over])


def _running_context(
    request: HttpRequest, campaign: Campaign, progress_now: progress.Progress
) -> dict[str, Any]:
    """The running attempts, and their disks: the layout's own, or with ?disks=all the system's too."""
    attempts: list[Attempt] = []
    if progress_now.running:
        rows = Attempt.objects.filter(run__campaign=campaign, phase__in=work.MEASURING)
        attempts = list(rows.select_related(*work.RUN_PARTS, "facts").order_by("pk"))
    every = request.GET.get("disks") == "all"
    running = _shown_keys((attempt.pk for attempt in attempts), progress_now.over)
    same = request.GET.get("running") == running
    own_disks = lists.without_parameters(request.GET, "disks", *heat.LIVE_PARAMETERS)
    every_disk = own_disks.copy()
    every_disk["disks"] = "all"
    return {
        "running": [(attempt, matrix.describe_point(attempt.run.point)) for attempt in attempts],
        "running_shown": running,
        "running_same": same,
        "strips": [
            (attempt, attempt_figures.read_strips(attempt, every=every))
            for attempt in attempts[: 0 if same else MAX_STRIPS]
        ],
        "all_disks": every,
        "own_disks": lists.query_address(own_disks),
        "every_disk": lists.query_address(every_disk),
    }


def _results_context(
    request: HttpRequest, campaign: Campaign, progress_now: progress.Progress
) -> dict[str, Any]:
    """A card per workload, and the heat map. Charts refresh themselves; cards are swapped when there is one more, and
    at the end. Until then only the heat map's numbers are read. Answers come with them, when one is dismissed, and with
    each run that ends.
    """
    over = progress_now.over
    query, shown_before = request.GET, request.GET.get("results")
    few = None if shown_before is None else heat_cells.metric_names(query)
    lines = read_groups(request.user, [campaign.pk], names=few)
    same = shown_before is not None and shown_before == _shown_keys(
        campaign_dom_ids(lines, query), over
    )
    if few is not None and not same:
        lines = read_groups(request.user, [campaign.pk])
    answers_mark = f"{progress_now.ended or ''}{dismissals.campaign_version(campaign)}"
    cards = [] if same else campaign_cards(request.user, campaign.pk, query, lines)
    heat_map = heat.build_heat_map(campaign, lines, query)
    only_watched = bool(campaign.source) and not heat_map.name
    return {
        "campaign_lines": None if same else lines,
        "heat": heat_map,
        "watched": attempt_figures.watched_runs(campaign) if only_watched else [],
        "cards": cards,
        "results_live": not over,
        "results_shown": shown_before
        if same
        else _shown_keys((card.dom_id for card in cards), over),
        "results_same": same,
        "said_shown": answers_mark,
        "answers_same": same and query.get("said", "") == answers_mark,
    }


def _log_context(request: HttpRequest, campaign: Campaign) -> dict[str, Any]:
    limit = None if request.GET.get("log") == "all" else event_log.MAX_LINES
    text = lists.search_text(request)
    query = lists.without_parameters(request.GET, *heat.LIVE_PARAMETERS)
    other_parameters = lists.without_parameters(query, lists.FIND)
    query["log"] = "all"
    return {
        "log": event_log.read_log(campaign, limit, text),
        "log_text": text,
        "log_kept": lists.parameter_pairs(other_parameters),
        "log_whole": lists.query_address(query),
    }
