# SPDX-License-Identifier: Apache-2.0
"""A host that we log in to: layers are built there, tools are started and polled."""

from __future__ import annotations

from agents.jobs import job
from agents.ssh.lasting_shell import lasting
from benchlab.engine import act, jobs
from benchlab.engine.checks import condition
from benchlab.engine.decide import BUILT
from benchlab.engine.decide.built import WAITS_S
from benchlab.engine.decisions import (
    Build,
    CheckOverdue,
    CheckPerson,
    Collect,
    End,
    Grow,
    HurryUp,
    Poll,
    Replay,
    Settle,
    Start,
    Stop,
    TakeBack,
    TakeDown,
    Watch,
)
from benchlab.engine.phases import ending, growing, manual_steps, provision, running, teardown
from benchlab.engine.rows import Rows
from benchlab.engine.waits import Question, waits
from benchlab.hosts import services as hosts
from benchlab.runs import conclusion
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.verdict import Verdict

KIND = "ssh"
RULES = BUILT
# beyond its time: then an answer counts as lost, and the sweeper has it asked anew
REPAIR_S = 15.0


def build(rows: Rows, decided: Build) -> float:
    return 0.0 if provision.build(rows.layout) else WAITS_S


def check_person(rows: Rows, decided: CheckPerson) -> float:
    return 0.0 if manual_steps.accepted(rows.layout, hosts.connect(rows.layout.host)) else WAITS_S


def take_back(rows: Rows, decided: TakeBack) -> float:
    provision.take_back(rows.layout)
    return 0.0


def watch(rows: Rows, decided: Watch) -> float:
    growing.watch(rows.layout)
    return decided.seconds


def grow(rows: Rows, decided: Grow) -> float:
    return growing.begin(rows.layout)


def settle(rows: Rows, decided: Settle) -> float:
    return growing.settle(rows.layout)


def start(rows: Rows, decided: Start) -> float:
    running.start(*_both(rows))
    return 0.0


def poll(rows: Rows, decided: Poll) -> float:
    """A coroutine asks; its end has this layout stepped."""
    layout, attempt = _both(rows)
    work = ending.work_of(layout, attempt)
    asked = Question(
        attempt_id=attempt.pk,
        spool=jobs.spool(attempt, work),
        wait_s=waits.patience_s(running.poll_s(attempt)) if decided.waits else 0.0,
        offset=running.sampled(attempt) if rows.offset is None else rows.offset,
        outputs=work.outputs if decided.fetches else None,
    )
    here = waits.ask(layout.pk, asked, hosts.unconnected(layout.host))
    return 0.0 if here else asked.wait_s + REPAIR_S


def check_overdue(rows: Rows, decided: CheckOverdue) -> float:
    layout, attempt = _both(rows)
    with lasting(hosts.connect(layout.host)) as quick:
        condition.overdue(layout, attempt, quick)
    return 0.0


def hurry_up(rows: Rows, decided: HurryUp) -> float:
    layout, attempt = _both(rows)
    work = ending.work_of(layout, attempt)
    job.stop_job(hosts.connect(layout.host), jobs.spool(attempt, work))
    return poll(rows, Poll())


def collect(rows: Rows, decided: Collect) -> float:
    layout, attempt = _both(rows)
    if rows.polled is not None:
        running.fetched(layout, attempt, rows.polled)
    else:
        running.collect_from(layout, attempt)
    return 0.0


def replay(rows: Rows, decided: Replay) -> float:
    running.replay(*_both(rows))
    return 0.0


def end(rows: Rows, decided: End) -> float:
    layout, attempt = _both(rows)
    if decided.stop:
        ending.stop(layout, attempt, hosts.connect(layout.host))
    conclusion.end(attempt, Verdict(decided.outcome, decided.reason, decided.text))
    return 0.0


def take_down(rows: Rows, decided: TakeDown) -> float | None:
    down = teardown.nothing_built if decided.nothing else teardown.take_down
    return None if down(rows.layout) else WAITS_S


def _both(rows: Rows) -> tuple[Layout, Attempt]:
    assert rows.attempt is not None, "what is started or polled is an attempt"
    return rows.layout, rows.attempt


ACTS: act.Acts = {
    **act.COMMON,
    Build: build,
    CheckPerson: check_person,
    TakeBack: take_back,
    Stop: ending.cancel,
    Watch: watch,
    Grow: grow,
    Settle: settle,
    Start: start,
    Poll: poll,
    CheckOverdue: check_overdue,
    HurryUp: hurry_up,
    Replay: replay,
    Collect: collect,
    End: end,
    TakeDown: take_down,
}
