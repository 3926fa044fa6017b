"""The number of files between a worker's message and the host, and where to read what cancel does.

A layout on our own SSH server, as the worker builds it. The bounds are what was reached: more files is a longer way.
"""

from __future__ import annotations

import re

import pytest

from benchlab.engine import commands, tasks
from benchlab.up.bootstrap import ROOT
from tests.engine import way
from tests.runs import drive
from tests.runs.test_engine_local import SLOW, here, make_campaign, server  # noqa: F401

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
TO_THE_HOST, UP = 20, 3
# On the way itself: each calls the next one, until a command is run on the host.
ON_THE_WAY = 13
# With the parsers of facts, of which each machine needs others, and contracts, which has `claims_of`.
TO_THE_FIRST_STEP = 53
DESIGN = ROOT / "docs" / "design.md"


@pytest.fixture
def layout(make_campaign):  # noqa: F811
    """On a host that it has just taken."""
    made = make_campaign(options=SLOW)
    drive.plan_and_start(made)
    found = made.layouts.get()
    tasks._step_once(found.pk, until=0.0)
    found.refresh_from_db()
    assert found.phase == "provisioning"
    return found


def test_few_files_lie_before_the_host(layout, monkeypatch):
    """One message: first the host is looked at, then the plan's first command is run."""
    monkeypatch.setattr(tasks, "BUDGET_S", 0.0)  # else the same message starts the tool
    commands = ("LastingShell.run", "SshShell.run")
    calls = way.follow(lambda: tasks.step_layout(layout.pk), commands)
    layout.refresh_from_db()
    assert layout.phase == "ready"
    on_the_way = {file for call in calls for file in call.stack}
    assert len(on_the_way) <= ON_THE_WAY, "\n".join([f"{len(on_the_way)}:", *sorted(on_the_way)])
    for part, most in (
        (way.first_command(calls), TO_THE_HOST),
        (way.first_step(calls), TO_THE_FIRST_STEP),
    ):
        assert len(passed := way.files(part)) <= most, "\n".join([f"{len(passed)}:", *passed])
        assert len(up := way.climbs(part)) <= UP, up


def test_what_design_says_to_read_of_cancel_is_all_there_is(layout):
    read = named("cancel")
    assert len(read) <= 6
    campaign = layout.campaign
    drive.until(campaign, lambda: layout.attempts.get().phase == "running")
    wished = way.follow(lambda: commands.cancel_campaign(campaign), ["cancel_campaign"])
    acted = way.follow(
        lambda: tasks._step_once(layout.pk, until=0.0),
        ["stop_job", "begin_teardown", "decide_ready"],
    )
    layout.refresh_from_db()
    assert (layout.phase, layout.outcome) == ("tearing_down", "cancelled")
    passed = {file for call in (*wished, *acted) for file in call.stack}
    assert passed == set(read)
    drive.to_the_end(campaign)


def named(what: str) -> list[str]:
    """The files that the design says are to be read to understand it."""
    [line] = re.findall(rf"To understand {what}, read ([^.]*(?:\.py[^.]*)+)\.", DESIGN.read_text())
    return re.findall(r"`([\w/]+\.py)`", line)
