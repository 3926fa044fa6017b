"""The box in which a person tries what the lines of a command's `extract` would read. Stores nothing."""

from __future__ import annotations

from typing import Any

from django.forms import BooleanField
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST

from agents.drivers import registry
from agents.texts import extraction
from agents.texts.extraction import Tried
from benchlab.campaigns.forms import WorkloadForm
from benchlab.web.driver_forms import DriverForm

TOOL = "command"
LONGEST = 1_000_000  # characters of a sample
SECONDS = 2.0  # for all lines together, beside the sample's own size


@require_POST
def workload_try(request: HttpRequest) -> HttpResponse:
    """The whole page with what was typed, or for htmx the result alone."""
    context = {"trial": trial(request)}
    if request.htmx:  # type: ignore[attr-defined]
        return render(request, "workloads/_try.html#try-result", context)
    options = registry.tool(TOOL).Options
    form = DriverForm(options, prefix="option", sweep=True)
    for name, field in form.fields.items():
        typed = request.POST.get(f"option-{name}", "")
        form.initial[name] = bool(typed) if isinstance(field, BooleanField) else typed
    name_form = WorkloadForm(initial={"name": request.POST.get("name", "")})
    label = registry.tool(TOOL).LABEL
    page = {"tool": TOOL, "label": label, "name_form": name_form, "form": form, **context}
    return render(request, "workloads/new.html", page)


def trial(request: HttpRequest) -> dict[str, Any]:
    """The rows of each line, the sample's lines with those marked that were read, or `trouble`."""
    sample = request.POST.get("sample", "").replace("\r\n", "\n")
    file = request.POST.get("sample_of", "").strip() or "stdout"
    typed = request.POST.get("option-extract", "").splitlines()
    lines = [line.strip() for line in typed if line.strip()]
    found: dict[str, Any] = {"sample": sample, "file": file}
    if not sample.strip():
        return {**found, "trouble": "Paste what the command prints, then try again."}
    if not lines:
        return {**found, "trouble": "There is no line in extract to try."}
    if len(sample) > LONGEST or len(lines) > extraction.MOST:
        too_much = f"That is more than {LONGEST:,} characters or {extraction.MOST} lines."
        return {**found, "trouble": too_much}
    rows = extraction.try_extractions(sample, lines, file, SECONDS / len(lines))
    return {**found, "rows": rows, "shown": _shown(sample, rows)}


def _shown(sample: str, rows: list[Tried]) -> list[tuple[int, str, str]]:
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
