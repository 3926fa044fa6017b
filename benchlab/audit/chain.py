# SPDX-License-Identifier: Apache-2.0
"""The chain of entries: how one is added, and how a break is detected."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from agents.plaintext import visible
from benchlab.audit import heads
from benchlab.audit.heads import HeadContent
from benchlab.audit.models import Entry, Head

# one writer at a time, or two entries would follow the same one
LOCK = 0x62656E6368
SEALED_FIELDS = (
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
# as people read an entry
ENTRY_FIELDS = ("id", "at", *SEALED_FIELDS, "previous", "digest")
MAX_CHARS = {"actor": 200, "via": 100, "address": 64, "action": 100, "subject": 500}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """`broken`: the first entry that is not what was written, and why; "" when all are."""

    entries: int
    # digest of the last entry
    head: str
    broken: str


@transaction.atomic(savepoint=False)
def add_entry(
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
    """Add an entry in the caller's transaction: an action that was rolled back was not done."""
    _lock_log()
    head = Head.objects.filter(pk=Head.ONLY).first() or Head(pk=Head.ONLY)
    entry = Entry(
        at=timezone.now(),
        actor_id=actor_id,
        actor=actor,
        via=via,
        address=address,
        team_id=team_id,
        action=action,
        subject=subject,
        outcome=outcome,
        details=_storable(dict(details or {})),
        previous=head.digest,
    )
    for name, most in MAX_CHARS.items():
        setattr(entry, name, _printable(getattr(entry, name))[:most])
    entry.digest = entry_digest(entry)
    entry.save()
    _advance_head(head, entry)
    return entry


def _lock_log() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])


def _advance_head(head: Head, entry: Entry) -> None:
    """Move the head to the new entry.

    A head without a valid seal of ours stays unsealed: sealing it again would hide that somebody changed it.
    """
    sealed = heads.is_sealed(_head_content(head), head.seal)
    content = HeadContent(head.entries + 1, entry.pk, entry.digest)
    _store_head(content, heads.seal(content) if sealed else "")
    transaction.on_commit(lambda: heads.write_head_file(content), robust=True)


def _store_head(content: HeadContent, seal: str) -> None:
    """Store the head. The caller holds LOCK: nobody else makes or moves the head meanwhile."""
    fields = asdict(content) | {"seal": seal}
    if not Head.objects.filter(pk=Head.ONLY).update(**fields):
        Head.objects.create(pk=Head.ONLY, **fields)


def _head_content(head: Head) -> HeadContent:
    return HeadContent(head.entries, head.entry, head.digest)


def _printable(text: str) -> str:
    """Replace control characters by spaces, so that the database takes the text and a terminal may print it."""
    return "".join(c if c.isprintable() else " " for c in text)


def _storable(value: Any) -> Any:
    """Convert a value to JSON that PostgreSQL takes. Control characters and lone surrogates are escaped, not lost."""
    if isinstance(value, dict):
        return {_storable(key): _storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(item) for item in value]
    return visible(value, len(value)) if isinstance(value, str) else value


def entry_digest(entry: Entry) -> str:
    content = {name: getattr(entry, name) for name in SEALED_FIELDS}
    content |= {"at": entry.at.isoformat(), "previous": entry.previous}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def check_log() -> CheckResult:
    """Read the whole log, oldest first, compute every digest anew, and compare its end with the stored heads."""
    head, last = _head_and_last_id()
    previous, count = "", 0
    for entry in Entry.objects.filter(pk__lte=last).order_by("pk").iterator(chunk_size=1000):
        count += 1
        if entry.previous != previous:
            return CheckResult(
                count,
                previous,
                f"entry {entry.pk} does not follow the one before it: one is missing",
            )
        if entry_digest(entry) != entry.digest:
            return CheckResult(count, previous, f"entry {entry.pk} was changed: {entry}")
        previous = entry.digest
    actual = HeadContent(count, last, previous)
    return CheckResult(count, previous, _head_mismatch(head, actual) or _file_mismatch())


@transaction.atomic
def _head_and_last_id() -> tuple[Head | None, int]:
    """The head and the id of the last entry, at one moment."""
    _lock_log()
    head = Head.objects.filter(pk=Head.ONLY).first()
    return head, Entry.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


def _head_mismatch(head: Head | None, actual: HeadContent) -> str:
    if head is None:
        return "its head is gone from the database: it is unknown whether entries are missing"
    expected = _head_content(head)
    if not heads.is_sealed(expected, head.seal):
        return (
            "its head is not sealed with a key in BENCHLAB_KEY: it was not written by this BenchLab"
        )
    if expected != actual:
        return (
            f"{expected.entries} entries were written, the last one was {expected.entry}; {actual.entries} are there, "
            f"the last one is {actual.entry or 'none'}: its end was truncated"
        )
    return ""


def _file_mismatch() -> str:
    try:
        content = heads.read_head_file()
    except heads.Unreadable as error:
        return str(error)
    if content is None or heads.is_in_log(content):
        return ""
    return (
        f"{heads.head_file()} has entry {content.entry}, which is missing or changed in the log: "
        "the log was truncated, or an older state of the database was restored"
    )


@transaction.atomic
def accept_end() -> None:
    """Accept the log's end as it is: a person has looked and knows why. This adds an entry itself."""
    broken = check_log().broken
    _lock_log()
    last = Entry.objects.order_by("-pk").first()
    content = HeadContent(Entry.objects.count(), last.pk, last.digest) if last else HeadContent()
    _store_head(content, heads.seal(content))
    transaction.on_commit(lambda: heads.write_head_file(content, anew=True), robust=True)
    add_entry("audit-accept", via="doctor", details={"was": broken})


@transaction.atomic
def renew_seal() -> None:
    """Renew the seal with the newest key of BENCHLAB_KEY, so that an older one can be thrown away."""
    _lock_log()
    head = Head.objects.filter(pk=Head.ONLY).first()
    if head and heads.is_sealed(_head_content(head), head.seal):
        _store_head(_head_content(head), heads.seal(_head_content(head)))
