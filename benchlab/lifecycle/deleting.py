# SPDX-License-Identifier: Apache-2.0
"""Delete: gone from everywhere at once, and for a period of grace it can be brought back. What uses it keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.urls import reverse
from django.utils import timezone

from benchlab.campaigns.models import Campaign, Run
from benchlab.engine import host_cleanup
from benchlab.hosts.models import Host
from benchlab.lifecycle import archiving
from benchlab.lifecycle.managed_kinds import MANAGED_KINDS, Refused, Use, managed_kind_of
from benchlab.runs.models import Attempt, Layout, StepLog
from benchlab.runs.states import LayoutPhase
from benchlab.topologies import plan_view
from benchlab.web.texts import free_name

Person = AbstractBaseUser | AnonymousUser
# of what stands in the way
MAX_NAMED = 10


def delete_phrase(row: Any) -> str:
    """Phrase that a person types to agree, where results go; "": nothing has to be typed."""
    if not isinstance(row, Campaign):
        return ""
    tried = Attempt.objects.filter(run__campaign=row).exclude(started_at=None)
    return f"delete {row}" if tried.exists() or row.source else ""


@transaction.atomic
def delete(row: Any, by: Person, typed: str = "") -> None:
    """Delete a row. Raises Refused if it is used, it runs, its disks are not proven blank, or the phrase differs."""
    current = archiving.lock_row(row)
    if uses := tuple(find_uses(current)):
        raise Refused("It cannot be deleted now.", uses)
    expected = delete_phrase(current)
    if expected and not plan_view.is_agreed(typed, expected):
        raise Refused(f"Nothing was done. Type “{expected}” to confirm.")
    current.deleted_at, current.deleted_by = timezone.now(), by.get_username()
    current.save(update_fields=["deleted_at", "deleted_by"])


@transaction.atomic
def bring_back(row: Any) -> str:
    """Restore a deleted row with what its runs refer to. Return the messages to show.

    Raises Refused if it is not deleted, or is already being removed for good.
    """
    noun = managed_kind_of(row)
    current = noun.model.even_deleted.select_for_update().filter(pk=row.pk).first()
    if current is None or current.going_at is not None:
        raise Refused("It is being removed for good: it cannot be brought back any more.")
    if current.deleted_at is None:
        raise Refused("It is not deleted.")
    messages = [_undelete(current), *(_undelete(part) for part in _deleted_parts(current))]
    return " ".join(filter(None, messages))


def _undelete(row: Any) -> str:
    """Restore one row, under another name if its own was taken meanwhile; the message says so."""
    noun, before = managed_kind_of(row), row.name
    # campaigns may have the same name
    if noun.kind != "campaign":
        names = set(noun.model.objects.filter(team=row.team_id).values_list("name", flat=True))
        row.name = free_name(row.name, names)
    row.deleted_at, row.deleted_by = None, ""
    row.save(update_fields=["name", "deleted_at", "deleted_by"])
    if row.name == before:
        return ""
    return f"The name {before} was given to another {noun.kind} meanwhile: it is called {row.name} now."


def _deleted_parts(row: Any) -> Iterator[Any]:
    if not isinstance(row, Campaign):
        return
    for noun in (MANAGED_KINDS["topology"], MANAGED_KINDS["workload"]):
        deleted = noun.model.even_deleted.exclude(deleted_at=None).select_for_update()
        used = Q(pk__in=row.runs.order_by().values(noun.kind))
        if noun.kind == "topology":
            used |= Q(pk__in=row.layouts.order_by().values("topology"))
        yield from deleted.filter(used)


def find_uses(row: Any) -> Iterator[Use]:
    """Uses that stand in the way of deleting it, with names and addresses."""
    if isinstance(row, Campaign):
        yield from _campaign_uses(row)
        return
    kind = managed_kind_of(row).kind
    using = Q(Exists(Run.objects.filter(**{kind: row.pk}, campaign=OuterRef("pk"))))
    if kind == "topology":
        using |= Q(Exists(Layout.objects.filter(topology=row.pk, campaign=OuterRef("pk"))))
    campaigns = list(Campaign.objects.filter(using)[: MAX_NAMED + 1])
    for campaign in campaigns[:MAX_NAMED]:
        yield Use(
            "It is used in the campaign",
            str(campaign),
            MANAGED_KINDS["campaign"].detail_url(campaign.pk),
        )
    if len(campaigns) > MAX_NAMED:
        yield Use("and in others")


def _campaign_uses(campaign: Campaign) -> Iterator[Use]:
    layouts = list(campaign.layouts.select_related("host", "topology"))
    url = MANAGED_KINDS["campaign"].detail_url(campaign.pk)
    for layout in layouts:
        if layout.phase not in archiving.AT_REST:
            text = f"{layout.topology} on {layout.host} is {layout.get_phase_display()}: cancel it first"
            yield Use(f"{text}, on", f"the page of {campaign}", url)
    over = [layout for layout in layouts if layout.phase == LayoutPhase.DONE]
    yield from _unproven_disks(over)
    yield from _orphan_uses(over)


def _unproven_disks(layouts: list[Layout]) -> Iterator[Use]:
    """Yield the hosts of layouts that were released before their disks were proven blank.

    Their plans say what to take down if such a disk comes back.
    """
    touched = StepLog.objects.filter(kind=StepLog.Kind.APPLY, layout__in=layouts)
    built = set(touched.values_list("layout", flat=True))
    for layout in layouts:
        if layout.pk not in built or layout.facts_after_id is not None:
            continue
        disks = host_cleanup.touched_devices(layout).filter(spare=False)
        if names := ", ".join(disk.name for disk in disks):
            text = f"{layout.name} was released before its disks were proven blank ({names}): mark them spare again on"
            yield _host_use(text, layout.host)


def _orphan_uses(layouts: list[Layout]) -> Iterator[Use]:
    """Remains of a layout that is over, as the last reading of its host showed them."""
    own = {layout.pk for layout in layouts}
    for host in {layout.host_id: layout.host for layout in layouts}.values():
        snapshot = host.snapshots.first()
        if snapshot is None or host.access == Host.Access.DESCRIBED:
            continue
        for orphan in host_cleanup.find_orphans(host, snapshot):
            if orphan.layout is not None and orphan.layout.pk in own:
                yield _host_use(f"Something of {orphan.name} is still there: take it down on", host)


def _host_use(text: str, host: Host) -> Use:
    return Use(text, f"the page of {host}", reverse("host-detail", args=[host.pk]))
