"""A build that is cut off is taken back and begun anew, without a person; what cannot be so is told as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.contracts import AgentError, Reason
from agents.drivers import registry
from benchlab.engine import commands
from benchlab.engine import tasks as engine
from benchlab.engine.decide import built
from benchlab.engine.decisions import interruption_error
from benchlab.engine.phases import provision
from benchlab.hosts import ssh_access
from benchlab.runs.models import Layout, StepLog
from benchlab.workers import messages
from tests.agents import growing
from tests.runs.paper_host import MORE, TOY, Paper, confirmed, paper, toy

__all__ = ["paper", "toy"]
pytestmark = pytest.mark.django_db(transaction=True)
CUT = AgentError("lab1: the connection was lost.", Reason.CONNECTION_LOST)
SILENT = AgentError("lab1 does not answer.", Reason.TIMED_OUT)


@pytest.fixture(autouse=True)
def nudges(monkeypatch) -> None:
    monkeypatch.setattr(messages, "send", lambda task, pk: None)


@pytest.fixture
def layout(paper, make_layout) -> Layout:
    return confirmed(make_layout(phase="draft", runs=0), TOY, stages=[MORE])


def cutting(paper: Paper, times: int = 1):
    """The connection is lost in the first command, so often."""
    left = [times]

    def then(argv: tuple[str, ...]) -> None:
        if "create" in argv and left[0]:
            left[0] -= 1
            raise CUT

    paper.then = then


def step(layout: Layout, times: int = 1) -> Layout:
    for _ in range(times):
        engine.step_until_waiting(layout.pk)
    layout.refresh_from_db()
    return layout


def made(paper: Paper, word: str) -> int:
    return sum(word in argv for argv in paper.ran)


def test_a_network_cut_of_minutes_ends_in_a_layout_that_stands(layout, paper, monkeypatch):
    cutting(paper)
    assert step(layout).trouble == str(CUT)
    assert layout.phase == "provisioning"
    monkeypatch.setattr(ssh_access, "connect_to_host", lambda row: (_ for _ in ()).throw(SILENT))
    assert (step(layout, 3).phase, layout.trouble) == ("provisioning", str(SILENT))
    monkeypatch.setattr(ssh_access, "connect_to_host", lambda row: paper)
    assert (step(layout, 2).phase, layout.trouble, layout.rebuilds) == ("done", "", 1)
    assert layout.outcome == "succeeded", layout.reason_text
    said = list(layout.transitions.values_list("reason", flat=True))
    assert f"{SILENT} The partial layout is removed and rebuilt." in said
    assert "built and verified" in said
    assert made(paper, "create") == 2


def test_a_build_that_is_cancelled_stops_after_the_current_command(paper, make_layout, monkeypatch):
    toy = registry.all_layers()["toy"]

    def plan(options, target, facts):
        made = growing.plan(options, target, facts)
        return replace(made, steps=made.steps * 3)

    monkeypatch.setattr(toy, "plan", plan)
    layout = confirmed(make_layout(phase="draft", runs=1), TOY)
    paper.then = lambda argv: (
        commands.cancel_campaign(layout.campaign) if "create" in argv else None
    )
    step(layout, 3)
    assert made(paper, "create") == 1
    assert (layout.phase, layout.outcome) == ("done", "cancelled")
    assert layout.steps.filter(kind="apply").count() == 1
    assert layout.steps.filter(kind="teardown").exists()


def test_so_does_a_worker_that_was_killed(layout, paper):
    StepLog.objects.create(
        layout=layout, kind="apply", argv=["toy"], destroys=["serial:S-sdb", "serial:S-sdc"]
    )
    assert (step(layout, 3).outcome, layout.rebuilds) == ("succeeded", 1)
    said = " ".join(layout.transitions.values_list("reason", flat=True))
    assert (
        "BenchLab's worker ended while the layout was built. The partial layout is removed and rebuilt"
        in said
    )


def test_what_a_layer_took_back_is_not_taken_down_again(layout, paper):
    """The disks of the build that was taken back are nobody's until the new one has begun."""
    cutting(paper)
    step(layout)
    provision.roll_back_build(layout)
    layout.refresh_from_db()
    assert (layout.rebuilds, layout.discarded) == (1, 1)
    ran = len(paper.ran)
    commands.cancel_campaign(layout.campaign)
    assert (step(layout, 3).phase, layout.outcome) == ("done", "cancelled")
    assert len(paper.ran) == ran


def test_a_host_that_cuts_off_every_build_is_told_as_it_was(layout, paper):
    cutting(paper, 99)
    for _ in range(12):
        step(layout)
    assert (layout.phase, layout.outcome, layout.reason) == ("done", "interrupted", "host_lost")
    assert layout.reason_text == (
        f"{CUT} That was while the layout was built. What it left is taken down; retry the runs."
    )
    assert layout.rebuilds == built.MAX_REBUILDS


def test_what_cannot_be_taken_back_at_once_is_tried_again(layout, paper, monkeypatch):
    """A command of the lost session may run on for a while, and hold the disk."""
    cutting(paper)
    step(layout)
    whole, busy = provision.clear_disks, [2]

    def clear(*args):
        if busy[0]:
            busy[0] -= 1
            raise AgentError("/dev/sdb is in use by mkfs.xfs[4711]", Reason.GUARD_REFUSED)
        return whole(*args)

    monkeypatch.setattr(provision, "clear_disks", clear)
    assert (step(layout).phase, layout.teardown_tries) == ("provisioning", 1)
    assert (step(layout, 4).outcome, layout.teardown_tries) == ("succeeded", 0)


def test_what_a_person_made_is_not_taken_back_unasked(layout, paper, monkeypatch):
    cutting(paper)
    step(layout)
    Layout.objects.filter(pk=layout.pk).update(asked=1)
    assert (step(layout, 4).outcome, layout.reason) == ("interrupted", "host_lost")
    assert str(CUT) in layout.reason_text
    assert not layout.needs_person


def test_a_growth_that_was_cut_off_is_told_as_it_was(layout):
    assert str(interruption_error(layout.trouble, "the layout grew", "Retry.")) == (
        "BenchLab's worker ended while the layout grew. Retry."
    )
    layout.trouble = str(CUT)
    said = interruption_error(layout.trouble, "the layout grew", "Retry.")
    assert (str(said), said.reason) == (
        f"{CUT} That was while the layout grew. Retry.",
        "host_lost",
    )


def test_the_plan_keeps_the_fingerprint_that_was_confirmed(layout, paper):
    """The disks became blank since: the build that comes after a cut finds them so, too."""
    cutting(paper)
    step(layout)
    assert layout.plan["fingerprint"] == layout.confirmed_fingerprint
