"""One idempotent step of one layout: load the scene, decide, act; then the database says when to look again.

A step is short, so a killed worker loses nothing but time: the next one reads the phase from the database, the truth
from the host, and goes on from there.
"""

from __future__ import annotations

import logging
import time
import traceback
from datetime import timedelta

from django.db import InterfaceError, OperationalError
from django.utils import timezone

from agents.contracts import AgentError
from benchlab.engine import access, load
from benchlab.engine.act import act
from benchlab.engine.decide import failed
from benchlab.engine.decisions import Decision, Nothing, Wait
from benchlab.engine.load import Rows
from benchlab.engine.waits import waits
from benchlab.engine.wishes import nudge
from benchlab.hosts import services as hosts
from benchlab.runs import moves
from benchlab.workers.lease import lease

log = logging.getLogger(__name__)

# A task goes on with what follows at once for this long, then lets others have the worker.
BUDGET_S = 8.0
BUSY_S = 15.0  # a look at a machine that another host's layout holds costs that one a reading


def step(layout_id: int) -> None:
    """Bring one layout forward as far as goes without waiting. Safe to call at any time, by anybody, twice."""
    with lease(layout_id) as held:
        if not held:
            return
        until = time.monotonic() + BUDGET_S
        more = _once(layout_id, until)
        while more and time.monotonic() < until:
            more = _once(layout_id, until)
    if more:
        nudge(layout_id)
    else:
        waits.follow(layout_id)


def _once(layout_id: int, until: float) -> bool:
    """Whether there is something to do at once; otherwise, or when the time is up, when to look again is stored."""
    rows = load.rows(layout_id)
    try:
        delay = _acted(rows)
    except moves.Moved:
        return True
    goes_on = delay == 0.0 and time.monotonic() < until
    if delay is None or goes_on:
        moves.note(rows.layout)
    else:
        then = timezone.now() + timedelta(seconds=delay)
        moves.note(rows.layout, next_step_at=then)
    return delay == 0.0


def _acted(rows: Rows) -> float | None:
    layout = rows.layout
    way = access.all_accesses().get(layout.host.access)
    decide = way.RULES.get(layout.phase) if way else None
    if way is None or decide is None:
        return None
    decided: Decision = Nothing()
    scene = load.scene(rows)
    try:
        scene = load.heard(scene, rows)
        decided = decide(scene)
        delay = act(way.ACTS, decided, rows)
    except (moves.Moved, OperationalError, InterfaceError):
        # The database's trouble (a deadlock, a full disk, a restart) says nothing of the layout, whose job goes on:
        # the sweeper comes again.
        raise
    except moves.MachineBusy as error:
        return act(way.ACTS, Wait(BUSY_S, str(error)), rows)
    except AgentError as error:
        hosts.record_trouble(layout.host, error)
        after, host = load.again(scene, rows), str(layout.host)
        return act(way.ACTS, failed.refused(after, host, error.reason, str(error), decided), rows)
    except Exception as error:
        log.exception("layout %s in %s", layout.pk, layout.phase)
        text = "".join(traceback.format_exception_only(error)).strip()
        return act(way.ACTS, failed.broke(load.again(scene, rows), text), rows)
    if layout.trouble:
        moves.later(layout, trouble="")
    return delay
