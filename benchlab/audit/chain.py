"""The chain: how an entry is added, and how a broken one is found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from benchlab.audit.models import Entry

LOCK = 0x62656E6368  # one writer at a time, or two entries would follow the same one
FIELDS = (
    "actor_id",
    "actor",
    "via",
    "address",
    "team_id",
    "action",
    "subject",
    "outcome",
    "details",
)
MOST = {"actor": 200, "via": 100, "address": 64, "action": 100, "subject": 500}


@dataclass(frozen=True, slots=True)
class Checked:
    """`broken`: the first entry that is not what was written, and why; "" when all are."""

    entries: int
    head: str  # the last digest: note it elsewhere, and a log that was cut short shows too
    broken: str


@transaction.atomic
def record(
    action: str,
    *,
    actor_id: int | None = None,
    actor: str = "",
    via: str = "engine",
    address: str = "",
    team_id: int | None = None,
    subject: str = "",
    outcome: str = "done",
    details: Mapping[str, Any] | None = None,
) -> Entry:
    """Add an entry. It is part of the caller's transaction: what was rolled back was not done."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
    last = Entry.objects.order_by("-pk").values_list("digest", flat=True).first() or ""
    made = Entry(
        at=timezone.now(), actor_id=actor_id, actor=actor, via=via, address=address, team_id=team_id,
        action=action, subject=subject, outcome=outcome, details=dict(details or {}), previous=last,
    )  # fmt: skip
    for name, most in MOST.items():
        setattr(made, name, _plain(getattr(made, name))[:most])
    made.digest = digest(made)
    made.save()
    return made


def _plain(text: str) -> str:
    """As the database takes it and a terminal may print it: no control characters."""
    return "".join(c if c.isprintable() else " " for c in text)


def digest(entry: Entry) -> str:
    told = {name: getattr(entry, name) for name in FIELDS}
    told |= {"at": entry.at.isoformat(), "previous": entry.previous}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def check() -> Checked:
    """Read the whole log, oldest first, and compute every seal anew."""
    previous, count = "", 0
    for entry in Entry.objects.order_by("pk").iterator(chunk_size=1000):
        count += 1
        if entry.previous != previous:
            return Checked(
                count,
                previous,
                f"entry {entry.pk} does not follow the one before it: one is missing",
            )
        if digest(entry) != entry.digest:
            return Checked(count, previous, f"entry {entry.pk} was changed: {entry}")
        previous = entry.digest
    return Checked(count, previous, "")
