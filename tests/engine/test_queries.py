"""Queries of a step, phase by phase, on a real host: a crowd of hosts is served by few processes.

Six at most, and the lease's two; once in ten seconds one that says that the host answered. A process that did not build
the layout also reads its plan, which is large, and the facts it was built by, once. A step that builds or takes down
has commands and readings to keep: it makes seven an event (test_build_queries.py has more of those). One that meets a
machine with other disks than before (a neighbour's test makes and drops loop devices) asks once more which of them are
spare.
"""

from __future__ import annotations

from collections import defaultdict

import pytest

from benchlab.engine import tasks
from benchlab.engine.checks import planning
from benchlab.hosts import discovery
from benchlab.runs.models import Attempt, Layout
from tests.engine.counted import counting, step
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
SPARE = 'SELECT "hosts_device"'
WORK = {"block_size": 4096, "count": 800, "oflag": ["dsync"]}


def where(layout: Layout) -> str:
    on_host = layout.attempts.exclude(phase__in=["queued", "done"]).first()
    if layout.phase != "ready":
        return layout.phase
    queued = layout.attempts.filter(phase="queued").exists()
    return on_host.phase if on_host else "queued" if queued else "empty"


def test_steps_that_only_look_make_few(make_campaign, settings, monkeypatch):  # noqa: F811
    settings.BENCHLAB_POLL_S = 0.3
    made = make_campaign(options=WORK, repeats=3)
    drive.plan_and_start(made)
    layout = made.layouts.get()
    counts: dict[str, list[list[str]]] = defaultdict(list)
    while layout.phase != "done":
        phase, counted = where(layout), step(layout.pk, monkeypatch)
        for event in counted.events:
            said = [one for one in event.said if not one.startswith(SPARE)]
            assert len(said) <= SMALL, (phase, event.what, "\n".join(said))
        if phase == "running" and any('INTO "runs_artifact"' in said for said in counted.said):
            phase = "over"
        counts[phase].append(counted.said)
        layout.refresh_from_db()
    assert not Attempt.objects.exclude(outcome="succeeded").exists()
    for phase, most in MOST.items():
        for said in counts[phase]:
            said = [one for one in said if not one.startswith(SPARE)]
            assert len(said) <= most, (phase, "\n".join(said))


def test_the_first_run_of_a_layout_that_another_process_built(make_campaign, monkeypatch):  # noqa: F811
    """Its plan and its facts are read before the host is looked at: an event of its own."""
    made = make_campaign(options=WORK, repeats=1)
    drive.plan_and_start(made)
    layout = made.layouts.get()
    while layout.phase != "ready":
        step(layout.pk, monkeypatch)
        layout.refresh_from_db()
    assert where(layout) == "queued"
    for kept in (discovery.facts_at, planning._built_plans):
        kept.clear()
    counted = step(layout.pk, monkeypatch)
    assert any('"runs_layout"."plan"' in said for said in counted.said)
    assert max(number for _, number in counted.numbers) <= SMALL, counted.numbers


def test_a_layout_that_waits_for_its_host_makes_few(make_layout, monkeypatch):  # noqa: F811
    make_layout(phase="ready")
    waits = make_layout(phase="waiting")
    with counting(monkeypatch) as counted:
        tasks.step_until_waiting(waits.pk)
    assert len(counted.said) <= SMALL + 2, "\n".join(counted.said)  # and a savepoint
