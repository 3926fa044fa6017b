# SPDX-License-Identifier: Apache-2.0
"""A dynamo that logged in, as a host with what it reports."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from agents.dynamo.messages import ManagerInfo, Target
from agents.dynamo.wire import DynamoError
from benchlab.dynamo import host_facts as facts
from benchlab.dynamo.identity import Claim, Entry
from benchlab.dynamo.models import DynamoLogin, Reported
from benchlab.hosts import registration
from benchlab.hosts.errors import HostsError
from benchlab.hosts.models import Host
from benchlab.team.models import Team

# Hosts that an owner has not accepted yet, of one address and in all; silent ones are forgotten
MAX_PENDING_AT_ADDRESS = 8
MAX_PENDING = 32
FORGET_AFTER = timedelta(days=1)


@transaction.atomic
def register_dynamo(
    team: Team, info: ManagerInfo, peer: str, targets: Iterable[Target], entry: Entry = Entry.NEW
) -> Host:
    """The host of this dynamo, with what it reports now. A new one is to be accepted, whatever its id."""
    host = _find_or_create_host(team, claim_of(info, peer))
    DynamoLogin.objects.update_or_create(
        host=host,
        defaults={
            "name": info.name,
            "address": info.address,
            "port": info.port,
            **({"accepted_port": None} if entry is Entry.NEW else {}),
        },
    )
    disks = {target.name: target for target in targets if target.is_disk}
    host.reported.exclude(name__in=disks).update(present=False)
    for name, target in disks.items():
        disk: Any = target.details
        before = Reported.objects.filter(host=host, name=name).first()
        lost_size = {"prepared": 0} if before and not disk.ready else {}
        changed = {"spare_by": None, "spare_at": None} if before and not before.present else {}
        # A disk that went and came back may be another one: nobody has agreed to lose that.
        Reported.objects.update_or_create(
            host=host,
            name=name,
            defaults={
                "raw": target.is_raw,
                "ready": bool(disk.ready),
                "sector": max(disk.sector_size, 0),
                "present": True,
                **lost_size,
                **changed,
            },
        )
    facts.store_snapshot(host, info.processors)
    Host.objects.filter(pk=host.pk).update(seen_at=timezone.now(), trouble="", trouble_text="")
    return host


def claim_of(info: ManagerInfo, peer: str) -> Claim:
    return Claim(peer, info.name, info.address)


def _find_or_create_host(team: Team, claim: Claim) -> Host:
    """A host is identified by its name and both addresses. If another host has the name, the address is appended."""
    peer = claim.peer
    rows = Host.objects.filter(team=team, access=Host.Access.DYNAMO, address=peer)
    matching = rows.filter(dynamo_login__name=claim.name, dynamo_login__address=claim.address)
    if host := matching.first():
        return host
    plain = "".join(letter for letter in claim.name if letter.isprintable())[:70] or peer
    names = (plain, f"{plain} ({peer})", f"{plain} ({peer}, {claim.address[:60]})")
    # A host from before logins were stored
    for name in names[:2]:
        if host := rows.filter(name=name, dynamo_login=None).first():
            return host
    _make_room(team, peer)
    for name in names:
        with contextlib.suppress(IntegrityError), transaction.atomic():
            return Host.objects.create(
                team=team, name=name, access=Host.Access.DYNAMO, address=peer, user=""
            )
    raise DynamoError("host", f"there is a host named {names[1]} already, reached otherwise")


def _make_room(team: Team, peer: str) -> None:
    """Forget hosts that nobody accepted in time. Raises DynamoError while too many still wait to be accepted."""
    # Two logins at once count each other
    Team.objects.select_for_update().get(pk=team.pk)
    pending = Host.objects.filter(
        team=team, access=Host.Access.DYNAMO, dynamo_login__accepted_at__isnull=True
    ).exclude(dynamo_login=None)
    silent = timezone.now() - FORGET_AFTER
    for host in pending.filter(Q(seen_at__lt=silent) | Q(seen_at=None, created_at__lt=silent)):
        # One that results name stays
        with contextlib.suppress(HostsError):
            registration.delete_host(host)
    at_address = pending.filter(address=peer).count()
    if at_address >= MAX_PENDING_AT_ADDRESS or pending.count() >= MAX_PENDING:
        raise DynamoError(
            "host",
            f"{at_address} hosts at {peer} and {pending.count()} in all wait for an owner to accept their dynamo "
            f"(at most {MAX_PENDING_AT_ADDRESS} and {MAX_PENDING}): accept them or remove them on their pages",
        )
