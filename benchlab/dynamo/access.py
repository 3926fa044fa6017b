"""A host that only dynamo reaches: nothing is built there, and a process that listens plays (dynamo/session.py).

The engine only says which attempt is next, sees that somebody plays it, and reads what was stored.
"""

from __future__ import annotations

from benchlab.dynamo import listened_layouts
from benchlab.engine import act
from benchlab.engine.decide import built, dialled_in
from benchlab.engine.decide.dialled_in import LOOK_S
from benchlab.engine.decisions import (
    Build,
    Collect,
    Poll,
    Replay,
    Start,
    Stop,
    TakeDown,
    Watch,
)
from benchlab.engine.phases import ending
from benchlab.engine.rows import Rows
from benchlab.hosts.models import Host
from benchlab.runs import moves
from benchlab.runs.states import AttemptPhase, LayoutPhase

KIND = Host.Access.DYNAMO.value
RULES = {
    LayoutPhase.WAITING: built.waiting,
    LayoutPhase.PROVISIONING: dialled_in.provisioning,
    LayoutPhase.READY: dialled_in.ready,
    LayoutPhase.TEARING_DOWN: dialled_in.tearing_down,
}


def build(rows: Rows, decided: Build) -> float:
    listened_layouts.build(rows.layout)
    return 0.0


def stop(rows: Rows, decided: Stop) -> float:
    """End the layout's attempts as cancelled: the process that plays sees it, and brings dynamo to rest."""
    ending.cancelled(rows.layout)
    return 0.0


def start(rows: Rows, decided: Start) -> float:
    """Offer it; one that was offered waits to be taken."""
    assert rows.attempt is not None
    listened_layouts.offer(rows.layout, rows.attempt)
    return LOOK_S if rows.attempt.phase == AttemptPhase.STARTING else 0.0


def watch(rows: Rows, decided: Watch) -> float:
    return decided.seconds


def poll(rows: Rows, decided: Poll) -> float:
    moves.seen(rows.layout)
    return LOOK_S


def replay(rows: Rows, decided: Replay) -> float:
    assert rows.attempt is not None
    listened_layouts.replay(rows.attempt)
    return 0.0


def collect(rows: Rows, decided: Collect) -> float:
    assert rows.attempt is not None
    listened_layouts.collect_from(rows.attempt)
    return 0.0


def take_down(rows: Rows, decided: TakeDown) -> float | None:
    return None if listened_layouts.take_down(rows.layout) else LOOK_S


ACTS: act.Acts = {
    **act.COMMON,
    Build: build,
    Stop: stop,
    Start: start,
    Watch: watch,
    Poll: poll,
    Replay: replay,
    Collect: collect,
    TakeDown: take_down,
}
