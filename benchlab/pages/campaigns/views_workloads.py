# SPDX-License-Identifier: Apache-2.0
"""Pages of workloads: list, one of them, make one; and the box that tries what a command's `extract` would read."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.forms import BooleanField
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_POST

from agents import options as driver_options
from agents.contracts import AgentError
from agents.drivers import registry
from agents.texts import extraction
from agents.texts.extraction import ExtractionOutcome
from benchlab.campaigns import cost, matrix, services
from benchlab.campaigns.forms import WorkloadForm
from benchlab.campaigns.models import Campaign, Workload
from benchlab.campaigns.services import create_workload
from benchlab.campaigns.workload_presets import PRESETS, Preset, presets_by_group
from benchlab.charts import cards
from benchlab.pages.shared import get_or_post
from benchlab.sharing.discussion import TAG, filter_by_tag
from benchlab.sharing.models import Kind
from benchlab.team.services import owning_team
from benchlab.web import lists
from benchlab.web.driver_forms import DriverForm, option_label, option_text
from benchlab.web.filters import ARCHIVED
from benchlab.web.texts import copy_name, parse_row_id

# the tool whose option `extract` is tried
EXTRACTING = "command"
# characters of a sample
MAX_SAMPLE_LENGTH = 1_000_000
# By the word that the list's address has for each column.
COLUMNS = {
    "name": lists.name_column(),
    "tool": lists.name_column("Tool", "tool"),
    "sweep": lists.SortColumn("Sweep"),
    "points": lists.key_column("Points", itemgetter("points"), "num"),
}


@require_GET
def workload_list(request: HttpRequest) -> HttpResponse:
    visible = lists.active_or_archived(request, Workload.objects.for_user(request.user))
    every = filter_by_tag(request, Kind.WORKLOAD, visible)
    listed = lists.filter_rows(request, every, COLUMNS, ("name", "tool"), filters=(ARCHIVED, TAG))
    mine = listed.rows
    rows = [
        {
            "workload": row,
            "points": len(matrix.sweep_points(row.sweep)),
            "sweep": _option_texts(row, row.sweep),
        }
        for row in mine.filter(imported=False)
    ]
    context = {
        "rows": lists.sort_rows(request, rows, COLUMNS),
        "listed": listed,
        "imported": mine.filter(imported=True),
        "presets": presets_by_group(registry.all_tools()),
        "tools": registry.all_tools(),
    }
    return render(request, "workloads/list.html", context)


@require_GET
def workload_detail(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(Workload.objects.visible_to(request.user).select_related("team"), pk=pk)
    driver = registry.all_tools().get(row.tool)
    context = {
        "workload": row,
        "label": driver.LABEL if driver else row.tool,
        "options": _option_texts(row, row.options),
        "sweep": _option_texts(row, row.sweep),
        "points": [] if row.imported else _sweep_points(row),
        "campaigns": Campaign.objects.filter(runs__workload=row).distinct(),
        "texts": _file_texts(row),
        "tool_files": cards.workload_files(row.tool),
    }
    return render(request, "workloads/detail.html", context)


@get_or_post
def workload_new(request: HttpRequest) -> HttpResponse:
    """?tool= chooses the form, ?preset= or ?copy= fills it in; POST with `preset` alone makes the preset."""
    if request.method == "POST" and "preset" in request.POST:
        return _use_preset(request, request.POST["preset"])
    source = _copied_source(request)
    tool = source.tool if source else request.GET.get("tool", "")
    if not tool:
        return redirect("workload-list")
    if tool not in registry.all_tools():
        raise Http404(f"There is no tool named {tool}.")
    options = registry.tool(tool).Options
    if request.method != "POST":
        filled = {**source.options, **source.sweep} if source else {}
        initial_name = (
            copy_name(source.name) if isinstance(source, Workload) else source and source.name
        )
        name_form = WorkloadForm(initial={"name": initial_name or ""})
        form = DriverForm(options, prefix="option", initial=filled, sweep=True)
        return _new_page(request, tool, name_form, form)
    name_form = WorkloadForm(request.POST)
    form = DriverForm(options, request.POST, prefix="option", sweep=True)
    if name_form.is_valid() & form.is_valid():
        chosen, sweep = form.options_and_sweep()
        try:
            return _create_and_show(request, name_form.cleaned_data["name"], tool, chosen, sweep)
        except ValidationError as error:
            name_form.add_error(None, ValidationError(error.messages))
    return _new_page(request, tool, name_form, form)


def _copied_source(request: HttpRequest) -> Preset | Workload | None:
    """Source that fills the form in: a preset, or a workload that one sees."""
    copied = request.GET.get("copy", "")
    if not copied:
        return PRESETS.get(request.GET.get("preset", ""))
    visible = Workload.objects.visible_to(request.user).filter(imported=False)
    return get_object_or_404(visible, pk=parse_row_id(copied))


def _use_preset(request: HttpRequest, slug: str) -> HttpResponse:
    if slug not in PRESETS or PRESETS[slug].tool not in registry.all_tools():
        raise Http404(f"There is no preset named {slug}.")
    preset = PRESETS[slug]
    mine = Workload.objects.for_user(request.user).filter(name=preset.name).first()
    if mine:
        messages.info(request, f"{preset.name} already exists.")
        return redirect("workload-detail", mine.pk)
    return _create_and_show(request, preset.name, preset.tool, preset.options, preset.sweep)


def _create_and_show(
    request: HttpRequest, name: str, tool: str, options: dict[str, Any], sweep: dict[str, Any]
) -> HttpResponse:
    team, user = owning_team(request.user), request.user
    workload = create_workload(
        team=team, user=user, name=name, tool=tool, options=options, sweep=sweep
    )
    messages.success(request, f"{workload} is ready to use.")
    return redirect("workload-detail", workload.pk)


def _new_page(
    request: HttpRequest,
    tool: str,
    name_form: WorkloadForm,
    form: DriverForm,
    trial: dict[str, Any] | None = None,
) -> HttpResponse:
    label = registry.tool(tool).LABEL
    context = {"tool": tool, "label": label, "name_form": name_form, "form": form, "trial": trial}
    return render(request, "workloads/new.html", context)


@require_POST
def workload_try(request: HttpRequest) -> HttpResponse:
    """The whole page with what was typed, or for htmx the result alone."""
    trial = try_extraction(request)
    if request.htmx:  # type: ignore[attr-defined]
        return render(request, "workloads/_try.html#try-result", {"trial": trial})
    form = DriverForm(registry.tool(EXTRACTING).Options, prefix="option", sweep=True)
    for name, field in form.fields.items():
        typed = request.POST.get(f"option-{name}", "")
        form.initial[name] = bool(typed) if isinstance(field, BooleanField) else typed
    name_form = WorkloadForm(initial={"name": request.POST.get("name", "")})
    return _new_page(request, EXTRACTING, name_form, form, trial)


def try_extraction(request: HttpRequest) -> dict[str, Any]:
    """The rows of each line, the sample's lines with those marked that were read, or `trouble`."""
    sample = request.POST.get("sample", "").replace("\r\n", "\n")
    file = request.POST.get("sample_of", "").strip() or "stdout"
    typed = request.POST.get("option-extract", "").splitlines()
    lines = [line.strip() for line in typed if line.strip()]
    trial: dict[str, Any] = {"sample": sample, "file": file}
    if not sample.strip():
        return {**trial, "trouble": "Paste what the command prints, then try again."}
    if not lines:
        return {**trial, "trouble": "There is no line in extract to try."}
    if len(sample) > MAX_SAMPLE_LENGTH or len(lines) > extraction.MAX_EXTRACTIONS:
        too_much = f"That is more than {MAX_SAMPLE_LENGTH:,} characters or {extraction.MAX_EXTRACTIONS} lines."
        return {**trial, "trouble": too_much}
    try:
        rows = services.try_lines(owning_team(request.user).pk, sample, lines, file)
    except services.Busy:
        return {**trial, "trouble": "Other patterns are being tried. Try again in a few seconds."}
    return {**trial, "rows": rows, "shown": _read_lines(sample, rows)}


def _read_lines(sample: str, rows: list[ExtractionOutcome]) -> list[tuple[int, str, str]]:
    """(number, line, what was read there) of each line that a row speaks of, and its neighbours."""
    names: dict[int, list[str]] = {}
    for row in rows:
        if row.line:
            names.setdefault(row.line, []).append(row.name)
    lines = sample.rstrip("\n").split("\n")
    near = {number + step for number in names for step in (-1, 0, 1)}
    return [
        (number, lines[number - 1][:200], ", ".join(dict.fromkeys(names.get(number, ()))))
        for number in sorted(near)
        if 1 <= number <= len(lines)
    ]


def _option_texts(row: Workload, values: dict[str, Any]) -> list[tuple[str, str]]:
    driver = registry.all_tools().get(row.tool)
    properties = driver_options.schema(driver.Options)["properties"] if driver else {}
    texts = []
    # PostgreSQL keeps a JSON object's names in an order of its own; the driver's is the one to read.
    for name in [
        *(n for n in properties if n in values),
        *(n for n in values if n not in properties),
    ]:
        unit = properties.get(name, {}).get("x-unit", "")
        value = values[name]
        many = value if isinstance(value, list) else [value]
        if not _is_text(value) and value not in ("", []):
            texts.append((option_label(name, unit), " ".join(_value_text(v, unit) for v in many)))
    return texts


def _file_texts(row: Workload) -> list[tuple[str, str]]:
    """(heading, text) of the options that are whole files: fio's job file, a script."""
    return [
        (option_label(name, "").capitalize(), value)
        for name, value in row.options.items()
        if _is_text(value)
    ]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and "\n" in value


def _value_text(value: Any, unit: str) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else option_text(value, unit)


def _sweep_points(row: Workload) -> list[tuple[str, int | None]]:
    """(point, outstanding I/Os); empty when the tool is gone or its options changed since."""
    try:
        tool = registry.tool(row.tool)
        checked = cost.check_sweep(row.name, row.tool, row.options, row.sweep)
        return [
            (matrix.describe_point(point), tool.outstanding_ios(built)) for point, built in checked
        ]
    except (ValidationError, AgentError):
        return []
