# SPDX-License-Identifier: Apache-2.0
"""Pages of hosts: the list, one host, what was read of it, and keys: its own, which a person confirms, and ours."""

from __future__ import annotations

from typing import Protocol, cast

from django.contrib import messages
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST
from django_htmx.http import HttpResponseClientRefresh

from benchlab import app_modules
from benchlab.campaigns.models import Campaign
from benchlab.engine import host_cleanup
from benchlab.hosts import (
    blocks,
    discovery,
    host_tasks,
    models,
    package_installs,
    registration,
    ssh_access,
)
from benchlab.hosts.forms import AddForm, AddressForm, ConfirmKeyForm
from benchlab.hosts.models import Credential, FactSnapshot, Host
from benchlab.hosts.ssh_access import advice
from benchlab.pages.hosts import groups, queries
from benchlab.pages.shared import get_or_post, refused_leads_to
from benchlab.sharing.discussion import TAG, filter_by_tag
from benchlab.sharing.models import Kind
from benchlab.team.services import owning_team
from benchlab.web import lists
from benchlab.web.lists import BoundedPaginator
from benchlab.web.texts import copy_name, parse_row_id

SNAPSHOTS_PER_PAGE = 50
# By the word that the address of a host's readings has for each column.
READINGS = {
    "taken": lists.sort_column("Read", "taken_at"),
    "seen": lists.sort_column("Last seen unchanged", "seen_at"),
    "boot": lists.sort_column("Boot", "boot_id"),
}


def own_host(request: HttpRequest, pk: int) -> Host:
    """The host, if this person may see it; 404 otherwise."""
    return get_object_or_404(
        Host.objects.for_user(request.user).select_related("credential"), pk=pk
    )


@require_GET
def host_list(request: HttpRequest) -> HttpResponse:
    rows = filter_by_tag(request, Kind.HOST, queries.host_rows(request.user))
    listed = lists.filter_rows(
        request, rows, queries.COLUMNS, queries.SEARCHED_COLUMNS, filters=(TAG,)
    )
    context = {"rows": queries.as_host_rows(listed.rows), "listed": listed}
    return render(request, "hosts/list.html", context)


@get_or_post
def host_add(request: HttpRequest) -> HttpResponse:
    """Step one: where it is, and with which key. The host is asked for its own key right away. ?copy= fills it in."""
    copied = request.GET.get("copy", "") if request.method == "GET" else ""
    initial = _copied_values(request, parse_row_id(copied)) if copied else None
    form = AddForm(request.POST or None, request.FILES or None, owner=request.user, initial=initial)
    if request.method == "POST" and form.is_valid():
        try:
            host = _create_host(request, form)
        except models.HostsError as error:
            form.add_error(None, str(error))
        else:
            # Step two also explains why a host cannot be reached.
            return _request_task(request, host, "offer_key", "host-key")
    return render(request, "hosts/add.html", {"form": form})


def _copied_values(request: HttpRequest, pk: int | None) -> dict[str, object]:
    """Values that a further machine like `pk` has in common with it: not its address, and of its key only the id."""
    like = get_object_or_404(Host.objects.for_user(request.user), pk=pk, access=Host.Access.SSH)
    values = {name: getattr(like, name) for name in ("port", "user", "credential", "notes")}
    return values | {"name": copy_name(like.name)}


def _create_host(request: HttpRequest, form: AddForm) -> Host:
    values = form.cleaned_data
    key: Credential = values["credential"]
    team = key.team if key else owning_team(request.user)
    name = registration.free_key_name(team, values["name"])
    if values["private_key"]:
        key = registration.upload_credential(team, name, values["private_key"])
    elif not key:
        key = registration.make_credential(team, name)
    return registration.add_host(
        team,
        values["name"],
        values["address"],
        key,
        port=values["port"],
        user=values["user"],
        notes=values["notes"],
    )


def _request_task(request: HttpRequest, host: Host, kind: str, page: str) -> HttpResponse:
    """Redirect to a page of the host that shows the task's progress and result."""
    row = host_tasks.request_task(host, kind, request.user)
    return redirect(f"{reverse(page, args=[host.pk])}?task={row.pk}")


@require_GET
def host_task(request: HttpRequest, pk: int, task_pk: int) -> HttpResponse:
    """One task as it stands. To htmx only this part; over, it has the page that shows it load anew."""
    host = own_host(request, pk)
    row = get_object_or_404(host.tasks.select_related("host", "by"), pk=task_pk)
    context = {"host": host, "host_task": host_tasks.task_view(row)}
    if not request.htmx:  # type: ignore[attr-defined]
        return render(request, "hosts/task.html", context)
    if row.ended_at is not None:
        return HttpResponseClientRefresh()
    return render(request, "hosts/_task.html", context)


@require_GET
def host_detail(request: HttpRequest, pk: int) -> HttpResponse:
    visible = get_object_or_404(Host.objects.visible_to(request.user).select_related("team"), pk=pk)
    if visible.only_tool and not visible.team.library:
        return _tool_page(visible.only_tool).page(request, visible)
    if visible.access != Host.Access.SSH or visible.team.library:
        # We do not reach it: results from it were imported.
        used = Campaign.objects.visible_to(request.user).filter(runs__host=visible).distinct()
        return render(request, "hosts/described.html", {"host": visible, "campaigns": used})
    host = own_host(request, pk)
    if ssh_access.key_changed(host):
        return redirect("host-key", host.pk)
    latest = host.snapshots.first()
    holder = host_cleanup.holding_layout(host)
    sudo = latest.facts.get("sudo") if latest else None
    context = {
        "host": host,
        "holder": holder,
        "state": queries.host_state(host, sudo, holder.phase if holder else None),
        "advice": advice(host.trouble) if host.trouble else None,
        "fingerprint": ssh_access.fingerprints(host)[0],
        "snapshot": latest,
        "snapshots": host.snapshots.count(),
        "orphans": host_cleanup.find_orphans(host, latest) if latest else [],
        "missing": package_installs.offered_programs(host),
        "installing": host.installs.filter(ended_at=None).first(),
        "host_task": host_tasks.host_task_view(
            host, request.GET.get("task"), "read_facts", "offer_key"
        ),
    }
    return render(request, "hosts/detail.html", context | _facts_context(request, host, latest))


class HostPage(Protocol):
    """`ACCESS`: as Host.access tells it. The page of a host that only one tool reaches."""

    ACCESS: str

    def page(self, request: HttpRequest, host: Host) -> HttpResponse: ...


def _tool_page(access: str) -> HostPage:
    """The module `host_page` of the room that knows the tool."""
    modules = app_modules.modules_named("host_page")
    return {module.ACCESS: cast(HostPage, module) for module in modules}[access]


@get_or_post
def host_change(request: HttpRequest, pk: int) -> HttpResponse:
    host = own_host(request, pk)
    form = AddressForm(request.POST or None, instance=host, owner=request.user)
    if request.method == "POST" and form.is_valid():
        try:
            # The form's own save would write every column, over what a worker stored meanwhile.
            registration.change_host(host, **form.cleaned_data)
            return redirect("host-detail", host.pk)
        except models.HostsError as error:
            form.add_error(None, str(error))
    return render(request, "hosts/change.html", {"form": form, "host": own_host(request, pk)})


@get_or_post
@refused_leads_to("host-detail", "pk")
def host_delete(request: HttpRequest, pk: int) -> HttpResponse:
    host = own_host(request, pk)
    if request.method == "GET":
        return render(request, "hosts/delete.html", {"host": host})
    registration.delete_host(host)
    messages.success(request, f"{host.name} is removed. Nothing was changed on the machine itself.")
    return redirect("host-list")


@require_POST
def host_read(request: HttpRequest, pk: int) -> HttpResponse:
    """Have the facts read. Trouble is kept with the host and shown on its page."""
    return _request_task(request, own_host(request, pk), "read_facts", "host-detail")


@require_GET
def host_history(request: HttpRequest, pk: int) -> HttpResponse:
    host = own_host(request, pk)
    rows = host.snapshots.only("pk", "host", "taken_at", "seen_at", "boot_id").order_by("-pk")
    listed = lists.filter_rows(request, rows, READINGS, ("taken_at", "boot_id"))
    page = BoundedPaginator(listed.rows, SNAPSHOTS_PER_PAGE).get_page(request.GET.get("page"))
    context = {"host": host, "page": page, "listed": listed}
    return render(request, "hosts/history.html", context)


@require_GET
def host_snapshot(request: HttpRequest, pk: int, snapshot_pk: int) -> HttpResponse:
    host = own_host(request, pk)
    snapshot = get_object_or_404(host.snapshots, pk=snapshot_pk)
    context = {"host": host, "snapshot": snapshot}
    return render(request, "hosts/snapshot.html", context | _facts_context(request, host, snapshot))


def _facts_context(
    request: HttpRequest, host: Host, snapshot: FactSnapshot | None
) -> dict[str, object]:
    """Context of the facts: the stacks, the tools, and each disk with what is known of it."""
    if snapshot is None:
        return {}
    facts = discovery.facts_of(snapshot)
    block_devices = {device.identity: device for device in facts.devices if blocks.is_whole(device)}
    names = host_cleanup.layout_names(host, snapshot)
    rows = queries.host_disks(host, block_devices)
    listed = lists.filter_in_memory(
        request, rows, queries.DISKS, queries.disk_texts, "#disks", filters=("task",)
    )
    return {
        "facts": facts,
        "forest": blocks.device_trees(facts, names),
        "groups": groups.disk_groups(facts, names),
        "tools": queries.tool_rows(facts),
        "devices": listed.rows,
        "listed": listed,
    }


# By the word that the list's address has for each column.
KEYS = {
    "name": lists.name_column(),
    "key": lists.sort_column("Public key", "public_key"),
    "hosts": lists.sort_column("Hosts", "used"),
    "made": lists.sort_column("Made", "created_at"),
    "actions": lists.SortColumn("Actions"),
}


@get_or_post
@refused_leads_to("host-key", "pk")
def host_key(request: HttpRequest, pk: int) -> HttpResponse:
    """Step two of adding a host, and the page of a changed key: compare fingerprints, then pin.

    Step three is the first reading. When it fails, the host's page says why.
    """
    host = own_host(request, pk)
    form = ConfirmKeyForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        ssh_access.confirm_key(host, form.cleaned_data["fingerprint"])
        messages.success(
            request,
            f"The key of {host.name} is pinned. Once it was read: say which disks are spare.",
        )
        return _request_task(request, host, "read_facts", "host-detail")
    pinned, offered_key = ssh_access.fingerprints(host)
    context = {
        "host": host,
        "host_task": host_tasks.host_task_view(host, request.GET.get("task"), "offer_key"),
        "form": form,
        "pinned": pinned,
        "offered": offered_key,
        "kind": host.offered_key.split()[0] if offered_key else "",
        "changed": ssh_access.key_changed(host),
        "advice": advice(host.trouble) if host.trouble else None,
    }
    return render(request, "hosts/key.html", context)


@require_POST
def host_key_ask(request: HttpRequest, pk: int) -> HttpResponse:
    return _request_task(request, own_host(request, pk), "offer_key", "host-key")


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
@refused_leads_to("credential-list")
def credential_delete(request: HttpRequest, pk: int) -> HttpResponse:
    key = get_object_or_404(Credential.objects.for_user(request.user), pk=pk)
    registration.delete_credential(key)
    messages.success(
        request, f"Key {key.name} is deleted. Remove its line from authorized_keys too."
    )
    return redirect("credential-list")
