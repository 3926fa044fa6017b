# SPDX-License-Identifier: Apache-2.0
"""Pages of topologies: list, one of them, make, change, and plan on a host with nothing behind it: a dry run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db import transaction
from django.forms import Form, ModelChoiceField
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.views.decorators.http import require_GET

from benchlab.audit import request_notes
from benchlab.audit.subjects import describe_row, former_name
from benchlab.campaigns.models import Campaign
from benchlab.engine.checks import previews
from benchlab.hosts import host_tasks
from benchlab.hosts.models import Host
from benchlab.pages.hosts.queries import spare_counts
from benchlab.pages.shared import get_or_post
from benchlab.pages.topologies import builder
from benchlab.pages.topologies.builder import Draft
from benchlab.pages.topologies.host_fit import HostCapacity, with_spares
from benchlab.sharing.discussion import TAG, filter_by_tag
from benchlab.sharing.models import Kind
from benchlab.team.services import owning_team
from benchlab.topologies import forms, plan_view, services, stack_boxes
from benchlab.topologies.host_shapes import (
    PRESETS,
    Preset,
    fit_to_spares,
    presets_by_group,
    with_disk_count,
)
from benchlab.topologies.models import Topology, missing_disks
from benchlab.web import lists
from benchlab.web.filters import ARCHIVED
from benchlab.web.texts import copy_name, free_name, parse_row_id

PAGE, LIVE = "topologies/edit.html", "topologies/_live.html"
PRESETS_PART = "presets-part"
# a host, whose spare disks presets are sized to
SIZED = "sized"
# the code of the error that somebody else was faster
CHANGED = "changed"
# hosts that have the disks; of more there is the number
MAX_NAMED_HOSTS = 3
# hosts in a fold
MAX_SHORT_HOSTS = 8
# By the word that the list's address has for each column.
COLUMNS = {
    "name": lists.name_column(),
    "stack": lists.SortColumn("Stack, bottom up"),
    "what": lists.name_column("What for", "description"),
}


@require_GET
def topology_list(request: HttpRequest) -> HttpResponse:
    mine = lists.active_or_archived(request, Topology.objects.for_user(request.user))
    tagged = filter_by_tag(request, Kind.TOPOLOGY, mine)
    listed = lists.filter_rows(
        request, tagged, COLUMNS, ("name", "description"), filters=(ARCHIVED, TAG, SIZED)
    )
    rows = [{"topology": row, "summary": stack_boxes.summary(row.stack)} for row in listed.rows]
    context = {"rows": rows, "listed": listed, **_presets_context(request)}
    part = request.htmx and request.htmx.target == PRESETS_PART  # type: ignore[attr-defined]
    page = "topologies/list.html"
    return render(request, f"{page}#{PRESETS_PART}" if part else page, context)


def _presets_context(request: HttpRequest) -> dict[str, Any]:
    """Heading -> presets, each with the hosts that have the disks, and what others are short of.

    They have as many disks as the host of ?sized= has spare; without it the first that has any; as the studies had them
    where it is empty.
    """
    spares = spare_counts(request.user)
    host_id = request.GET.get(SIZED)
    sizes = with_spares(spares)
    by_id = {str(host.pk): host for host, _ in sizes}
    chosen = by_id.get(host_id) if host_id is not None else next(iter(by_id.values()), None)
    have = spares[chosen] if chosen else {}
    rows = [
        (
            heading,
            [_preset_offer(fit_to_spares(preset, have), spares, chosen) for preset in presets],
        )
        for heading, presets in presets_by_group()
    ]
    return {"presets": rows, "sizes": sizes, "sized": chosen}


def _preset_offer(
    preset: Preset, spares: Mapping[Host, dict[str, int]], chosen: Host | None
) -> dict[str, object]:
    """A preset with the hosts that have its disks, the chosen one first, and the shortages of others, the least first.

    `short`: of the chosen host, or of the one that is nearest to it where none has the disks.
    """
    shortages = [(host, missing_disks(preset.wants, have)) for host, have in spares.items()]
    shortages.sort(key=lambda pair: (pair[0] != chosen, sum(pair[1].values()), pair[0].name))
    fits = [host for host, short in shortages if not short]
    others = [pair for pair in shortages if pair[1]]
    first = others.pop(0) if others and (others[0][0] == chosen or not fits) else None
    return {
        "preset": preset,
        "fits": fits[:MAX_NAMED_HOSTS],
        "hidden_fits": max(0, len(fits) - MAX_NAMED_HOSTS),
        "short": first,
        "others": others[:MAX_SHORT_HOSTS],
        "hidden_others": max(0, len(others) - MAX_SHORT_HOSTS),
        "others_in_all": len(others),
    }


@require_GET
def topology_detail(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(Topology.objects.visible_to(request.user).select_related("team"), pk=pk)
    context = {
        "topology": row,
        "boxes": stack_boxes.stack_boxes(row.stack),
        "growths": stack_boxes.growths(row.stack, row.stages),
        "campaigns": Campaign.objects.filter(layouts__topology=row).distinct(),
    }
    return render(request, "topologies/detail.html", context)


@get_or_post
def topology_new(request: HttpRequest) -> HttpResponse:
    """?copy= fills it in with a topology that one sees."""
    if request.method == "POST" and "preset" in request.POST:
        return _use_preset(request, request.POST["preset"])
    copied = request.GET.get("copy", "") if request.method == "GET" else ""
    if not copied:
        return _edit_page(request, None)
    visible = Topology.objects.visible_to(request.user).exclude(stack=[])
    source = get_object_or_404(visible, pk=parse_row_id(copied))
    # The form with what it has, under a name that is free; nothing is stored yet.
    values = {field: getattr(source, field) for field in forms.NameForm.base_fields}
    name_form = forms.NameForm(initial=values | {"name": copy_name(source.name)})
    return _builder_page(request, None, name_form, _stored_draft(source))


@get_or_post
def topology_edit(request: HttpRequest, pk: int) -> HttpResponse:
    return _edit_page(request, get_object_or_404(Topology.objects.for_user(request.user), pk=pk))


def _use_preset(request: HttpRequest, slug: str) -> HttpResponse:
    """One click: the preset's topology, of so many `disks` where it stretches, made unless the team has one of that
    name."""
    if slug not in PRESETS:
        raise Http404(f"There is no preset named {slug}.")
    preset = with_disk_count(PRESETS[slug], parse_row_id(request.POST.get("disks")) or 0)
    mine = Topology.objects.for_user(request.user).filter(name=preset.name).first()
    if mine:
        request_notes.mark_refused(request)
        messages.info(request, f"{preset.name} already exists.")
        return redirect("topology-detail", mine.pk)
    topology = services.create_topology(
        team=owning_team(request.user),
        user=request.user,
        name=preset.name,
        description=preset.says,
        stack=preset.stack,
        stages=preset.stages,
    )
    messages.success(request, f"{topology} is ready to use.")
    return redirect("topology-detail", topology.pk)


def _stored_draft(topology: Topology | None) -> Draft:
    layers = forms.from_stack(topology.stack if topology else [])
    stages = forms.from_entries(topology.stages if topology else [], layers)
    return Draft(layers, stages, max(len(layers) - 1, 0))


def _edit_page(request: HttpRequest, topology: Topology | None) -> HttpResponse:
    if request.method != "POST":
        draft, was = _stored_draft(topology), _state_digest(topology)
        return _builder_page(request, topology, forms.NameForm(instance=topology), draft, was)
    name_form = forms.NameForm(request.POST, instance=topology)
    was = request.POST.get("was", "")
    try:
        draft = builder.draft_from_post(request.POST)
    except ValidationError as error:
        name_form.add_error(None, error)
        return _builder_page(request, topology, name_form, Draft(), was)
    if "save" in request.POST:
        return _save_or_explain(request, topology, name_form, draft, was)
    # A button that changes the draft saves nothing, so it complains about no name either.
    typed = {name: request.POST.get(name, "") for name in name_form.fields}
    name_form = forms.NameForm(initial=typed)
    if "do" not in request.POST:
        return _builder_page(request, topology, name_form, draft, was, typing=True)
    on = builder.chosen_capacity(request)
    draft = builder.press_button(request.POST["do"], request.POST, draft, on.shelf)
    return _builder_page(request, topology, name_form, draft, was, on=on)


def _save_or_explain(
    request: HttpRequest,
    topology: Topology | None,
    name_form: forms.NameForm,
    draft: Draft,
    was: str,
) -> HttpResponse:
    # Every form, also after one that is wrong: all that is wrong is said at once.
    validities = [name_form.is_valid(), *(form.is_valid() for form in draft.layers)]
    validities += [form.is_valid() for form in draft.stages]
    if all(validities):
        try:
            return _save_topology(request, topology, name_form, draft, was)
        except ValidationError as error:
            name_form.add_error(None, ValidationError(error.messages))
            if topology and error.code == CHANGED:
                was = _state_digest(Topology.objects.get(pk=topology.pk))
    return _builder_page(request, topology, name_form, draft, was)


@transaction.atomic
def _save_topology(
    request: HttpRequest,
    topology: Topology | None,
    name_form: forms.NameForm,
    draft: Draft,
    was: str,
) -> HttpResponse:
    """Raises ValidationError; then nothing was stored."""
    values = {
        **name_form.cleaned_data,
        "stack": [layer.entry() for layer in draft.layers],
        "stages": [stage.entry() for stage in draft.stages],
    }
    if topology:
        saved = _change_topology(topology, was, values)
        subject = f"{describe_row(saved)}{former_name(name_form.initial['name'], saved.name)}"
        request_notes.note_subject(request, saved.team_id, subject)
    else:
        team = owning_team(request.user)
        saved = services.create_topology(team=team, user=request.user, **values)
    also = _save_variant(request, saved, values) if builder.ALSO in request.POST else None
    messages.success(request, f"{saved} and {also} are saved." if also else f"{saved} is saved.")
    return redirect("topology-detail", saved.pk)


def _save_variant(
    request: HttpRequest, row: Topology, values: Mapping[str, Any]
) -> Topology | None:
    """The same without its cache, under a name that is free. Raises ValidationError."""
    shelf = builder.chosen_capacity(request).shelf
    variant = builder.find_variant(values["stack"], values["stages"], shelf)
    if variant is None:
        return None
    used_names = set(Topology.objects.filter(team=row.team).values_list("name", flat=True))
    changes = {
        "name": free_name(variant.variant_name(row.name), used_names),
        "stack": variant.stack,
        "stages": variant.stages,
    }
    return services.create_topology(team=row.team, user=request.user, **{**values, **changes})


@transaction.atomic
def _change_topology(topology: Topology, was: str, values: dict[str, Any]) -> Topology:
    """Raises ValidationError where somebody else stored another state of it since the form was opened."""
    now = Topology.objects.select_for_update(of=["self"]).get(pk=topology.pk)
    if was and was != _state_digest(now):
        raise ValidationError(
            "Somebody changed this topology since you opened it. Save once more to replace what they saved;"
            " to see that first, open its page in another tab.",
            code=CHANGED,
        )
    return services.change_topology(now, **values)


def _state_digest(topology: Topology | None) -> str:
    """Tells one state of a stored topology from another; "" of one that is not stored."""
    if topology is None:
        return ""
    fields = ("name", "description", "stack", "stages", "measure_resync", "on_degraded")
    state = json.dumps([getattr(topology, name) for name in fields], sort_keys=True)
    return hashlib.sha256(state.encode()).hexdigest()[:16]


def _builder_page(
    request: HttpRequest,
    topology: Topology | None,
    name_form: forms.NameForm,
    draft: Draft,
    was: str = "",
    typing: bool = False,
    on: HostCapacity | None = None,
) -> HttpResponse:
    """Render the page; for htmx the builder alone, and while somebody types only the parts that typing changes."""
    template = PAGE
    if request.htmx:  # type: ignore[attr-defined]
        template = LIVE if typing else f"{PAGE}#topology-builder"
    context = builder.builder_context(draft, on or builder.chosen_capacity(request))
    context |= {"topology": topology, "form": name_form, "was": was}
    return render(request, template, context)


class HostForm(Form):
    host = ModelChoiceField(Host.objects.none(), empty_label=None)

    def __init__(self, request: HttpRequest) -> None:
        super().__init__(request.POST or None, initial={"host": request.GET.get("host")})
        field = self.fields["host"]
        assert isinstance(field, ModelChoiceField)
        field.queryset = Host.objects.for_user(request.user)


@get_or_post
def topology_plan(request: HttpRequest, pk: int) -> HttpResponse:
    """GET asks which host; POST has its facts read, and leads to where the plan is shown when they are."""
    topology = get_object_or_404(Topology.objects.for_user(request.user), pk=pk)
    form = HostForm(request)
    context: dict[str, object] = {"topology": topology, "form": form}
    context["hosts"] = Host.objects.for_user(request.user).exists()
    if not topology.stack:
        request_notes.mark_refused(
            request, "Its layers are not known, so it cannot be planned: say them first."
        )
        return redirect("topology-detail", topology.pk)
    if request.method == "POST" and form.is_valid():
        host = form.cleaned_data["host"]
        # It changes nothing, but somebody had the host read.
        request_notes.note_subject(
            request, topology.team_id, f"{describe_row(topology)}, {describe_row(host)}"
        )
        row = host_tasks.request_task(host, "read_facts", request.user)
        return redirect(f"{request.path}?host={host.pk}&task={row.pk}")
    if task := host_tasks.user_task_view(request.user, request.GET.get("task"), "read_facts"):
        run = _dry_run(topology, task)
        context |= {"host": task.row.host, "host_task": task, "run": run}
        if run and run.plan:
            name = task.row.host.name
            context["lost"] = [plan_view.LostDisk(name, disk) for disk in run.plan.destroyed]
    return render(request, "topologies/plan.html", context)


def _dry_run(topology: Topology, task: host_tasks.TaskView) -> previews.DryRun | None:
    """The plan by that reading; None while it goes on."""
    row = task.row
    if not task.over:
        return None
    if row.error or not row.result:
        return previews.failed_dry_run(row.host, row.error)
    snapshot = row.host.snapshots.filter(pk=row.result["snapshot"]).first()
    return previews.dry_run(topology, row.host, snapshot) if snapshot else None


urlpatterns = [
    path("", topology_list, name="topology-list"),
    path("new/", topology_new, name="topology-new"),
    path("<int:pk>/", topology_detail, name="topology-detail"),
    path("<int:pk>/edit/", topology_edit, name="topology-edit"),
    path("<int:pk>/plan/", topology_plan, name="topology-plan"),
]
