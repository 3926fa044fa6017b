# SPDX-License-Identifier: Apache-2.0
"""Acts that carry out decisions without a host; those that need one are in the room of its access (access/)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from django.utils.timezone import now

from benchlab.engine.decide import built
from benchlab.engine.decisions import (
    Drop,
    Move,
    Nothing,
    Skip,
    Stick,
    Take,
    TryAgain,
    Wait,
)
from benchlab.engine.phases import ending
from benchlab.engine.rows import Rows
from benchlab.engine.wishes import drop as drop_layout
from benchlab.runs import moves
from benchlab.runs.models import Layout
from benchlab.runs.states import AttemptPhase, LayoutPhase, Outcome

# Does one thing, and says in how many seconds to look again; None: there is nothing left to do.
Act = Callable[[Rows, Any], float | None]
Acts = Mapping[type, Act]


def nothing(rows: Rows, decided: Nothing) -> None:
    return None


def wait(rows: Rows, decided: Wait) -> float:
    if decided.note is not None:
        moves.later(rows.layout, trouble=decided.note)
    return decided.seconds


def take(rows: Rows, decided: Take) -> float:
    try:
        moves.layout(rows.layout, LayoutPhase.PROVISIONING, "the host is free", seen_at=now())
    except moves.HostBusy:
        return built.BUSY_S
    return 0.0


def drop(rows: Rows, decided: Drop) -> None:
    drop_layout(rows.layout, decided.outcome, decided.text, decided.reason)


def move(rows: Rows, decided: Move) -> float:
    """Raises Moved where it did its work, and got more of it since that was decided (engine/added_repeats.py)."""
    checked = partial(_still_through, rows.layout)
    moves.begin_teardown(
        rows.layout,
        decided.outcome,
        decided.reason,
        decided.text,
        first=checked if decided.outcome == Outcome.SUCCEEDED else None,
    )
    return 0.0


def _still_through(layout: Layout) -> None:
    """From here on nothing can be queued on it. Raises Moved where something was."""
    # Ordered by its campaign, as it is by itself, a row of that would be locked too: every step of it waits there.
    Layout.objects.select_for_update(of=("self",)).order_by("pk").values_list("pk").get(
        pk=layout.pk
    )
    if layout.attempts.filter(phase=AttemptPhase.QUEUED).exists():
        raise moves.Moved


def skip(rows: Rows, decided: Skip) -> float:
    assert rows.attempt is not None
    ending.skip(rows.layout, rows.attempt.run.stage)
    return 0.0


def try_again(rows: Rows, decided: TryAgain) -> float:
    tries = rows.layout.teardown_tries + 1
    moves.later(rows.layout, teardown_tries=tries, trouble=decided.text)
    return decided.seconds


def stick(rows: Rows, decided: Stick) -> None:
    moves.layout(rows.layout, LayoutPhase.STUCK, decided.text, trouble=decided.text)


COMMON: Acts = {
    Nothing: nothing,
    Wait: wait,
    Take: take,
    Drop: drop,
    Move: move,
    Skip: skip,
    TryAgain: try_again,
    Stick: stick,
}
