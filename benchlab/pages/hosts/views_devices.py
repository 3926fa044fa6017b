# SPDX-License-Identifier: Apache-2.0
"""Pages of disks: what is on one, and giving it away."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from agents.contracts import AgentError
from benchlab.audit import request_notes
from benchlab.hosts import blocks, discovery, errors, spare_disks
from benchlab.hosts.forms import RatingForm, SpareForm
from benchlab.hosts.models import Device, Host
from benchlab.pages.hosts.views import own_host
from benchlab.runs import host_layouts

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
        except (errors.HostsError, AgentError) as error:
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
    except errors.HostsError as error:
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
    trees = blocks.device_trees(discovery.facts_of(latest), host_layouts.layout_names(host, latest))
    tree = next((t for t in trees if t.device.identity == device.identity), None)
    return {
        "snapshot": latest,
        "tree": tree,
        "on_it": list(blocks.walk_blocks([tree])) if tree else [],
    }
