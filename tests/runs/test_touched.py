"""A disk that no command of a layout has touched stays as it is: not built on when it changed, not taken down."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from agents.contracts import AgentError, GuardError, Plan, Reason, Step
from agents.drivers import registry
from agents.facts.model import Signature
from benchlab.audit.models import Entry
from benchlab.engine import commands
from benchlab.engine import tasks as engine
from benchlab.engine.checks import planning
from benchlab.engine.phases import grow, provision
from benchlab.runs import transitions
from benchlab.runs.models import Layout, StepLog
from benchlab.runs.states import LayoutPhase, Outcome
from benchlab.workers import messages
from tests.runs.paper_host import DISKS, MORE, TOY, Paper, confirmed, paper, toy

__all__ = ["paper", "toy"]
pytestmark = pytest.mark.django_db(transaction=True)

SDB, SDC, SDD = DISKS
EXT4 = (Signature("ext4", 1080, "precious"),)
MANUAL = {"kind": "manual", "options": {"instructions": "Turn the knob."}, "devices": []}


@pytest.fixture(autouse=True)
def nudges(monkeypatch) -> None:
    monkeypatch.setattr(messages, "send", lambda task, pk: None)


@pytest.fixture
def layout(paper, make_layout) -> Layout:
    return confirmed(make_layout(phase="draft", runs=0), TOY, stages=[MORE])


@pytest.fixture
def ready(layout) -> Layout:
    provision.build_layout(layout)
    layout.refresh_from_db()
    assert layout.phase == LayoutPhase.READY
    return layout


def take_down(layout: Layout) -> Layout:
    if layout.phase != LayoutPhase.TEARING_DOWN:
        transitions.begin_teardown(layout, Outcome.CANCELLED)
    for _ in range(4):
        engine.step_until_waiting(layout.pk)
    layout.refresh_from_db()
    return layout


def named(paper: Paper, word: str) -> list[tuple[str, ...]]:
    return [argv for argv in paper.ran if word in argv]


def test_a_disk_that_came_into_use_before_its_stage_is_not_grown_onto(ready, paper):
    paper.disks(SDB, SDC, replace(SDD, signatures=EXT4))
    with pytest.raises(AgentError, match="/dev/sdd of lab1 changed after the plan") as raised:
        grow.begin_growth(ready)
    assert raised.value.reason is Reason.PLAN_STALE
    assert not named(paper, "/dev/sdd") and not ready.steps.filter(part="grow 1").exists()


def test_what_was_on_the_disk_when_the_plan_was_confirmed_may_go(paper, make_layout):
    paper.disks(SDB, SDC, replace(SDD, signatures=EXT4))
    layout = confirmed(make_layout(phase="draft", runs=0), TOY, stages=[MORE])
    provision.build_layout(layout)
    grow.begin_growth(layout)
    assert named(paper, "/dev/sdd") == [("toy", "grow", "/dev/sdd")]


def test_a_stage_that_never_began_is_not_taken_down(ready, paper):
    paper.disks(SDB, SDC, replace(SDD, signatures=EXT4, mounts=("/data",)))
    layout = take_down(ready)
    assert (layout.phase, layout.trouble) == ("done", "")
    assert named(paper, "destroy") == [("toy", "destroy", "/dev/sdb", "/dev/sdc")]
    assert not StepLog.objects.filter(destroys__contains=["serial:S-sdd"]).exists()


def test_a_stage_that_began_is_taken_down(ready, paper):
    grow.begin_growth(ready)
    assert take_down(ready).phase == "done"
    assert named(paper, "destroy") == [("toy", "destroy", "/dev/sdb", "/dev/sdc", "/dev/sdd")]


def test_a_disk_above_a_person_is_compared_with_what_was_confirmed(paper, make_layout, monkeypatch):
    upper = ModuleType("upper")
    vars(upper).update(vars(registry.all_layers()["toy"]), REQUIRES="any", LABEL="Upper")

    def plan(options: Any, target: Any, found: Any) -> Plan:
        own = target.devices["data"]
        return Plan((Step(("upper", own[0].node), "Upper", destroys=own),), target)

    monkeypatch.setattr(upper, "plan", plan)
    monkeypatch.setitem(registry.all_layers(), "upper", upper)
    one = {**TOY, "kind": "upper", "devices": [{"use": "data", "role": "hdd", "count": 1}]}
    layout = confirmed(make_layout(phase="draft", runs=0), TOY, MANUAL, one)
    provision.build_layout(layout)
    commands.report_manual_step(layout, layout.person_key, "alice")
    paper.disks(SDB, SDC, replace(SDD, signatures=EXT4))
    layout.refresh_from_db()
    assert provision.accept_step(layout, paper)
    with pytest.raises(AgentError, match="/dev/sdd of lab1 changed") as raised:
        provision.build_layout(layout)
    assert raised.value.reason is Reason.PLAN_STALE
    transitions.begin_teardown(layout, Outcome.FAILED, Reason.PLAN_STALE, "stale")
    assert take_down(layout).phase == "done"
    assert named(paper, "destroy") == [("toy", "destroy", "/dev/sdb", "/dev/sdc")]


def mount_at_the_last_moment(paper: Paper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody makes a file system and mounts it, between the look at the plan and the one of the guard."""
    as_confirmed = planning.check_confirmed

    def run(*args: Any) -> None:
        as_confirmed(*args)
        paper.disks(replace(SDB, signatures=EXT4, mounts=("/data",)), SDC, SDD)

    monkeypatch.setattr(planning, "check_confirmed", run)


def test_a_disk_that_the_guard_saved_is_not_wiped_by_the_teardown(layout, paper, monkeypatch):
    mount_at_the_last_moment(paper, monkeypatch)
    with pytest.raises(GuardError, match="mounted at /data"):
        provision.build_layout(layout)
    [row] = layout.steps.all()
    assert (row.destroys, row.exit_code) == ([], None)
    assert "mounted at /data" in row.stderr and row.ended_at
    assert not Entry.objects.filter(action="destroy").exists()
    paper.disks(replace(SDB, signatures=EXT4), SDC, SDD)  # unmounted, to get on
    ended = take_down(layout)
    assert (ended.phase, ended.trouble) == ("done", "")
    assert not named(paper, "/dev/sdb")
    assert ended.transitions.get(new="done").reason == "taken down"


def cut_off(layout: Layout) -> None:
    """The worker died when the first command was logged; nobody knows whether it ran."""
    StepLog.objects.create(
        layout=layout, kind="apply", argv=["toy"], destroys=["serial:S-sdb", "serial:S-sdc"]
    )


def test_what_came_onto_a_disk_that_was_perhaps_touched_is_not_wiped(layout, paper):
    cut_off(layout)
    paper.disks(replace(SDB, signatures=EXT4), SDC, SDD)
    assert take_down(layout).phase == "done"
    assert not named(paper, "/dev/sdb")


def test_a_disk_that_was_perhaps_touched_and_is_as_it_was_is_taken_down(layout, paper):
    cut_off(layout)
    assert take_down(layout).phase == "done"
    assert named(paper, "destroy") == [("toy", "destroy", "/dev/sdb", "/dev/sdc")]
