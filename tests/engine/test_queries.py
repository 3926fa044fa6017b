"""How many queries a step makes, phase by phase, on a real host: a crowd of hosts is served by few processes.

Six at most, and the lease's two; once in ten seconds one that says that the host answered. The first run on a layout
also reads its plan, which is large, and notes what the host looked like. A step that builds has commands to keep, and
one that meets a machine with other disks than before (a neighbour's test makes and drops loop devices) asks once more
which of them are spare.
"""

from __future__ import annotations

import math
from collections import defaultdict

import pytest
from django.db import connection

from benchlab.engine import tasks
from benchlab.runs.models import Attempt, Layout
from tests.runs import drive
from tests.runs.conftest import campaign, host, make_layout  # noqa: F401
from tests.runs.test_engine_local import here, make_campaign, server  # noqa: F401

pytestmark = pytest.mark.django_db(transaction=True)
SMALL = 6
MOST = {
    "waiting": 5,
    "running": 4,
    "over": SMALL,
    "queued": SMALL,
    "collecting": SMALL,
    "empty": SMALL,
}
SEEN = 'UPDATE "runs_layout" SET "seen_at" = %s WHERE'
SPARE = 'SELECT "hosts_device"'
FIRST = {"queued": 2}  # more, of the first run
WORK = {"block_size": 4096, "count": 800, "oflag": ["dsync"]}


class Counted:
    def __init__(self) -> None:
        self.said: list[str] = []

    def __call__(self, execute, sql, params, many, context):
        self.said.append(sql)
        return execute(sql, params, many, context)


def where(layout: Layout) -> str:
    on_host = layout.attempts.exclude(phase__in=["queued", "done"]).first()
    if layout.phase != "ready":
        return layout.phase
    queued = layout.attempts.filter(phase="queued").exists()
    return on_host.phase if on_host else "queued" if queued else "empty"


def test_steps_that_only_look_make_few(make_campaign, settings):  # noqa: F811
    settings.BENCHLAB_POLL_S = 0.3
    made = make_campaign(options=WORK, repeats=3)
    drive.plan_and_start(made)
    layout = made.layouts.get()
    counts: dict[str, list[list[str]]] = defaultdict(list)
    while layout.phase != "done":
        phase, counted = where(layout), Counted()
        with connection.execute_wrapper(counted):
            tasks._once(
                layout.pk, until=math.inf
            )  # as the step does that goes on with what follows
        if phase == "running" and any('INTO "runs_artifact"' in said for said in counted.said):
            phase = "over"
        counts[phase].append(counted.said)
        layout.refresh_from_db()
    assert not Attempt.objects.exclude(outcome="succeeded").exists()
    for phase, most in MOST.items():
        for number, said in enumerate(counts[phase]):
            more = 0 if number else FIRST.get(phase, 0)
            said = [one for one in said if not one.startswith((SEEN, SPARE))]
            assert len(said) <= most + more, (phase, "\n".join(said))


def test_a_layout_that_waits_for_its_host_makes_few(make_layout):  # noqa: F811
    make_layout(phase="ready")
    waits = make_layout(phase="waiting")
    counted = Counted()
    with connection.execute_wrapper(counted):
        tasks.step(waits.pk)
    assert len(counted.said) <= SMALL + 2, "\n".join(counted.said)  # and a savepoint
