# SPDX-License-Identifier: Apache-2.0
"""Hosts that only dynamo reaches: who it is, whether it is accepted and connected, and the targets it reports.

The id is the port on which this dynamo listens: it stays the same from the dynamo's start to its end, and differs from
that of any other dynamo at the address. A test is lent only to the dynamo that a person accepted, so two machines that
log in under one name are never mistaken for each other.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any, NamedTuple

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from agents.dynamo.messages import ManagerInfo, Target
from agents.dynamo.wire import DynamoError
from benchlab.dynamo import host_facts as facts
from benchlab.dynamo.models import DynamoLogin, Reported
from benchlab.hosts import registration
from benchlab.hosts.models import Host, HostsError
from benchlab.team.models import Team
from benchlab.topologies.models import Topology

# Seconds in which a dynamo that was reset logs in again; until then nobody else gets its place
REJOIN_S = 15.0
# Seconds in which the end of its last session is stored
HANDOVER_S = 5.0


class Refused(Exception):
    """Nothing was changed; the text says why, and the cure."""


class Claim(NamedTuple):
    """Name and addresses of a dynamo: the address it came from, and the name and address it reports."""

    peer: str
    name: str
    address: str


class Entry(Enum):
    """Kinds of logins. A dynamo logs in again only after a reset: when it loses its connection, it ends."""

    NEW = "new"
    AGAIN = "again"


@dataclass(slots=True)
class _Holder:
    port: int
    connected: bool
    until: float


class Claims:
    """Claims of the dynamos that are connected, or about to log in again. Safe to use from several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._holders: dict[Claim, _Holder] = {}

    def acquire_claim(self, claim: Claim, port: int) -> Entry | None:
        """Return None while another dynamo has this claim. Wait a moment for the same dynamo's last session to end."""
        deadline = self._clock() + HANDOVER_S
        entry = Entry.NEW
        with self._changed:
            while (holder := self._holders.get(claim)) and self._in_use(holder):
                if holder.port != port:
                    return None
                if not holder.connected:
                    entry = Entry.AGAIN
                    break
                if self._clock() >= deadline:
                    return None
                self._changed.wait(0.1)
            self._holders[claim] = _Holder(port, True, 0.0)
            return entry

    def release_claim(self, claim: Claim, seconds: float = 0.0) -> None:
        """Keep the claim reserved for the same dynamo for `seconds`."""
        with self._changed:
            if holder := self._holders.get(claim):
                holder.connected, holder.until = False, self._clock() + seconds
            expired = [key for key, row in self._holders.items() if not self._in_use(row)]
            for key in expired:
                del self._holders[key]
            self._changed.notify_all()

    def _in_use(self, holder: _Holder) -> bool:
        return holder.connected or self._clock() < holder.until


def is_accepted(host: Host) -> bool:
    """Return true if the dynamo that logged in last as this host is the one that a person accepted."""
    row = DynamoLogin.objects.filter(host=host).first()
    return row is not None and row.is_accepted


@transaction.atomic
def accept_dynamo(
    host: Host,
    user: AbstractBaseUser | AnonymousUser,
    port: int,
    same_machine: bool,
) -> None:
    """Let tests be lent to the dynamo with this id. Raises Refused if another one has logged in meanwhile.

    `same_machine`: a person vouches that only dynamo was started again. Otherwise spare marks are removed and known
    sizes of test files are forgotten, for another machine may have other disks under the same names.
    """
    changed = DynamoLogin.objects.filter(host=host, port=port).update(
        accepted_port=port, accepted_by=user.pk, accepted_at=timezone.now(), refusal=""
    )
    if not changed:
        raise Refused(
            f"Nothing was changed: no dynamo with id {port} logged in last as {host}. "
            "Look at its page again, then accept it."
        )
    if not same_machine:
        host.reported.update(prepared=0, spare_by=None, spare_at=None)
        facts.store_snapshot(host)


def note_refusal(claim: Claim, port: int, team_id: int) -> str:
    """Show on the host's page that a second dynamo claimed it. Return the message."""
    message = (
        f"a second dynamo logged in as {claim.name!r} from {claim.peer} (id {port}) while the first was connected; "
        "it was refused. Start it again with another name (-n)"
    )
    DynamoLogin.objects.filter(
        host__team=team_id, host__address=claim.peer, name=claim.name, address=claim.address
    ).update(refusal=message, refused_at=timezone.now())
    return message


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


def mark_spare(row: Reported, user: AbstractBaseUser | AnonymousUser, typed: str) -> None:
    """A whole disk is given away with all that is on it. `typed` is its name, letter by letter. Raises Refused."""
    if not row.raw:
        raise Refused(
            f"{row} is a file system: dynamo uses a file of its own there, so it needs no spare mark."
        )
    if not row.present:
        raise Refused(f"{row} is not reported any more: another disk may have its name by now.")
    if typed.strip() != row.name:
        raise Refused(f"Nothing was changed: type {row.name} to mark that disk spare.")
    Reported.objects.filter(pk=row.pk).update(spare_by=user.pk, spare_at=timezone.now())
    facts.store_snapshot(row.host)


def unmark_spare(row: Reported) -> None:
    """Nothing is written to it from now on."""
    Reported.objects.filter(pk=row.pk).update(spare_by=None, spare_at=None)
    facts.store_snapshot(row.host)


def create_topology(row: Reported) -> tuple[Topology, bool]:
    """One of this target alone, to be chosen in a campaign; and whether it is new."""
    stack = [{"kind": "reported", "options": {"target": row.name}, "devices": []}]
    existing = Topology.objects.filter(team=row.host.team, stack=stack, stages=[]).first()
    if existing is not None:
        existing.offer()
        return existing, False
    for number in itertools.count(1):
        name = f"{row.name[:60]} as dynamo reports it" + (f" ({number})" if number > 1 else "")
        # another target's, or one that somebody changed, has the name already
        with contextlib.suppress(IntegrityError), transaction.atomic():
            return Topology.objects.create(team=row.host.team, name=name, stack=stack), True
    raise AssertionError("numbers do not end")
