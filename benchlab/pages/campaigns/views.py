# SPDX-License-Identifier: Apache-2.0
"""Pages of campaigns: list, wizard with its presets, and the page of one campaign with its live parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from benchlab.analysis import designs
from benchlab.audit import request_notes
from benchlab.campaigns import estimates, matrix, workload_presets
from benchlab.campaigns.estimates import Estimate, estimate
from benchlab.campaigns.forms import CampaignForm
from benchlab.campaigns.models import Campaign, Origin, Workload
from benchlab.campaigns.services import create_workload
from benchlab.campaigns.workload_presets import CAMPAIGN_PRESETS
from benchlab.campaigns.workload_presets import PRESETS as WORKLOADS
from benchlab.charts import attempt_figures
from benchlab.charts.cards import campaign_cards, campaign_dom_ids
from benchlab.charts.queries import read_groups
from benchlab.engine.new_runs import create_campaign
from benchlab.pages import confirmation
from benchlab.pages.campaigns import event_log, heat, heat_cells, live, plan_view, work
from benchlab.runs import progress
from benchlab.runs.models import Attempt
from benchlab.runs.states import AttemptPhase
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
STRIPS = 3
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


@require_http_methods(["GET", "POST"])
def campaign_new(request: HttpRequest) -> HttpResponse:
    """The wizard. GET with ?hosts= and the like fills it in; POST with `estimate` only estimates."""
    if request.method != "POST":
        many: dict[str, Any] = {
            n: request.GET.getlist(n) for n in ("hosts", "topologies", "workloads", "schedulers")
        }
        names = ("name", "question", "repeats", "order", "visits")
        plain = {n: request.GET[n] for n in names if n in request.GET}
        return _wizard_page(request, CampaignForm(request.user, initial=many | plain), None)
    form = CampaignForm(request.user, request.POST)
    valid = form.is_valid()
    if "create" in request.POST and valid:
        try:
            return _create_campaign(request, form)
        except ValidationError as error:
            form.add_error(None, ValidationError(error.messages))
    return _wizard_page(request, form, _estimate_campaign(form))


@require_GET
def campaign_again(request: HttpRequest, pk: int) -> HttpResponse:
    """Redirect to the wizard, filled in as this campaign was, so that a person can change anything."""
    campaign = get_object_or_404(Campaign.objects.for_user(request.user).filter(source=""), pk=pk)
    parameters = [
        (name, getattr(campaign, name)) for name in ("name", "question", "repeats", "order")
    ]
    parameters += [("visits", campaign.visits)] if campaign.visits > 1 else []
    parameters += [("schedulers", name) for name in campaign.schedulers]
    runs = campaign.runs.order_by()
    for many, field in (("hosts", "host"), ("topologies", "topology"), ("workloads", "workload")):
        parameters += [(many, key) for key in sorted(set(runs.values_list(field, flat=True)))]
    return redirect(f"{reverse('campaign-new')}?{urlencode(parameters)}")


def _create_campaign(request: HttpRequest, form: CampaignForm) -> HttpResponse:
    campaign = create_campaign(
        team=owning_team(request.user), user=request.user, **form.campaign_arguments()
    )
    return redirect("campaign-detail", campaign.pk)


def _estimate_campaign(form: CampaignForm) -> Estimate | str | None:
    """The estimate, why there is none, or None while too little is chosen."""
    selection, chosen = form.selection(), form.cleaned_data
    if selection is None:
        return None
    try:
        return estimate(selection, chosen["order"], chosen.get("visits"))
    except ValidationError as error:
        return " ".join(error.messages)


def _wizard_page(
    request: HttpRequest, form: CampaignForm, estimate: Estimate | str | None
) -> HttpResponse:
    context = {
        "form": form,
        "estimate": None if isinstance(estimate, str) else estimate,
        "refused": estimate if isinstance(estimate, str) else "",
        "presets": workload_presets.ALL_CAMPAIGN_PRESETS,
        "few": lists.MAX_UNSEARCHED_CHOICES,
    }
    part = "#campaign-estimate" if request.htmx else ""  # type: ignore[attr-defined]
    return render(request, "campaigns/new.html" + part, context)


@require_GET
def campaign_detail(request: HttpRequest, pk: int) -> HttpResponse:
    """The whole page, or with HX-Target what is live of it. ?log=all shows every line of the log, ?q= those with words.

    What a live page shows, it asks with (`now_url`): ?running=, ?results= and ?said= are swapped only for others,
    because a chart that is drawn must not be swapped for its like, and ?plan=pending alone has the plan swapped,
    in which a person may be writing. Where the campaign is over nothing asks by the clock; a retry is told by its
    events.
    """
    campaign = get_object_or_404(Campaign.objects.visible_to(request.user), pk=pk)
    if not (request.htmx and request.htmx.target == NOW):  # type: ignore[attr-defined]
        return render(request, PAGE, _page_context(request, campaign, now=False))
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
        context |= {
            "origin": Origin.from_campaign(campaign),
            "sources": campaign.sources.defer("content"),
        }
    if not now or request.GET.get("plan") == PENDING:
        plans = (
            plan_view.read_plans(campaign) if progress_now.drafts else plan_view.CampaignPlans([])
        )
        context["plans"] = plans
        context["mistyped"] = confirmation.pop_mistyped(request, plans.phrase)
    if not now and not campaign.source:
        context["design"] = designs.WORDS[estimates.campaign_design(campaign)]
    context |= _live_context(campaign, progress_now) | _running_context(
        request, campaign, progress_now
    )
    for part in (_results_context, _log_context):
        context |= part(request, campaign, progress_now.over)
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


def _live_context(campaign: Campaign, progress_now: progress.Progress) -> dict[str, Any]:
    """Context of the live part. What most campaigns have none of is not looked for there."""
    layouts = work.layouts_in_detail(campaign) if progress_now.busy else []
    attempts = work.flawed_attempts(campaign) if progress_now.flawed else []
    return {
        "works": work.layouts_at_work(layouts),
        "awaiting": work.kernel_work(layouts),
        "stuck": work.stuck_layouts(layouts),
        "waiting_layouts": work.waiting_for_person(layouts),
        "failures": work.group_failures(attempts),
        "degraded": work.degraded_layouts(attempts),
    }


def _running_context(
    request: HttpRequest, campaign: Campaign, stands: progress.Progress
) -> dict[str, Any]:
    """The running attempts."""
    attempts = _running_attempts(campaign) if stands.running else []
    every = request.GET.get("disks") == "all"
    # The end is a change too.
    over = ["over"] if stands.over else []
    attempt_ids = ",".join([*(str(attempt.pk) for attempt in attempts), *over])
    same = request.GET.get("running") == attempt_ids
    return {
        "running": [(attempt, matrix.describe_point(attempt.run.point)) for attempt in attempts],
        "running_shown": attempt_ids,
        "running_same": same,
        "strips": []
        if same
        else [
            (attempt, attempt_figures.read_strips(attempt, every=every))
            for attempt in attempts[:STRIPS]
        ],
        **_disk_choice(request),
    }


def _running_attempts(campaign: Campaign) -> list[Attempt]:
    phases = [AttemptPhase.STARTING, AttemptPhase.RUNNING, AttemptPhase.COLLECTING]
    rows = Attempt.objects.filter(run__campaign=campaign, phase__in=phases)
    of_run = ("run__host", "run__topology", "run__workload")
    return list(rows.select_related(*of_run, "facts").order_by("pk"))


def _disk_choice(request: HttpRequest) -> dict[str, Any]:
    """Choice of the disks that the running point shows: the layout's own, or with ?disks=all the system's too."""
    own = lists.without_parameters(request.GET, "disks", *heat.LIVE_PARAMETERS)
    every = own.copy()
    every["disks"] = "all"
    return {
        "all_disks": request.GET.get("disks") == "all",
        "own_disks": lists.query_address(own),
        "every_disk": lists.query_address(every),
    }


def _results_context(request: HttpRequest, campaign: Campaign, over: bool) -> dict[str, Any]:
    """A card per workload, and the heat map. Charts refresh themselves; cards are swapped when there is one more, and
    at the end. Until then only the heat map's numbers are read. Answers come with them, and when one is dismissed.
    """

    def shown_keys(keys: Iterable[str]) -> str:
        return ",".join([*keys, *(["over"] if over else [])])

    shown_before = request.GET.get("results")
    few = None if shown_before is None else heat_cells.metric_names(request.GET)
    lines = read_groups(request.user, [campaign.pk], names=few)
    same = shown_before is not None and shown_before == shown_keys(
        campaign_dom_ids(lines, request.GET)
    )
    if few is not None and not same:
        lines = read_groups(request.user, [campaign.pk])
    answers_mark = dismissals.campaign_version(campaign)
    cards = [] if same else campaign_cards(request.user, campaign.pk, request.GET, lines)
    return {
        "campaign_lines": None if same else lines,
        "heat": heat.build_heat_map(campaign, lines, request.GET),
        "cards": cards,
        "results_live": not over,
        "results_shown": shown_before if same else shown_keys(card.dom_id for card in cards),
        "results_same": same,
        "said_shown": answers_mark,
        "answers_same": same and request.GET.get("said", "") == answers_mark,
    }


def _log_context(request: HttpRequest, campaign: Campaign, over: bool) -> dict[str, Any]:
    whole, text = request.GET.get("log") == "all", lists.search_text(request)
    query = lists.without_parameters(request.GET, *heat.LIVE_PARAMETERS)
    other_parameters = lists.without_parameters(query, lists.FIND)
    query["log"] = "all"
    return {
        "log": event_log.read_log(campaign, None if whole else event_log.MAX_LINES, text),
        "log_text": text,
        "log_kept": [
            (name, text_value) for name, many in other_parameters.lists() for text_value in many
        ],
        "log_whole": lists.query_address(query),
    }


def add_message(request: HttpRequest, text: str, *, error: bool = False) -> None:
    if error:
        request_notes.mark_refused(request, text)
    else:
        messages.success(request, text)


@require_POST
def campaign_preset(request: HttpRequest) -> HttpResponse:
    """`preset` is its slug. Nothing runs before the wizard's own button, and then the plan's."""
    preset = CAMPAIGN_PRESETS.get(request.POST.get("preset", ""))
    if preset is None:
        add_message(request, "There is no such preset.", error=True)
        return redirect("campaign-new")
    team = owning_team(request.user)
    request_notes.note_subject(request, team.pk, f"preset {preset.name}")
    parameters: list[tuple[str, str]] = [("name", preset.name), ("question", preset.question)]
    parameters += [("repeats", str(preset.repeats)), ("order", preset.order)]
    for slug in preset.topologies:
        topology = TOPOLOGIES[slug]
        defaults = {"stack": topology.stack, "stages": topology.stages}
        row, _ = Topology.objects.get_or_create(team=team, name=topology.name, defaults=defaults)
        row.offer()
        parameters.append(("topologies", str(row.pk)))
    for slug in preset.workloads:
        load = WORKLOADS[slug]
        workload = Workload.objects.filter(team=team, name=load.name, imported=False).first()
        workload = workload or create_workload(
            team=team,
            user=request.user,
            name=load.name,
            tool=load.tool,
            options=load.options,
            sweep=load.sweep,
        )
        workload.offer()
        parameters.append(("workloads", str(workload.pk)))
    return redirect(f"{reverse('campaign-new')}?{urlencode(parameters)}")
