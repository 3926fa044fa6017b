# SPDX-License-Identifier: Apache-2.0
"""Pages on which a person changes a host: marks a disk spare, takes down what a layout left, installs packages."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from agents.contracts import AgentError
from benchlab.audit import request_notes
from benchlab.engine import host_cleanup
from benchlab.engine.commands import CommandError
from benchlab.hosts import blocks, discovery, host_tasks, models, package_installs, spare_disks
from benchlab.hosts.forms import RatingForm, SpareForm
from benchlab.hosts.models import Device, Host
from benchlab.pages import confirmation
from benchlab.pages.hosts.views import own_host
from benchlab.topologies import plan_view
from benchlab.web.texts import parse_row_id

ROLES = ("hdd", "ssd", "nvme")


@require_http_methods(["GET", "POST"])
def device_detail(request: HttpRequest, pk: int, device_pk: int) -> HttpResponse:
    """One disk: all that is on it and would be destroyed, and the form that marks it spare."""
    host, device = _own_device(request, pk, device_pk)
    form = _spare_form(device, request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            values = form.cleaned_data
            spare_disks.mark_spare(device, request.user, values["typed"], values["role"])
            messages.success(
                request, f"Marked {device.name} spare, with the role {values['role']}."
            )
            return redirect("host-detail", host.pk)
        except (models.HostsError, AgentError) as error:
            form.add_error(None, str(error))
            device.refresh_from_db()
    return _device_page(request, host, device, form, RatingForm(instance=device))


@require_POST
def device_keep(request: HttpRequest, pk: int, device_pk: int) -> HttpResponse:
    """Take a disk back."""
    host, device = _own_device(request, pk, device_pk)
    try:
        spare_disks.unmark_spare(device)
        messages.success(
            request, f"{device.name} is no longer spare; BenchLab will not write to it."
        )
    except models.HostsError as error:
        request_notes.mark_refused(request, str(error))
    return redirect("host-detail", host.pk)


@require_POST
def device_rate(request: HttpRequest, pk: int, device_pk: int) -> HttpResponse:
    """Store what a disk is rated for."""
    host, device = _own_device(request, pk, device_pk)
    form = RatingForm(request.POST, instance=device)
    if form.is_valid():
        form.save()
        messages.success(request, f"Kept what {device.name} is rated for.")
        return redirect("device-detail", host.pk, device.pk)
    device.refresh_from_db()
    return _device_page(request, host, device, _spare_form(device), form)


def _device_page(
    request: HttpRequest, host: Host, device: Device, form: SpareForm, rating: RatingForm
) -> HttpResponse:
    context = {"host": host, "device": device, "form": form, "rating": rating, "roles": ROLES}
    return render(request, "hosts/device.html", context | _disk_context(host, device))


def _spare_form(device: Device, data: QueryDict | None = None) -> SpareForm:
    return SpareForm(data, device=device, initial={"role": _likely_role(device)})


def _own_device(request: HttpRequest, pk: int, device_pk: int) -> tuple[Host, Device]:
    host = own_host(request, pk)
    return host, get_object_or_404(host.devices.select_related("spare_by"), pk=device_pk)


def _likely_role(device: Device) -> str:
    """A suggestion; the person decides."""
    if device.role or device.rotational is None:
        return device.role
    if device.rotational:
        return "hdd"
    return "nvme" if device.name.startswith("nvme") else "ssd"


def _disk_context(host: Host, device: Device) -> dict[str, object]:
    """Devices on the disk by the latest facts: itself and everything stacked on it."""
    latest = host.snapshots.first()
    if latest is None:
        return {}
    trees = blocks.device_trees(discovery.facts_of(latest), host_cleanup.layout_names(host, latest))
    tree = next((t for t in trees if t.device.identity == device.identity), None)
    return {
        "snapshot": latest,
        "tree": tree,
        "on_it": list(blocks.walk_blocks([tree])) if tree else [],
    }


@require_http_methods(["GET", "POST"])
def orphan_teardown(request: HttpRequest, pk: int, layout_pk: int) -> HttpResponse:
    """GET shows what is left and which disks will be wiped; POST does it. `snapshot`: the reading that was shown."""
    host = own_host(request, pk)
    latest = host.snapshots.first()
    leftovers = (
        [leftover for leftover in host_cleanup.find_orphans(host, latest) if leftover.layout]
        if latest
        else []
    )
    orphan = next(
        (leftover for leftover in leftovers if leftover.layout and leftover.layout.pk == layout_pk),
        None,
    )
    if request.method == "POST":
        return _tear_down(request, host, layout_pk, orphan)
    if orphan is None or orphan.why_not:
        messages.info(request, "Nothing is left that can be taken down from here.")
        return redirect("host-detail", pk)
    lost = _lost_disks(host, orphan)
    context = {"host": host, "orphan": orphan, "snapshot": latest, "lost": lost}
    context["phrase"] = phrase = plan_view.destroy_phrase(lost)
    context["mistyped"] = confirmation.pop_mistyped(request, phrase)
    return render(request, "hosts/orphan.html", context)


def _tear_down(
    request: HttpRequest, host: Host, layout_pk: int, orphan: host_cleanup.Orphan | None
) -> HttpResponse:
    layout = host.layouts.filter(pk=layout_pk).select_related("host").first()
    if layout is None:
        raise Http404
    if orphan and not confirmation.is_confirmed(
        request, plan_view.destroy_phrase(_lost_disks(host, orphan))
    ):
        return redirect("host-orphan", host.pk, layout_pk)
    snapshot_id = request.POST.get("snapshot", "")
    try:
        host_cleanup.tear_down_orphan(layout, parse_row_id(snapshot_id))
    except CommandError as error:
        request_notes.mark_refused(request, str(error))
    else:
        messages.success(request, f"Taking down what {layout.name} left.")
    return redirect("host-detail", host.pk)


def _lost_disks(host: Host, orphan: host_cleanup.Orphan) -> list[plan_view.LostDisk]:
    return [plan_view.LostDisk(host.name, disk) for disk in orphan.destroys]


@require_http_methods(["GET", "POST"])
def package_install(request: HttpRequest, pk: int) -> HttpResponse:
    """GET ?package= shows the command and asks; POST `package` and `command`, as it was shown, runs it."""
    host = own_host(request, pk)
    parameters = request.POST if request.method == "POST" else request.GET
    chosen = parameters.getlist("package")
    try:
        argv = package_installs.install_command(host, chosen)
        if request.method == "POST":
            confirmed = str(request.POST.get("command", ""))
            row = package_installs.start_install(host, chosen, confirmed, request.user)
            return redirect("host-install", host.pk, row.pk)
    except models.HostsError as error:
        request_notes.mark_refused(request, str(error))
        return redirect("host-detail", host.pk)
    context = {"host": host, "packages": chosen, "command": " ".join(argv)}
    return render(request, "hosts/install.html", context)


@require_GET
def package_install_progress(request: HttpRequest, pk: int, install_pk: int) -> HttpResponse:
    """Page of how far it is, as a worker saw it last: see benchlab.hosts.package_installs."""
    host = own_host(request, pk)
    row = get_object_or_404(host.installs.select_related("by"), pk=install_pk)
    worker = "" if row.ended_at else host_tasks.worker_trouble()
    context = {"host": host, "install": row, "worker": worker}
    part = "#install-state" if request.htmx else ""  # type: ignore[attr-defined]
    return render(request, "hosts/installing.html" + part, context)
