"""Pages of disks: what is on one, and giving it away."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from agents.contracts import AgentError
from benchlab.hosts import blocks, queries, services
from benchlab.hosts.forms import SpareForm
from benchlab.hosts.models import Device, Host
from benchlab.hosts.views import host_of

ROLES = ("hdd", "ssd", "nvme")


@require_http_methods(["GET", "POST"])
def device(request: HttpRequest, pk: int, device_pk: int) -> HttpResponse:
    """One disk: all that is on it and would be destroyed, and the form that marks it spare."""
    host, found = _device_of(request, pk, device_pk)
    form = SpareForm(request.POST or None, device=found, initial={"role": _likely_role(found)})
    if request.method == "POST" and form.is_valid():
        try:
            given = form.cleaned_data
            services.mark_spare(found, request.user, given["typed"], given["role"])
            messages.success(request, f"{found.name} is spare now, with the role {given['role']}.")
            return redirect("host-detail", host.pk)
        except (services.HostsError, AgentError) as error:
            form.add_error(None, str(error))
            found.refresh_from_db()
    context = {"host": host, "device": found, "form": form, "roles": ROLES}
    return render(request, "hosts/device.html", context | _on_it(host, found))


@require_POST
def keep(request: HttpRequest, pk: int, device_pk: int) -> HttpResponse:
    """Take a disk back."""
    host, found = _device_of(request, pk, device_pk)
    try:
        services.unmark_spare(found)
        messages.success(
            request, f"{found.name} is no longer spare; nothing will be written to it."
        )
    except services.HostsError as error:
        messages.error(request, str(error))
    return redirect("host-detail", host.pk)


def _device_of(request: HttpRequest, pk: int, device_pk: int) -> tuple[Host, Device]:
    host = host_of(request, pk)
    return host, get_object_or_404(host.devices.select_related("spare_by"), pk=device_pk)


def _likely_role(device: Device) -> str:
    """A suggestion; the person decides."""
    if device.role or device.rotational is None:
        return device.role
    if device.rotational:
        return "hdd"
    return "nvme" if device.name.startswith("nvme") else "ssd"


def _on_it(host: Host, device: Device) -> dict[str, object]:
    """What is on the disk by the latest facts: itself and everything stacked on it."""
    latest = host.snapshots.first()
    if latest is None:
        return {}
    trees = blocks.forest(services.facts_of(latest), queries.names_at(host, latest))
    tree = next((t for t in trees if t.device.identity == device.identity), None)
    return {"snapshot": latest, "tree": tree, "on_it": list(blocks.walk([tree])) if tree else []}
