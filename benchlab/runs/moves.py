"""Moving a layout or an attempt: a compare-and-set and an append-only Transition, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from benchlab.runs import events
from benchlab.runs.models import Attempt, Layout, Transition
from benchlab.runs.states import (
    ATTEMPT_MOVES,
    HOLDING,
    LAYOUT_MOVES,
    AttemptPhase,
    LayoutPhase,
    Outcome,
)

SEEN_AGAIN = timedelta(seconds=10)
LATER = "_noted_later"  # fields of a row that wait for its next update
# When a layout came to a phase: how long building and taking down took.
STAMPS = {
    LayoutPhase.PROVISIONING: "begun_at",
    LayoutPhase.READY: "ready_at",
    LayoutPhase.TEARING_DOWN: "down_at",
    LayoutPhase.DONE: "ended_at",
}


class Moved(Exception):
    """Somebody else moved it first; whoever raised this has nothing left to do."""


class HostBusy(Exception):
    """Another layout holds the host, or its machine (the partial unique constraints said so)."""


class MachineBusy(Exception):
    """A layout of another host holds this very machine; the text names it, unless it is another team's."""


def layout(
    row: Layout,
    to: LayoutPhase,
    why: str = "",
    *,
    first: Callable[[], None] | None = None,
    **fields: Any,
) -> None:
    """Move `row` to phase `to`. Raises Moved, HostBusy, or ValueError for a move that is not legal.

    `first` is done in the same transaction, before it; what it raises undoes all.
    """
    old = row.phase
    fields = {**_later(row), **fields}
    if to not in LAYOUT_MOVES[old]:
        raise ValueError(f"layout {row.pk}: {old} cannot become {to}")
    if to in STAMPS:
        fields.setdefault(STAMPS[to], timezone.now())
    # The IntegrityError of the host lock is caught outside the atomic block: inside, PostgreSQL has given up on it.
    try:
        with transaction.atomic():
            if first is not None:
                first()
            if not Layout.objects.filter(pk=row.pk, phase=old).update(phase=to, **fields):
                raise Moved
            Transition.objects.create(layout=row, old=old, new=to, reason=why)
            events.changed(row.campaign_id)
    except IntegrityError as error:
        if "layout_holds_" in str(error):
            raise HostBusy from None
        raise
    _apply(row, phase=to, **fields)


def claim(row: Layout, machine: str) -> bool:
    """Hold a machine, by its boot id, whatever its hosts are called. False: it was held already, or is not known.

    Raises MachineBusy.
    """
    if not machine or row.machine == machine:
        return False
    try:
        with transaction.atomic():
            note(row, machine=machine)
    except IntegrityError:
        row.refresh_from_db(fields=["machine"])
        raise MachineBusy(_busy(row, machine)) from None
    return True


def _busy(row: Layout, machine: str) -> str:
    held = Layout.objects.filter(machine=machine, phase__in=HOLDING).exclude(pk=row.pk)
    other = held.select_related("host", "campaign").first()
    if other is None or other.campaign.team_id != row.campaign.team_id:
        return f"{row.host} is a machine on which another team is at work: {row.name} waits until that is over."
    return (
        f"{row.host} and {other.host} are the same machine, on which {other.name} is at work: "
        f"{row.name} waits until that is over."
    )


def attempt(
    row: Attempt,
    to: AttemptPhase,
    why: str = "",
    also: Callable[[], None] | None = None,
    **fields: Any,
) -> None:
    """Move `row` to phase `to`. Raises Moved, or ValueError for a move that is not legal.

    `also` stores what belongs to the move: both are done, or neither.
    """
    old = row.phase
    if to not in ATTEMPT_MOVES[old]:
        raise ValueError(f"attempt {row.pk}: {old} cannot become {to}")
    if to == AttemptPhase.DONE:
        fields.setdefault("ended_at", timezone.now())
    with transaction.atomic(savepoint=False):  # who wraps more around it takes all or nothing
        if not Attempt.objects.filter(pk=row.pk, phase=old).update(phase=to, **fields):
            raise Moved
        Transition.objects.create(layout_id=row.layout_id, attempt=row, old=old, new=to, reason=why)
        if also is not None:
            also()
        events.changed(row.layout.campaign_id)
    _apply(row, phase=to, **fields)


def begin_teardown(
    row: Layout,
    outcome: Outcome,
    reason: str = "",
    text: str = "",
    *,
    first: Callable[[], None] | None = None,
) -> None:
    """The runs are over (or cannot be): from here on only the way down is left. `first`: as of `layout`."""
    why = text or "all runs are over"
    layout(
        row,
        LayoutPhase.TEARING_DOWN,
        why,
        first=first,
        outcome=outcome,
        reason=reason,
        reason_text=text,
        seen_at=timezone.now(),
        teardown_tries=0,
        needs_person="",
        person_said_at=None,
        person_trouble="",
    )


def note(row: Layout, **fields: Any) -> None:
    """Fields that are no move: when the host answered, what troubles it."""
    fields = {**_later(row), **fields}
    if fields:
        Layout.objects.filter(pk=row.pk).update(**fields)
    _apply(row, **fields)


def later(row: Layout, **fields: Any) -> None:
    """Fields that are stored with what is noted next, at the step's end at the latest."""
    _apply(row, **fields)
    row.__dict__.setdefault(LATER, {}).update(fields)


def seen(row: Layout) -> None:
    """The host answered. What is stored may be a little older: hosts are given up after minutes of silence."""
    now = timezone.now()
    if row.seen_at is None or now - row.seen_at >= SEEN_AGAIN:
        later(row, seen_at=now)


def _later(row: Layout) -> dict[str, Any]:
    found: dict[str, Any] = row.__dict__.pop(LATER, {})
    return found


def _apply(row: Layout | Attempt, **fields: Any) -> None:
    for name, value in fields.items():
        setattr(row, name, value)
