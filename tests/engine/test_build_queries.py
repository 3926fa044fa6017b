"""Queries of building a layout, waiting for it, taking it down and the sweep: seven an event, however many
runs, layouts and disks there are. The host is one on paper, the database is real.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from string import ascii_lowercase
from typing import Any

import pytest
from django.utils import timezone

from agents.contracts import AgentError, Reason
from agents.plans import stack
from benchlab.audit import heads
from benchlab.audit.models import Head
from benchlab.engine import sweeper
from benchlab.engine.checks import planning
from benchlab.hosts import discovery
from benchlab.hosts.models import Device, Host, HostTask
from benchlab.runs.models import Layout
from benchlab.workers import messages
from tests.engine.counted import Counted, counting, step
from tests.hosts.conftest import disk, facts
from tests.runs.conftest import campaign, host, make_layout
from tests.runs.paper_host import MORE, TOY, Paper, confirmed, paper, toy

__all__ = ["campaign", "host", "make_layout", "paper", "toy"]
pytestmark = pytest.mark.django_db(transaction=True)
SMALL = 7
PLANS = 3  # more, of a sweep that looks for drafts whose plans were lost
FEW, MANY = 2, 12  # runs, layouts and disks
WORKS = {"work": "toy works 0.25"}  # members of a host whose toy array resyncs or grows
FILES: dict[str, Any] = {"kind": "filesystem", "options": {"type": "xfs"}, "devices": []}
TOOLS = {"dd": "dd (coreutils) 9.1", "mkfs.xfs": "mkfs.xfs version 6.1.0"}


@pytest.fixture(autouse=True)
def grown(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A toy array is on paper: what would be looked for in the kernel is there, and larger."""
    # Of the audit log: as a migration leaves it, whose rows the last test took away
    told = heads.HeadContent()
    Head.objects.update_or_create(pk=Head.ONLY, defaults=asdict(told) | {"seal": heads.seal(told)})
    monkeypatch.setattr(messages, "send", lambda task, pk: None)
    monkeypatch.setattr(stack, "verify_stack", lambda *given, **more: [])
    monkeypatch.setattr(stack, "not_grown", lambda *given: [])


@pytest.fixture
def waiting(paper: Paper, host: Host, make_layout: Any) -> Callable[..., Layout]:
    """A layout that waits for its host, with so many runs, disks and other layouts that wait behind it."""

    def make(size: int, tools: dict[str, str] = TOOLS) -> Layout:
        disks = [disk(f"sd{letter}") for letter in ascii_lowercase[1 : size + 2]]
        paper.facts = facts(*disks, tools=tools, members={})
        discovery.store_facts(host, paper.facts)
        for row in Device.objects.filter(host=host).exclude(name="sda"):
            row.spare, row.role, row.spare_size, row.spare_model = True, "hdd", row.size, row.model
            row.save()
        for number in range(size):
            make_layout(position=100 + number)
        devices = [{"use": "data", "role": "hdd", "count": size}]
        array, draft = TOY | {"devices": devices}, make_layout(phase="draft", runs=size)
        layout = confirmed(draft, array, FILES, stages=[MORE])
        Layout.objects.filter(pk=layout.pk).update(phase="waiting", machine="")
        for attempt in layout.attempts.select_related("run"):
            attempt.run.stage = "after-1"
            attempt.run.save()
        layout.refresh_from_db()
        for kept in (discovery.facts_at, planning._built_plans):
            kept.clear()
        return layout

    return make


def phase(layout: Layout) -> str:
    layout.refresh_from_db()
    return layout.phase


def keeps_to_seven(counted: Counted) -> None:
    for event in counted.events:
        assert len(event.said) <= SMALL, (event.what, "\n".join(event.said))
        assert sum(sql.startswith('UPDATE "runs_layout"') for sql in event.said) <= 1, event
    for large in ('"runs_layout"."plan"', '"hosts_factsnapshot"."facts"'):
        read = [sql for sql in counted.said if sql.startswith("SELECT") and large in sql]
        assert len(read) <= 1, "\n".join(counted.said)


def whole_life(layout: Layout, paper: Paper, monkeypatch: pytest.MonkeyPatch) -> list[Counted]:
    """Built, waited for, grown, waited for, followed, cancelled and taken down."""
    steps = list[Counted]()

    def stepped(**members: str) -> None:
        paper.facts = replace(paper.facts, members=members)
        steps.append(step(layout.pk, monkeypatch))

    stepped()
    assert phase(layout) == "provisioning"
    stepped(**WORKS)
    assert phase(layout) == "ready" and not layout.settled, layout.reason_text
    stepped(**WORKS)  # the first resync
    assert layout.progress, layout.reason_text
    stepped()
    assert phase(layout) == "ready" and layout.settled and not layout.progress
    stepped()  # the growth
    assert phase(layout) == "ready" and layout.stage == 1 and not layout.settled
    stepped(**WORKS)
    stepped()  # the layers above follow
    assert phase(layout) == "ready" and layout.followed == 1, layout.reason_text
    stepped()
    assert phase(layout) == "ready" and layout.settled
    Layout.objects.filter(pk=layout.pk).update(cancelled_at=timezone.now())
    stepped()
    assert phase(layout) == "tearing_down"
    assert {attempt.outcome for attempt in layout.attempts.all()} == {"cancelled"}
    stepped()  # down, and every disk proven blank
    assert phase(layout) == "done", layout.trouble
    return steps


def test_a_layouts_life_makes_seven_an_event_however_large(waiting, paper, monkeypatch):
    few, many = (whole_life(waiting(size), paper, monkeypatch) for size in (FEW, MANY))
    for counted in few + many:
        keeps_to_seven(counted)
    assert [one.numbers for one in few] == [one.numbers for one in many]
    build, down = few[1].numbers, few[-1].numbers
    assert [what for what, _ in build].count("command") == 5
    assert [what for what, _ in down].count("command") == 2


def test_a_layout_that_is_over_is_asked_nothing_more(waiting, paper, monkeypatch):
    layout = waiting(FEW)
    whole_life(layout, paper, monkeypatch)
    ran = len(paper.ran)
    counted = step(layout.pk, monkeypatch)
    assert len(counted.said) == 2 and len(paper.ran) == ran


def test_runs_that_cannot_work_are_ended_at_once(waiting, monkeypatch):
    found = []
    for size in (FEW, MANY):
        layout = waiting(size, tools={"mkfs.xfs": TOOLS["mkfs.xfs"]})
        step(layout.pk, monkeypatch)
        counted = step(layout.pk, monkeypatch)
        assert phase(layout) == "ready", layout.reason_text
        keeps_to_seven(counted)
        found.append(counted.numbers)
        reasons = layout.attempts.values_list("phase", "outcome", "reason")
        assert set(reasons) == {("done", "failed", "tool_missing")}
        told = layout.transitions.exclude(attempt=None)
        assert told.count() == size and "no dd" in told[0].reason
        Layout.objects.filter(pk=layout.pk).update(phase="done", outcome="failed")
    assert found[0] == found[1]


def test_a_build_that_was_cut_off_is_taken_back_by_seven_an_event(waiting, paper, monkeypatch):
    def lost(argv: tuple[str, ...]) -> None:
        raise AgentError("the connection was lost", Reason.CONNECTION_LOST)

    found = []
    for size in (FEW, MANY):
        layout = waiting(size)
        paper.then = lost
        steps = [step(layout.pk, monkeypatch), step(layout.pk, monkeypatch)]
        assert phase(layout) == "provisioning" and "lost" in layout.trouble
        paper.then = lambda argv: None
        steps.append(step(layout.pk, monkeypatch))
        assert phase(layout) == "provisioning" and layout.rebuilds == 1, layout.trouble
        for counted in steps:
            keeps_to_seven(counted)
        found.append([counted.numbers for counted in steps])
        Layout.objects.filter(pk=layout.pk).update(phase="done", outcome="failed")
    assert found[0] == found[1]


def test_disks_that_are_gone_are_named_by_one_query(waiting, paper, monkeypatch):
    found = []
    for size in (FEW, MANY):
        layout = waiting(size)
        for _ in range(2):
            step(layout.pk, monkeypatch)
        assert phase(layout) == "ready", layout.reason_text
        Layout.objects.filter(pk=layout.pk).update(cancelled_at=timezone.now())
        step(layout.pk, monkeypatch)
        paper.disks(disk("sdz"))
        steps = [step(layout.pk, monkeypatch) for _ in range(2)]
        assert phase(layout) == "stuck" and layout.trouble.count("serial S-sd") == size
        for counted in steps:
            keeps_to_seven(counted)
        found.append([counted.numbers for counted in steps])
        Layout.objects.filter(pk=layout.pk).update(phase="done")
    assert found[0] == found[1]


def test_a_layout_that_never_began_is_dropped_by_one_event(waiting, monkeypatch):
    found = []
    for size in (FEW, MANY):
        layout = waiting(size)
        Layout.objects.filter(pk=layout.pk).update(cancelled_at=timezone.now())
        counted = step(layout.pk, monkeypatch)
        assert phase(layout) == "done"
        assert set(layout.attempts.values_list("outcome", flat=True)) == {"cancelled"}
        keeps_to_seven(counted)
        found.append(counted.numbers)
    assert found[0] == found[1]


@pytest.mark.parametrize("size", [FEW, MANY])
def test_a_sweep_makes_seven_however_much_is_due(make_layout, team, host, monkeypatch, size):
    for number in range(size):
        own = Host.objects.create(
            team=team, name=f"of {number}", address="127.0.0.1", credential=host.credential
        )
        make_layout(phase="ready", on=own)
        make_layout(phase="waiting", on=own)
        make_layout(phase="draft", on=own, next_step_at=timezone.now())
    make_layout(phase="waiting")
    with counting(monkeypatch) as counted:
        sent = sweeper.sweep_once(plans=False)
    assert len(sent) == size + 1
    assert len(counted.said) <= SMALL, "\n".join(counted.said)
    Layout.objects.update(next_step_at=timezone.now())
    with counting(monkeypatch) as counted:
        late = sweeper.sweep_once()  # one in ten looks for lost plans too
    assert len(late) == 2 * size + 1
    assert len(counted.said) <= SMALL + PLANS, "\n".join(counted.said)


@pytest.mark.parametrize("size", [FEW, MANY])
def test_what_waits_for_hosts_is_swept_by_two(host, monkeypatch, size):
    for number in range(size):
        HostTask.objects.create(
            host=host, kind="read_facts", options={"n": number}, due_at=timezone.now()
        )
    with counting(monkeypatch) as counted:
        assert len(HostTask.objects.claim_due()) == size
    assert len(counted.said) == 2, "\n".join(counted.said)
