# SPDX-License-Identifier: Apache-2.0
"""Pages of keys: the host's, which a person confirms, and ours, which open hosts."""

from __future__ import annotations

from django.contrib import messages
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from benchlab.audit import request_notes
from benchlab.hosts import credentials, errors, host_tasks, ssh_access
from benchlab.hosts.connection_advice import advice
from benchlab.hosts.forms import ConfirmKeyForm
from benchlab.hosts.models import Credential, Host
from benchlab.pages.hosts.views import ask_key, own_host, redirect_to_task
from benchlab.web import lists

# By the word that the list's address has for each column.
KEYS = {
    "name": lists.name_column(),
    "key": lists.sort_column("Public key", "public_key"),
    "hosts": lists.sort_column("Hosts", "used"),
    "made": lists.sort_column("Made", "created_at"),
    "actions": lists.SortColumn("Actions"),
}


@require_http_methods(["GET", "POST"])
def host_key(request: HttpRequest, pk: int) -> HttpResponse:
    """Step two of adding a host, and the page of a changed key: compare fingerprints, then pin."""
    host = own_host(request, pk)
    form = ConfirmKeyForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            ssh_access.confirm_key(host, form.cleaned_data["fingerprint"])
        except errors.HostsError as error:
            request_notes.mark_refused(request, str(error))
            return redirect("host-key", host.pk)
        return _first_reading(request, host)
    host_task = host_tasks.host_task_view(host, request.GET.get("task"), "offer_key")
    pinned, offered_fingerprint = ssh_access.fingerprints(host)
    context = {
        "host": host,
        "host_task": host_task,
        "form": form,
        "pinned": pinned,
        "offered": offered_fingerprint,
        "kind": host.offered_key.split()[0] if offered_fingerprint else "",
        "changed": ssh_access.key_changed(host),
        "advice": advice(host.trouble) if host.trouble else None,
    }
    return render(request, "hosts/key.html", context)


def _first_reading(request: HttpRequest, host: Host) -> HttpResponse:
    """Step three: the first reading. When it fails, the host's page says why."""
    messages.success(
        request, f"The key of {host.name} is pinned. Once it was read: say which disks are spare."
    )
    row = host_tasks.request_task(host, "read_facts", request.user)
    return redirect_to_task("host-detail", row)


@require_POST
def host_key_ask(request: HttpRequest, pk: int) -> HttpResponse:
    return ask_key(request, own_host(request, pk))


@require_POST
def host_key_keep(request: HttpRequest, pk: int) -> HttpResponse:
    """The changed key is wrong: stay with the pinned one."""
    host = own_host(request, pk)
    ssh_access.keep_key(host)
    messages.success(request, f"The new key was rejected; {host.name} must offer the pinned one.")
    return redirect("host-detail", host.pk)


@require_GET
def credential_list(request: HttpRequest) -> HttpResponse:
    rows = Credential.objects.for_user(request.user).annotate(used=Count("hosts"))
    rows = rows.prefetch_related("hosts").order_by("name")
    listed = lists.filter_rows(request, rows, KEYS, ("name", "public_key"))
    return render(request, "hosts/credentials.html", {"keys": listed.rows, "listed": listed})


@require_POST
def credential_delete(request: HttpRequest, pk: int) -> HttpResponse:
    key = get_object_or_404(Credential.objects.for_user(request.user), pk=pk)
    try:
        credentials.delete_credential(key)
        messages.success(
            request, f"Key {key.name} is deleted. Remove its line from authorized_keys too."
        )
    except errors.HostsError as error:
        request_notes.mark_refused(request, str(error))
    return redirect("credential-list")
