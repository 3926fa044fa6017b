# SPDX-License-Identifier: Apache-2.0
"""Pages on which a person changes a host: marks a disk spare, takes down what a layout left, installs packages."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_POST

from agents.contracts import AgentError
from benchlab.engine import host_cleanup
from benchlab.hosts import blocks, discovery, host_tasks, models, package_installs, spare_disks
from benchlab.hosts.forms import RatingForm, SpareForm
from benchlab.hosts.models import Device, Host
from benchlab.pages.hosts.views import own_host
from benchlab.pages.shared import get_or_post, is_confirmed, pop_mistyped, refused_leads_to
from benchlab.topologies.plan_view import LostDisk, destroy_phrase
from benchlab.web.texts import parse_row_id

ROLES = ("hdd", "ssd", "nvme")


@get_or_post
def device_detail(request: HttpRequest, pk: int, device_pk: int) -> HttpResponse:
    """One disk: all that is on it and would be destroyed, and the form that marks it spare."""
    host, device = _own_device(request, pk, device_pk)
    form = _spare_form(device, request.POST or None)
    if request.method == "POST" and form.is_valid():
        values = form.cleaned_data
        try:
            spare_disks.mark_spare(device, request.user, values["typed"], values["role"])
        except (models.HostsError, AgentError) as error:
            form.add_error(None, str(error))
            device.refresh_from_db()
        else:
            messages.success(
                request, f"Marked {device.name} spare, with the role {values['role']}."
            )
            return redirect("host-detail", host.pk)
    return _device_page(request, host, device, form, RatingForm(instance=device))


@require_POST
@refused_leads_to("host-detail", "pk")
def device_keep(request: HttpRequest, pk: int, device_pk: int) -> HttpResponse:
    """Take a disk back."""
    _, device = _own_device(request, pk, device_pk)
    spare_disks.unmark_spare(device)
    messages.success(request, f"{device.name} is no longer spare; BenchLab will not write to it.")
    return redirect("host-detail", pk)


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
    """The role is a suggestion; the person decides."""
    role = device.role
    if not role and device.rotational is not None:
        flash = "nvme" if device.name.startswith("nvme") else "ssd"
        role = "hdd" if device.rotational else flash
    return SpareForm(data, device=device, initial={"role": role})


def _own_device(request: HttpRequest, pk: int, device_pk: int) -> tuple[Host, Device]:
    host = own_host(request, pk)
    return host, get_object_or_404(host.devices.select_related("spare_by"), pk=device_pk)


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


@get_or_post
@refused_leads_to("host-detail", "pk")
def orphan_teardown(request: HttpRequest, pk: int, layout_pk: int) -> HttpResponse:
    """GET shows what is left and which disks will be wiped; POST does it. `snapshot`: the reading that was shown."""
    host = own_host(request, pk)
    latest = host.snapshots.first()
    leftovers = host_cleanup.find_orphans(host, latest) if latest else []
    orphan = next((row for row in leftovers if row.layout and row.layout.pk == layout_pk), None)
    lost = [LostDisk(host.name, disk) for disk in orphan.destroys] if orphan else []
    phrase = destroy_phrase(lost)
    if request.method == "POST":
        layout = get_object_or_404(host.layouts.select_related("host"), pk=layout_pk)
        if orphan and not is_confirmed(request, phrase):
            return redirect("host-orphan", pk, layout_pk)
        host_cleanup.tear_down_orphan(layout, parse_row_id(request.POST.get("snapshot", "")))
        messages.success(request, f"Taking down what {layout.name} left.")
        return redirect("host-detail", pk)
    if orphan is None or orphan.why_not:
        messages.info(request, "Nothing is left that can be taken down from here.")
        return redirect("host-detail", pk)
    context = {"host": host, "orphan": orphan, "snapshot": latest, "lost": lost, "phrase": phrase}
    return render(
        request, "hosts/orphan.html", {**context, "mistyped": pop_mistyped(request, phrase)}
    )


@get_or_post
@refused_leads_to("host-detail", "pk")
def package_install(request: HttpRequest, pk: int) -> HttpResponse:
    """GET ?package= shows the command and asks; POST `package` and `command`, as it was shown, runs it."""
    host = own_host(request, pk)
    chosen = (request.POST if request.method == "POST" else request.GET).getlist("package")
    argv = package_installs.install_command(host, chosen)
    if request.method == "POST":
        confirmed = str(request.POST.get("command", ""))
        row = package_installs.start_install(host, chosen, confirmed, request.user)
        return redirect("host-install", pk, row.pk)
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
