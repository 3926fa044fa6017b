"""Pages of topologies: list, one of them, make, change."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from agents import registry
from benchlab.hosts.models import Host
from benchlab.pages.hosts.queries import spare_counts
from benchlab.sharing.models import Kind
from benchlab.sharing.tagged import by_tag
from benchlab.team.services import team_of
from benchlab.topologies import forms, picture, services, stage_forms
from benchlab.topologies.models import Topology
from benchlab.topologies.presets import PRESETS, grouped, lacks
from benchlab.web import lists
from benchlab.web.free_names import copy_name
from benchlab.web.row_ids import row_id

PAGE = "topologies/edit.html"
# By the word that the list's address has for each column.
COLUMNS = {
    "name": lists.by_name(),
    "stack": lists.By("Stack, bottom up"),
    "what": lists.by_name("What for", "description"),
}


@require_GET
def topology_list(request: HttpRequest) -> HttpResponse:
    mine = by_tag(request, Kind.TOPOLOGY, Topology.objects.for_user(request.user))
    listed = lists.listed(request, mine, COLUMNS, ("name", "description"))
    rows = [{"topology": row, "summary": picture.summary(row.stack)} for row in listed.rows]
    context = {"rows": rows, "listed": listed, "presets": _presets(request)}
    return render(request, "topologies/list.html", context)


def _presets(request: HttpRequest) -> list[tuple[str, list[Any]]]:
    """Heading -> presets, each with [(host, {role: missing})], hosts that fit first."""
    spares = spare_counts(request.user)
    rows = []
    for heading, presets in grouped():
        fits = [
            (preset, sorted(((h, lacks(preset, have)) for h, have in spares.items()), key=_short))
            for preset in presets
        ]
        rows.append((heading, fits))
    return rows


def _short(fit: tuple[Host, dict[str, int]]) -> tuple[int, str]:
    return sum(fit[1].values()), fit[0].name


@require_GET
def topology_detail(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(Topology.objects.visible_to(request.user).select_related("team"), pk=pk)
    campaigns = {layout.campaign for layout in row.layouts.select_related("campaign")}
    return render(
        request,
        "topologies/detail.html",
        {
            "topology": row,
            "boxes": picture.boxes(row.stack),
            "growths": picture.growths(row.stack, row.stages),
            "campaigns": sorted(campaigns, key=lambda campaign: -campaign.pk),
        },
    )


@require_http_methods(["GET", "POST"])
def topology_new(request: HttpRequest) -> HttpResponse:
    """?copy= fills it in with a topology that one sees."""
    if request.method == "POST" and "preset" in request.POST:
        return _use_preset(request, request.POST["preset"])
    copied = request.GET.get("copy", "") if request.method == "GET" else ""
    if not copied:
        return _edit(request, None)
    seen = Topology.objects.visible_to(request.user).exclude(stack=[])
    return _copy(request, get_object_or_404(seen, pk=row_id(copied)))


def _copy(request: HttpRequest, source: Topology) -> HttpResponse:
    """The form with what `source` has, under a name that is free; nothing is stored yet."""
    named = {"name": copy_name(source.name)}
    told = {field: getattr(source, field) for field in forms.NameForm.base_fields}
    layers = forms.from_stack(source.stack)
    stages = stage_forms.from_entries(source.stages, layers)
    return _page(request, None, forms.NameForm(initial=told | named), layers, stages)


@require_http_methods(["GET", "POST"])
def topology_edit(request: HttpRequest, pk: int) -> HttpResponse:
    return _edit(request, get_object_or_404(Topology.objects.for_user(request.user), pk=pk))


def _use_preset(request: HttpRequest, slug: str) -> HttpResponse:
    """One click: the preset's topology, made unless the team has one of that name."""
    if slug not in PRESETS:
        raise Http404(f"There is no preset named {slug}.")
    preset = PRESETS[slug]
    mine = Topology.objects.for_user(request.user).filter(name=preset.name).first()
    if mine:
        messages.info(request, f"{preset.name} already exists.")
        return redirect("topology-detail", mine.pk)
    made = services.create_topology(
        team=team_of(request.user),
        user=request.user,
        name=preset.name,
        description=preset.says,
        stack=preset.stack,
        stages=preset.stages,
    )
    messages.success(request, f"{made} is ready to use.")
    return redirect("topology-detail", made.pk)


def _edit(request: HttpRequest, topology: Topology | None) -> HttpResponse:
    if request.method != "POST":
        layers = forms.from_stack(topology.stack if topology else [])
        stages = stage_forms.from_entries(topology.stages if topology else [], layers)
        return _page(request, topology, forms.NameForm(instance=topology), layers, stages)
    name_form = forms.NameForm(request.POST, instance=topology)
    try:
        if (moved := forms.rearranged(request.POST)) is not None:
            # A button that adds or moves a layer saves nothing, so it complains about nothing either.
            typed = {name: request.POST.get(name, "") for name in name_form.fields}
            return _page(request, topology, forms.NameForm(initial=typed), *moved)
        layers = forms.from_post(request.POST)
        stages = stage_forms.from_post(request.POST, layers)
    except ValidationError as error:
        name_form.add_error(None, error)
        return _page(request, topology, name_form, [], [])
    # Every form, also after one that is wrong: all that is wrong is said at once.
    found = [layer.is_valid() for layer in layers] + [stage.is_valid() for stage in stages]
    if all([name_form.is_valid(), *found]):
        try:
            return _save(request, topology, name_form, layers, stages)
        except ValidationError as error:
            name_form.add_error(None, ValidationError(error.messages))
    return _page(request, topology, name_form, layers, stages)


def _save(
    request: HttpRequest,
    topology: Topology | None,
    name_form: forms.NameForm,
    layers: list[forms.LayerForms],
    stages: list[stage_forms.StageForms],
) -> HttpResponse:
    wanted = {
        **name_form.cleaned_data,
        "stack": [layer.entry() for layer in layers],
        "stages": [stage.entry() for stage in stages],
    }
    if topology:
        saved = services.change_topology(topology, **wanted)
    else:
        saved = services.create_topology(team=team_of(request.user), user=request.user, **wanted)
    messages.success(request, f"{saved} is saved.")
    return redirect("topology-detail", saved.pk)


def _page(
    request: HttpRequest,
    topology: Topology | None,
    name_form: forms.NameForm,
    layers: list[forms.LayerForms],
    stages: list[stage_forms.StageForms],
) -> HttpResponse:
    template = PAGE + ("#topology-layers" if request.htmx else "")  # type: ignore[attr-defined]
    context = {
        "topology": topology,
        "form": name_form,
        "layers": layers,
        "stages": stages,
        "growable": stage_forms.growable(layers),
        "awaits": any(registry.awaiting(layer.kind) for layer in layers),
        "kinds": registry.all_layers(),
        "roles": forms.COMMON_ROLES,
    }
    return render(request, template, context)
