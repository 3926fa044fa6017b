"""A dynamo that logged in, as a host with what it reports."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from agents.dynamo.messages import ManagerInfo, Target
from agents.dynamo.wire import DynamoError
from benchlab.dynamo import host_facts as facts
from benchlab.dynamo.models import Reported
from benchlab.hosts.models import Host
from benchlab.team.models import Team


@transaction.atomic
def register(team: Team, info: ManagerInfo, peer: str, seen: Iterable[Target]) -> Host:
    """The host of this dynamo, with what it reports now."""
    host = _host(team, info.name or peer, peer)
    found = {target.name: target for target in seen if target.is_disk}
    host.reported.exclude(name__in=found).update(present=False)
    for name, target in found.items():
        disk: Any = target.details
        before = Reported.objects.filter(host=host, name=name).first()
        gone = {"prepared": 0} if before and not disk.ready else {}
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
                **gone,
                **changed,
            },
        )
    facts.keep(host, info.processors)
    Host.objects.filter(pk=host.pk).update(seen_at=timezone.now(), trouble="", trouble_text="")
    return host


def _host(team: Team, name: str, peer: str) -> Host:
    """Known by its name and address; a name that another host has gets its address behind it."""
    known = Host.objects.filter(team=team, access=Host.Access.DYNAMO, address=peer)
    plain = "".join(letter for letter in name if letter.isprintable())[:70] or peer
    for wanted in (plain, f"{plain} ({peer})"):
        if found := known.filter(name=wanted).first():
            return found
    for wanted in (plain, f"{plain} ({peer})"):
        with contextlib.suppress(IntegrityError), transaction.atomic():
            return Host.objects.create(
                team=team, name=wanted, access=Host.Access.DYNAMO, address=peer, user=""
            )
    raise DynamoError("host", f"there is a host named {plain} ({peer}) already, reached otherwise")
