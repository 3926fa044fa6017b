# SPDX-License-Identifier: Apache-2.0
"""Moving a layout or an attempt: a compare-and-set and an append-only Transition, or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Case, Value, When
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
from benchlab.runs.verdict import Verdict
from benchlab.workers.process_counters import counters

SEEN_INTERVAL = timedelta(seconds=10)
# Attribute for fields of a row that wait for its next update.
PENDING = "_noted_later"
# Attribute that is True if that update notifies the campaign's pages.
NOTIFY_LATER = "_told_later"
# When a layout came to a phase: how long building and taking down took.
PHASE_TIMES = {
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


def move_layout(
    row: Layout,
    to: LayoutPhase,
    why: str = "",
    *,
    first: Callable[[], None] | None = None,
    also: Callable[[], None] | None = None,
    **fields: Any,
) -> None:
    """Move `row` to phase `to`. Raises Moved, HostBusy, or ValueError for a move that is not legal.

    `first` is done in the same transaction, before it, and `also` behind it; what they raise undoes all.
    """
    old = row.phase
    fields = {**_pending_fields(row), **fields}
    # A move notifies the pages anyway.
    row.__dict__.pop(NOTIFY_LATER, None)
    if to not in LAYOUT_MOVES[old]:
        raise ValueError(f"layout {row.pk}: {old} cannot become {to}")
    if to in PHASE_TIMES:
        fields.setdefault(PHASE_TIMES[to], timezone.now())
    # The IntegrityError of the host lock is caught outside the atomic block: inside, PostgreSQL has given up on it.
    try:
        with transaction.atomic():
            if first is not None:
                first()
            if not Layout.objects.filter(pk=row.pk, phase=old).update(phase=to, **fields):
                raise Moved
            Transition.objects.create(layout=row, old=old, new=to, reason=why)
            if also is not None:
                also()
            events.notify_pages(row.campaign_id)
    except IntegrityError as error:
        if "layout_holds_" in str(error):
            raise HostBusy from None
        raise
    _set_fields(row, phase=to, **fields)


def claim_machine(row: Layout, machine: str) -> bool:
    """Hold a machine, by its boot id, whatever its hosts are called. False: it was held already, or is not known.

    Raises MachineBusy.
    """
    if not machine or row.machine == machine:
        return False
    try:
        with transaction.atomic():
            store_fields(row, machine=machine)
    except IntegrityError:
        row.refresh_from_db(fields=["machine"])
        raise MachineBusy(_busy_text(row, machine)) from None
    return True


def _busy_text(row: Layout, machine: str) -> str:
    held = Layout.objects.filter(machine=machine, phase__in=HOLDING).exclude(pk=row.pk)
    other = held.select_related("host", "campaign").first()
    if other is None or other.campaign.team_id != row.campaign.team_id:
        return f"{row.host} is in use by another team: {row.name} waits until that is over."
    return (
        f"{row.host} and {other.host} are the same machine, on which {other.name} is at work: "
        f"{row.name} waits until that is over."
    )


def move_attempt(
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
    # who wraps more around it takes all or nothing
    with transaction.atomic(savepoint=False):
        if not Attempt.objects.filter(pk=row.pk, phase=old).update(phase=to, **fields):
            raise Moved
        Transition.objects.create(layout_id=row.layout_id, attempt=row, old=old, new=to, reason=why)
        if also is not None:
            also()
        events.notify_pages(row.layout.campaign_id)
        if to == AttemptPhase.DONE:
            _count_ended({(str(fields.get("outcome", "")), str(fields.get("reason", ""))): 1})
    _set_fields(row, phase=to, **fields)


def end_queued_attempts(verdicts: Mapping[Attempt, Verdict]) -> None:
    """End queued attempts of one layout, each with its verdict, however many they are: all or none.

    Raises Moved where one does not wait any more.
    """
    if not verdicts:
        return
    ended_at, alike = timezone.now(), dict[Verdict, list[int]]()
    for row, verdict in verdicts.items():
        alike.setdefault(verdict, []).append(row.pk)

    def each(value: Callable[[Verdict], str]) -> Case:
        return Case(
            *(When(pk__in=pks, then=Value(value(verdict))) for verdict, pks in alike.items())
        )

    # As in `move_attempt`, a caller's transaction takes all or nothing.
    with transaction.atomic(savepoint=False):
        waiting = Attempt.objects.filter(
            pk__in=[row.pk for row in verdicts], phase=AttemptPhase.QUEUED
        )
        moved = waiting.update(
            phase=AttemptPhase.DONE,
            ended_at=ended_at,
            outcome=each(lambda item: str(item.outcome)),
            reason=each(lambda item: str(item.reason)),
            reason_text=each(lambda item: item.text),
        )
        if moved != len(verdicts):
            raise Moved
        Transition.objects.bulk_create(
            Transition(
                layout_id=row.layout_id,
                attempt=row,
                old=AttemptPhase.QUEUED,
                new=AttemptPhase.DONE,
                reason=verdict.text,
            )
            for row, verdict in verdicts.items()
        )
        events.notify_pages(next(iter(verdicts)).layout.campaign_id)
        _count_ended(Counter((str(item.outcome), str(item.reason)) for item in verdicts.values()))
    for row, verdict in verdicts.items():
        _set_fields(
            row,
            phase=AttemptPhase.DONE,
            ended_at=ended_at,
            outcome=verdict.outcome,
            reason=verdict.reason,
            reason_text=verdict.text,
        )


def _count_ended(ended: Mapping[tuple[str, str], int]) -> None:
    """Count attempts that ended, by outcome and reason, once that is stored."""

    def add() -> None:
        for (outcome, reason), number in ended.items():
            counters.add("attempts_ended_total", outcome, reason, by=number)

    transaction.on_commit(add)


def begin_teardown(
    row: Layout,
    outcome: Outcome,
    reason: str = "",
    text: str = "",
    *,
    first: Callable[[], None] | None = None,
) -> None:
    """Begin the teardown: the runs are over or cannot be made. `first`: as in `move_layout`."""
    why = text or "all runs are over"
    move_layout(
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


def store_fields(row: Layout, *, notify: bool = False, **fields: Any) -> None:
    """Store fields that are no move: when the host answered, what troubles it.

    `notify`: the campaign's pages look again.
    """
    notify = row.__dict__.pop(NOTIFY_LATER, False) or notify
    fields = {**_pending_fields(row), **fields}
    if fields:
        Layout.objects.filter(pk=row.pk).update(**fields)
    _set_fields(row, **fields)
    if notify:
        events.notify_pages(row.campaign_id)


def store_later(row: Layout, *, notify: bool = False, **fields: Any) -> None:
    """Set fields that are stored with the row's next update, at the step's end at the latest.

    `notify`: as in `store_fields`, at that time.
    """
    _set_fields(row, **fields)
    row.__dict__.setdefault(PENDING, {}).update(fields)
    if notify:
        row.__dict__[NOTIFY_LATER] = True


def note_response(row: Layout) -> None:
    """Note that the host answered.

    The stored time may be a little older: hosts are given up after minutes of silence.
    """
    now = timezone.now()
    if row.seen_at is None or now - row.seen_at >= SEEN_INTERVAL:
        store_later(row, seen_at=now)


def _pending_fields(row: Layout) -> dict[str, Any]:
    fields: dict[str, Any] = row.__dict__.pop(PENDING, {})
    return fields


def _set_fields(row: Layout | Attempt, **fields: Any) -> None:
    for name, value in fields.items():
        setattr(row, name, value)
