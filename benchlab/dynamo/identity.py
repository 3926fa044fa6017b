# SPDX-License-Identifier: Apache-2.0
"""Identity of the dynamo behind a host: name, address and id of its login, whether it is accepted, and connected.

The id is the port on which this dynamo listens: it stays the same from the dynamo's start to its end, and differs from
that of any other dynamo at the address. A test is lent only to the dynamo that a person accepted, so two machines that
log in under one name are never mistaken for each other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import transaction
from django.utils import timezone

from benchlab.dynamo import host_facts as facts
from benchlab.dynamo.models import DynamoLogin
from benchlab.hosts.models import Host

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
