"""Layouts that grow between their runs, on this machine: directories for arrays, and a kernel made of a counter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agents.contracts import Plan, Step
from agents.drivers import registry
from agents.layers import directory
from benchlab.campaigns.models import Workload
from benchlab.engine import commands
from benchlab.engine import tasks as engine
from benchlab.engine.checks import planning
from benchlab.engine.new_runs import create_campaign
from benchlab.engine.phases import grow, step_log
from benchlab.runs import transitions
from benchlab.runs.models import Attempt, Layout, StepLog
from benchlab.topologies import services as topologies
from tests.runs import drive, local_host
from tests.runs.toy_layers import Kernel, bottom, top

pytestmark = pytest.mark.django_db(transaction=True)
SMALL = {"block_size": 65536, "count": 16}


@pytest.fixture
def kernel(monkeypatch) -> Kernel:
    found = Kernel()
    monkeypatch.setitem(registry.all_layers(), "toy", bottom(found))
    monkeypatch.setitem(registry.all_layers(), "toy_top", top())
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with local_host.served(tmp_path_factory.mktemp("state")) as found:
        yield found


@pytest.fixture
def make_campaign(server, team, user, tmp_path, kernel):
    tmp_path.chmod(0o755)
    here = local_host.register(team, *server)

    def make(during=True, stages=1, resync=False, options=SMALL, repeats=2, sweep=None):
        stack: list[dict[str, Any]] = [
            {"kind": "toy", "options": {"path": str(tmp_path / "scratch")}},
            {"kind": "toy_top"},
        ]
        topology = topologies.create_topology(
            team=team, user=user, name="grows", stack=stack, measure_resync=resync,
            stages=[{"layer": 1, "during": during}] * stages,
        )  # fmt: skip
        workload = Workload.objects.create(
            team=team, name="dd", tool="dd", options=options, sweep=sweep or {}
        )
        return create_campaign(
            team=team, user=user, name="grows", question="", hosts=[here], topologies=[topology],
            workloads=[workload], repeats=repeats, order="random_blocks", seed=7,
        )  # fmt: skip

    return make


def finish(campaign) -> Layout:
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign, 60)
    layout: Layout = campaign.layouts.get()
    return layout


def ended(campaign) -> list[tuple[str, str, str]]:
    """(stage, outcome, reason) of every run in its order."""
    rows = Attempt.objects.filter(run__campaign=campaign).order_by("run__position")
    return list(rows.values_list("run__stage", "outcome", "reason"))


def test_before_during_and_after_a_growth_are_measured(make_campaign, kernel, tmp_path):
    kernel.looks = {1: 6}
    campaign = make_campaign()
    layout = finish(campaign)
    assert (layout.phase, layout.outcome) == ("done", "succeeded"), layout.reason_text
    assert ended(campaign) == [
        (stage, "succeeded", "") for stage in ["", "", "during-1", "after-1", "after-1"]
    ]
    parts = StepLog.objects.filter(layout=layout, kind="apply").order_by("pk")
    assert [part for part in parts.values_list("part", flat=True) if part] == ["grow 1", "follow 1"]
    assert (layout.stage, layout.followed, layout.settled, layout.progress) == (1, 1, True, [])
    [during] = Attempt.objects.filter(run__stage="during-1")
    start, end = during.meta["during"]["start"][0], during.meta["during"]["end"][0]
    assert start["says"] == "reshape of toy" and start["done"] < end["done"]
    assert during.meta["state"] == "exited"
    prints = dict(Attempt.objects.values_list("run__stage", "fingerprint"))
    assert len(set(prints.values())) == 3, "each moment has conditions of its own"
    assert not list((tmp_path / "scratch").iterdir()), "the layout's directory is gone"


def test_runs_wait_for_the_first_resync(make_campaign, kernel, monkeypatch):
    told: list[Any] = []
    tell = grow.note_progress

    def listen(row: Layout, found: Any, **fields: Any) -> None:
        told.append(found)
        tell(row, found, **fields)

    monkeypatch.setattr(grow, "note_progress", listen)
    kernel.looks = {0: 3}
    campaign = make_campaign(stages=0)
    finish(campaign)
    assert ended(campaign) == [("", "succeeded", "")] * 2
    assert [len(found) for found in told] == [1, 1, 1, 0]
    assert all("during" not in attempt.meta for attempt in Attempt.objects.all())


def test_the_first_resync_is_measured_when_it_is_asked_for(make_campaign, kernel):
    kernel.looks = {0: 5}
    campaign = make_campaign(stages=0, resync=True)
    finish(campaign)
    assert ended(campaign) == [("resync", "succeeded", ""), *[("", "succeeded", "")] * 2]
    assert Attempt.objects.get(run__stage="resync").meta["during"]["end"]


@pytest.mark.slow
def test_what_comes_too_late_is_skipped_and_says_why(make_campaign, kernel):
    """At work when the growth began, through when the first run looks."""
    kernel.looks = {1: 1}
    campaign = make_campaign(sweep={"count": [16, 17, 18]}, repeats=1)
    finish(campaign)
    during = [row for row in ended(campaign) if row[0] == "during-1"]
    assert during == [("during-1", "skipped", "too_late")] * 3
    assert {outcome for stage, outcome, _ in ended(campaign) if stage != "during-1"} == {
        "succeeded"
    }
    skipped = Attempt.objects.filter(run__stage="during-1")
    assert not any(attempt.measurements.exists() for attempt in skipped)
    assert "before this run could start" in skipped[0].reason_text


@pytest.mark.slow
def test_a_run_that_outlasts_the_reshape_has_no_figures(make_campaign, kernel):
    kernel.looks = {1: 2}
    campaign = make_campaign(repeats=1)
    finish(campaign)
    assert ended(campaign)[1] == ("during-1", "failed", "too_late")
    late = Attempt.objects.get(run__stage="during-1")
    assert not late.measurements.exists() and late.artifacts.exists()
    assert late.reason_text == "The reshape of toy finished before the run did."
    assert late.meta["during"]["end"] == []


@pytest.mark.one_in(1)
@pytest.mark.slow
def test_a_growth_that_was_cut_off_is_taken_down(make_campaign, kernel, monkeypatch):
    campaign = make_campaign(during=False)
    drive.plan_and_start(campaign)
    run = step_log.run_steps

    def die(*args: Any, **more: Any) -> None:
        run(*args, **more)
        if more.get("part") == "grow 1":
            raise SystemExit

    monkeypatch.setattr(step_log, "run_steps", die)
    with pytest.raises(SystemExit):
        drive.to_the_end(campaign, 60)
    monkeypatch.undo()
    monkeypatch.setitem(registry.all_layers(), "toy", bottom(kernel))
    monkeypatch.setitem(registry.all_layers(), "toy_top", top())
    drive.to_the_end(campaign, 60)
    layout = campaign.layouts.get()
    assert (layout.phase, layout.outcome, layout.reason) == ("done", "interrupted", "worker_lost")
    after = ("after-1", "interrupted", "worker_lost")
    assert ended(campaign) == [*[("", "succeeded", "")] * 2, *[after] * 2]


def test_a_growth_that_fails_is_taken_down_and_what_was_measured_stays(
    make_campaign, kernel, monkeypatch
):
    broken = Step(("false",), "Grow", root=False)
    driver = registry.all_layers()["toy"]
    monkeypatch.setattr(driver, "plan_growth", lambda o, g, target, m, f: Plan(
        (broken,), directory.plan(o, target, f).target))  # fmt: skip
    campaign = make_campaign(during=False)
    layout = finish(campaign)
    assert (layout.outcome, layout.reason) == ("failed", "command_failed")
    assert ended(campaign)[0] == ("", "succeeded", "")
    assert ended(campaign)[2][:2] == ("after-1", "failed")


def waiting(campaign) -> bool:
    return bool(campaign.layouts.filter(phase="ready").exclude(progress=[]).exists())


@pytest.mark.slow
def test_cancel_works_while_a_resync_is_waited_for(make_campaign, kernel):
    kernel.looks = {0: 10_000}
    campaign = make_campaign()
    drive.plan_and_start(campaign)
    drive.until(campaign, lambda: waiting(campaign), 60)
    layout = campaign.layouts.get()
    assert layout.progress[0]["says"] == "reshape of toy" and layout.awaited_until
    commands.cancel_campaign(campaign)
    drive.to_the_end(campaign, 60)
    assert {outcome for _, outcome, _ in ended(campaign)} == {"cancelled"}


@pytest.mark.slow
def test_pause_begins_no_growth_and_shows_on_how_far_the_kernel_is(
    make_campaign, kernel, monkeypatch
):
    monkeypatch.setattr(engine, "BUDGET_S", 0.0)
    kernel.looks = {0: 6}
    campaign = make_campaign(during=False)
    drive.plan_and_start(campaign)
    drive.until(campaign, lambda: waiting(campaign), 60)
    commands.pause_campaign(campaign)
    for _ in range(10):
        engine.step_until_waiting(campaign.layouts.get().pk)
    assert kernel.looks[0] == 0 and campaign.layouts.get().progress == []
    assert {phase for (phase,) in Attempt.objects.values_list("phase")} == {"queued"}
    commands.resume_campaign(campaign)
    drive.to_the_end(campaign, 60)
    assert {outcome for _, outcome, _ in ended(campaign)} == {"succeeded"}


@pytest.mark.slow
def test_what_begins_by_itself_is_waited_for(make_campaign, kernel, monkeypatch):
    """A check of an array by cron, say: no run measures in it that was not meant to."""
    monkeypatch.setattr(engine, "BUDGET_S", 0.0)
    campaign = make_campaign(stages=0, repeats=1)
    drive.plan_and_start(campaign)
    drive.until(campaign, lambda: Layout.objects.filter(settled=True).exists(), 60)
    kernel.looks = {0: 4}
    engine.step_until_waiting(campaign.layouts.get().pk)
    assert not campaign.layouts.get().settled
    assert Attempt.objects.get().phase == "starting"
    drive.to_the_end(campaign, 60)
    assert kernel.looks[0] == 0
    assert ended(campaign) == [("", "succeeded", "")]


@pytest.mark.slow
def test_a_retry_of_a_late_moment_grows_its_new_layout_again(make_campaign, kernel):
    campaign = make_campaign(during=False, repeats=1)
    finish(campaign)
    last = Attempt.objects.get(run__stage="after-1")
    commands.retry_run(last.run)
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign, 60)
    again = last.run.attempts.latest("number")
    assert (again.outcome, again.layout.stage, again.layout.followed) == ("succeeded", 1, 1)
    assert planning.stored_plan(again.layout).stages


@pytest.mark.one_in(1)
@pytest.mark.slow
def test_a_moved_layout_is_left_to_who_moved_it(make_campaign, kernel, monkeypatch):
    monkeypatch.setattr(engine, "BUDGET_S", 0.0)  # so that it is looked at between
    campaign = make_campaign(during=False, repeats=1)
    drive.plan_and_start(campaign)
    drive.until(campaign, lambda: Layout.objects.filter(phase="ready").exists(), 60)
    layout = campaign.layouts.get()
    transitions.begin_teardown(Layout.objects.get(pk=layout.pk), "failed", "internal", "elsewhere")  # type: ignore[arg-type]
    engine.step_until_waiting(layout.pk)
    drive.to_the_end(campaign, 60)
    layout = campaign.layouts.get()
    assert (layout.phase, layout.outcome, layout.reason_text) == ("done", "failed", "elsewhere")
    assert layout.stage == 0 and all(stage == 0 for stage, _ in kernel.asked)


def test_the_files_of_a_growth_lie_in_the_layouts_directory(make_campaign, kernel, monkeypatch):
    monkeypatch.setattr(engine, "BUDGET_S", 0.0)  # so that it is looked at between
    seen: list[set[str]] = []
    campaign = make_campaign(during=False, stages=2, repeats=1)
    drive.plan_and_start(campaign)

    def look() -> bool:
        own = Path(planning.stored_plan(campaign.layouts.get()).target.mount) if (
            campaign.layouts.get().phase == "ready") else None  # fmt: skip
        if own and own.exists():
            seen.append({path.name for path in own.iterdir()} & {"grown-1", "grown-2", "followed"})
        return bool(campaign.layouts.get().phase == "done")

    drive.until(campaign, look, 60)
    assert {"grown-1", "grown-2", "followed"} in seen
