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
    host, found = _own_device(request, pk, device_pk)
    form = _spare_form(found, request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            given = form.cleaned_data
            spare_disks.mark_spare(found, request.user, given["typed"], given["role"])
            messages.success(request, f"Marked {found.name} spare, with the role {given['role']}.")
            return redirect("host-detail", host.pk)
        except (errors.HostsError, AgentError) as error:
            form.add_error(None, str(error))
            found.refresh_from_db()
    return _device_page(request, host, found, form, RatingForm(instance=found))


@require_POST
def device_keep(request: HttpRequest, pk: int, device_pk: int) -> HttpResponse:
    """Take a disk back."""
    host, found = _own_device(request, pk, device_pk)
    try:
        spare_disks.unmark_spare(found)
        messages.success(
            request, f"{found.name} is no longer spare; BenchLab will not write to it."
        )
    except errors.HostsError as error:
        request_notes.mark_refused(request, str(error))
    return redirect("host-detail", host.pk)


@require_POST
def device_rate(request: HttpRequest, pk: int, device_pk: int) -> HttpResponse:
    """Store what a disk is rated for."""
    host, found = _own_device(request, pk, device_pk)
    form = RatingForm(request.POST, instance=found)
    if form.is_valid():
        form.save()
        messages.success(request, f"Kept what {found.name} is rated for.")
        return redirect("device-detail", host.pk, found.pk)
    found.refresh_from_db()
    return _device_page(request, host, found, _spare_form(found), form)


def _device_page(
    request: HttpRequest, host: Host, found: Device, form: SpareForm, rating: RatingForm
) -> HttpResponse:
    context = {"host": host, "device": found, "form": form, "rating": rating, "roles": ROLES}
    return render(request, "hosts/device.html", context | _disk_context(host, found))


def _spare_form(found: Device, data: QueryDict | None = None) -> SpareForm:
    return SpareForm(data, device=found, initial={"role": _likely_role(found)})


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
