# SPDX-License-Identifier: Apache-2.0
"""Access to hosts, by the value of Host.access: a module here, or `access` of the room that knows the tool.

Actions that carry out decisions without a host are here too.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from typing import Any, Protocol, cast

from django.utils.timezone import now

from benchlab import app_modules
from benchlab.engine.commands import discard_layout as drop_layout
from benchlab.engine.decide import Rules, built
from benchlab.engine.decisions import (
    AcquireHost,
    BeginTeardown,
    Discard,
    MarkStuck,
    Nothing,
    RetryTeardown,
    SkipRun,
    Wait,
)
from benchlab.engine.phases import end_attempts
from benchlab.engine.polls import StepRows
from benchlab.runs import transitions
from benchlab.runs.models import Layout
from benchlab.runs.states import AttemptPhase, LayoutPhase, Outcome


class Access(Protocol):
    """Access to a host. `KIND`: the value of Host.access. Its rules decide by phase; its acts do what they decide."""

    KIND: str
    RULES: Rules
    ACTIONS: Actions


@cache
def all_accesses() -> dict[str, Access]:
    """All accesses by their KIND."""
    own = [import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    accesses = [cast(Access, module) for module in (*own, *app_modules.modules_named("access"))]
    return {access.KIND: access for access in accesses}


# An act does one thing and returns the seconds until the next look; None if there is nothing left to do.
Action = Callable[[StepRows, Any], float | None]
Actions = Mapping[type, Action]


def do_nothing(rows: StepRows, decided: Nothing) -> None:
    return None


def wait_for_next_step(rows: StepRows, decided: Wait) -> float:
    if decided.note is not None:
        transitions.store_later(rows.layout, trouble=decided.note)
    return decided.seconds


def acquire_host(rows: StepRows, decided: AcquireHost) -> float:
    try:
        transitions.move_layout(
            rows.layout, LayoutPhase.PROVISIONING, "the host is free", seen_at=now()
        )
    except transitions.HostBusy:
        return built.BUSY_S
    return 0.0


def discard(rows: StepRows, decided: Discard) -> None:
    drop_layout(rows.layout, decided.outcome, decided.text, decided.reason)


def begin_teardown(rows: StepRows, decided: BeginTeardown) -> float:
    """Begin the teardown. Raises Moved if the layout got more runs since that was decided (engine/added_repeats.py)."""
    checked = partial(_check_no_queued_runs, rows.layout)
    transitions.begin_teardown(
        rows.layout,
        decided.outcome,
        decided.reason,
        decided.text,
        first=checked if decided.outcome == Outcome.SUCCEEDED else None,
    )
    return 0.0


def _check_no_queued_runs(layout: Layout) -> None:
    """Lock the layout, so that nothing can be queued on it. Raises Moved if a run is queued already."""
    # The default order joins the campaign, whose row would be locked too; every step of the campaign waits for it.
    Layout.objects.select_for_update(of=("self",)).order_by("pk").values_list("pk").get(
        pk=layout.pk
    )
    if layout.attempts.filter(phase=AttemptPhase.QUEUED).exists():
        raise transitions.Moved


def skip_run(rows: StepRows, decided: SkipRun) -> float:
    assert rows.attempt is not None
    end_attempts.skip_moment(rows.layout, rows.attempt.run.stage)
    return 0.0


def retry_teardown(rows: StepRows, decided: RetryTeardown) -> float:
    tries = rows.layout.teardown_tries + 1
    transitions.store_later(rows.layout, teardown_tries=tries, trouble=decided.text)
    return decided.seconds


def mark_stuck(rows: StepRows, decided: MarkStuck) -> None:
    transitions.move_layout(rows.layout, LayoutPhase.STUCK, decided.text, trouble=decided.text)


COMMON: Actions = {
    Nothing: do_nothing,
    Wait: wait_for_next_step,
    AcquireHost: acquire_host,
    Discard: discard,
    BeginTeardown: begin_teardown,
    SkipRun: skip_run,
    RetryTeardown: retry_teardown,
    MarkStuck: mark_stuck,
}
