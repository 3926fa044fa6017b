"""The engine against real parts: PostgreSQL, our SSH server, sh, dd and fio on this machine. No disk is touched."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import OperationalError, connection

from agents.ssh.shell import Tunnel
from benchlab.campaigns.models import Campaign, Workload
from benchlab.engine import commands, jobs
from benchlab.engine import tasks as engine
from benchlab.engine.new_runs import create_campaign
from benchlab.hosts.models import Host
from benchlab.runs import artifacts, conclusion
from benchlab.runs.models import Attempt, LiveChunk, StepLog
from benchlab.team.models import Team
from benchlab.topologies.models import Topology
from tests.programs import roots_directory
from tests.runs import drive, local_host

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with local_host.served(tmp_path_factory.mktemp("state")) as found:
        yield found


@pytest.fixture
def here(server, team) -> Host:
    return local_host.register(team, *server)


@pytest.fixture
def make_campaign(here, team, user, tmp_path):
    tmp_path.chmod(0o755)
    stack = [{"kind": "directory", "options": {"path": str(tmp_path / "scratch")}, "devices": []}]
    scratch = Topology.objects.create(team=team, name="scratch", stack=stack)

    def make(tool: str = "dd", options=None, sweep=None, repeats: int = 1) -> Campaign:
        workload = Workload.objects.create(
            team=team, name=tool, tool=tool, options=options or {}, sweep=sweep or {}
        )
        return create_campaign(
            team=team, user=user, name="first", question="", hosts=[here], topologies=[scratch],
            workloads=[workload], repeats=repeats, order="random_blocks", seed=7,
        )  # fmt: skip

    return make


def test_a_tunnel_that_is_forbidden_costs_its_own_run_alone(make_campaign, monkeypatch):
    """Our own server for this machine forbids it, as do those of careful people: the other runs go on."""
    begin = jobs.Console.begin

    def tunnelled(self, attempt, work, facts, shell, *more):
        if attempt.run.repeat == 1:
            Tunnel(shell.address).close_tunnel()
        return begin(self, attempt, work, facts, shell, *more)

    monkeypatch.setattr(jobs.Console, "begin", tunnelled)
    campaign = make_campaign(options=SMALL, repeats=2)
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign)
    first, second = Attempt.objects.order_by("run__repeat")
    assert (first.outcome, first.reason) == ("failed", "command_failed")
    assert "refused to forward a port for dynamo" in first.reason_text
    assert (second.outcome, campaign.layouts.get().outcome) == ("succeeded", "succeeded")


SMALL = {"block_size": 65536, "count": 16}
SLOW = {"block_size": 4096, "count": 2000000, "oflag": ["dsync"]}


NOBODY = 65534
ONLY_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="root runs it only where we are root")


@pytest.fixture
def roots() -> Iterator[Path]:
    with roots_directory() as made:
        yield made


def write_program(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo 16.4 && exit\n{body}\nexit 1\n')
    path.chmod(0o755)
    return path


def run_twice(make_campaign, program: Path) -> list[Attempt]:
    options = {"program": str(program), "seconds": 1}
    campaign = make_campaign("pg_test_fsync", options, repeats=2)
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign)
    return list(Attempt.objects.filter(run__campaign=campaign).order_by("run__repeat"))


@ONLY_ROOT
def test_a_program_that_others_may_change_is_not_run_as_root(make_campaign, tmp_path):
    """A file of an unprivileged user, named in a workload: it is neither run nor asked for its version."""
    program = tmp_path / "pg_test_fsync"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    os.chown(program, NOBODY, NOBODY)
    for attempt in run_twice(make_campaign, program):
        assert (attempt.outcome, attempt.reason) == ("failed", "bad_options")
        assert re.search(r"(belongs to user 65534|is writable by users)", attempt.reason_text)
    assert not (tmp_path / "ran").exists()


@ONLY_ROOT
def test_a_users_link_that_is_turned_between_two_runs_gives_nobody_root(make_campaign, roots):
    """It pointed to a sound program when the layout was built, and to the user's own script for the second run."""
    home, ran = roots / "home", roots / "ran"
    link, evil = home / "pg_test_fsync", home / "evil" / "pg_test_fsync"
    write_program(evil, f"echo evil >>{ran}")
    turn = f"ln -sfn {evil} {link}; chown -h {NOBODY} {link}"
    link.symlink_to(write_program(roots / "opt" / "pg_test_fsync", f"echo sound >>{ran}; {turn}"))
    for path in (home, link, evil.parent, evil):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    attempts = run_twice(make_campaign, link)
    assert not ran.exists(), ran.read_text()
    for attempt in attempts:
        assert (attempt.outcome, attempt.reason) == ("failed", "bad_options")
        assert f"{home} belongs to user {NOBODY}" in attempt.reason_text


@ONLY_ROOT
def test_a_program_is_checked_before_each_run_and_run_by_its_resolved_path(make_campaign, roots):
    """Root's own link is followed, once; the program is given to a user during the first run."""
    ran, link = roots / "ran", roots / "pg_test_fsync"
    program = roots / "opt" / "pg_test_fsync"
    write_program(program, f'echo "$0" >>{ran}; chown {NOBODY} {program}')
    link.symlink_to(program)
    first, second = run_twice(make_campaign, link)
    assert ran.read_text() == f"{program}\n"
    assert str(program) in first.argv and first.reason == "tool_failed", first.reason_text
    assert second.reason == "bad_options"
    assert f"{program} belongs to user {NOBODY}" in second.reason_text


def test_a_campaign_runs_to_its_figures(make_campaign, tmp_path):
    campaign = make_campaign(options=SMALL, repeats=2)
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign)
    layout = campaign.layouts.get()
    assert (layout.phase, layout.outcome) == ("done", "succeeded"), layout.reason_text
    for attempt in Attempt.objects.all():
        assert attempt.outcome == "succeeded", attempt.reason_text
        figures = dict(attempt.measurements.values_list("name", "value"))
        assert figures["bytes"] == 16 * 65536
        assert {"stdout", "stderr", "samples"} <= set(
            attempt.artifacts.values_list("name", flat=True)
        )
        assert b"copied" in bytes(attempt.artifacts.get(name="stderr").content)
        assert attempt.fingerprint and attempt.tool_version
    assert not list((tmp_path / "scratch").iterdir()), "the layout's directory is gone"
    assert not LiveChunk.objects.exists()
    assert StepLog.objects.filter(exit_code=None).count() == 0


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed here")
def test_a_fio_sweep_reaches_its_outstanding_ios(make_campaign):
    options = {
        "rw": "randwrite",
        "size": 4 << 20,
        "runtime_s": 1,
        "ioengine": "libaio",
        "direct": False,
    }
    campaign = make_campaign("fio", options, {"iodepth": [1, 4]})
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign)
    found = {a.run.outstanding: a for a in Attempt.objects.select_related("run")}
    assert set(found) == {1, 4}
    for attempt in found.values():
        assert attempt.outcome == "succeeded", attempt.reason_text
        assert attempt.measurements.get(name="write.iops").value
        assert (
            attempt.series.filter(metric="cpu.user").exists()
            or attempt.series.filter(sampler="cpu").exists()
        )


def test_options_that_the_tool_refuses_fail_before_the_first_run(make_campaign, here):
    if not shutil.which("fio"):
        pytest.skip("fio is not installed here")
    campaign = make_campaign(
        "fio", {"size": 1 << 20, "runtime_s": 1, "extra": ["random_distribution=nonsense"]}
    )
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign)
    attempt = Attempt.objects.get()
    assert (attempt.outcome, attempt.reason) == ("failed", "bad_options"), attempt.reason_text
    assert "random_distribution" in attempt.reason_text


def test_cancel_stops_the_running_tool_and_takes_the_layout_down(make_campaign, tmp_path):
    campaign = make_campaign(options=SLOW, repeats=2)
    drive.plan_and_start(campaign)
    drive.until(campaign, lambda: Attempt.objects.filter(phase="running").exists())
    commands.cancel_campaign(campaign)
    commands.cancel_campaign(campaign)
    drive.to_the_end(campaign)
    assert set(Attempt.objects.values_list("outcome", flat=True)) == {"cancelled"}
    assert campaign.layouts.get().outcome == "cancelled"
    assert not list((tmp_path / "scratch").iterdir())


def test_pause_lets_the_running_one_end_and_starts_no_other(make_campaign, monkeypatch):
    # One thing per step, so that the pause comes in between
    monkeypatch.setattr(engine, "BUDGET_S", 0.0)
    campaign = make_campaign(options=SMALL, repeats=2)
    drive.plan_and_start(campaign)
    drive.until(campaign, lambda: Attempt.objects.filter(phase="running").exists())
    commands.pause_campaign(campaign)
    drive.until(campaign, lambda: Attempt.objects.filter(phase="done").exists())
    for _ in range(3):
        engine.step_until_waiting(campaign.layouts.get().pk)
    assert sorted(Attempt.objects.values_list("phase", flat=True)) == ["done", "queued"]
    commands.resume_campaign(campaign)
    drive.to_the_end(campaign)
    assert set(Attempt.objects.values_list("outcome", flat=True)) == {"succeeded"}


def test_a_tool_that_fails_says_why_and_the_others_go_on(make_campaign):
    campaign = make_campaign(options={**SMALL, "oflag": ["direct"], "block_size": 1000})
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign)
    attempt = Attempt.objects.get()
    assert (attempt.outcome, attempt.reason) == ("failed", "tool_failed")
    assert "Invalid argument" in attempt.reason_text
    assert "figures that it had printed are kept, of a failed run" in attempt.reason_text
    assert attempt.artifacts.filter(name="stderr").exists()


def test_reparse_rebuilds_the_same_figures(make_campaign):
    campaign = make_campaign(options=SMALL)
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign)
    attempt = Attempt.objects.get()
    before = sorted(attempt.measurements.values_list("name", "value", "unit"))
    attempt.measurements.all().delete()
    assert conclusion.reparse_attempt(attempt) == ""
    assert sorted(attempt.measurements.values_list("name", "value", "unit")) == before


def test_a_host_that_does_not_answer_is_tried_again_and_then_given_up(
    make_campaign, here, settings
):
    campaign = make_campaign(options=SMALL)
    drive.plan_and_start(campaign)
    layout = campaign.layouts.get()
    Host.objects.filter(pk=here.pk).update(port=1)
    engine.step_until_waiting(layout.pk)
    layout.refresh_from_db()
    assert layout.phase == "provisioning"
    assert "refused" in layout.trouble.lower()
    settings.BENCHLAB_LOST_AFTER_S = 0
    drive.to_the_end(campaign)
    attempt = Attempt.objects.get()
    assert (attempt.outcome, attempt.reason) == ("interrupted", "host_lost")


def test_a_crash_of_our_own_code_is_said_and_the_layout_taken_down(
    make_campaign, monkeypatch, tmp_path
):
    campaign = make_campaign(options=SMALL)
    drive.plan_and_start(campaign)

    def broken(*args, **kwargs):
        raise RuntimeError("a bug")

    monkeypatch.setattr("benchlab.runs.artifact_figures.read_figures", broken)
    drive.to_the_end(campaign)
    attempt = Attempt.objects.get()
    assert (attempt.outcome, attempt.reason) == ("errored", "internal")
    assert "a bug" in attempt.reason_text
    assert attempt.artifacts.exists(), "the raw output is kept all the same"
    assert not list((tmp_path / "scratch").iterdir())


def test_trouble_of_the_database_condemns_no_layout(make_campaign, monkeypatch):
    """The connection lives on; the job on the host is not stopped, and its figures come."""
    campaign = make_campaign(options=SMALL)
    drive.plan_and_start(campaign)
    keep = artifacts.store_artifacts

    def slow(*args):
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 10; SELECT pg_sleep(5)")

    monkeypatch.setattr(artifacts, "store_artifacts", slow)
    layout = campaign.layouts.get()
    with pytest.raises(OperationalError, match="statement timeout"):
        drive.to_the_end(campaign)
    monkeypatch.setattr(artifacts, "store_artifacts", keep)
    layout.refresh_from_db()
    assert (layout.phase, layout.outcome) == ("ready", "")
    drive.to_the_end(campaign)
    attempt = Attempt.objects.get()
    assert attempt.outcome == "succeeded", attempt.reason_text


@pytest.mark.one_in(1)
@pytest.mark.slow
def test_one_machine_under_two_names_is_held_once(make_campaign, here):
    """Its disks are there once: what comes second waits, and says for whom; another team's is not named."""
    first = make_campaign(options=SLOW)
    drive.plan_and_start(first)
    drive.until(first, lambda: Attempt.objects.filter(phase="running").exists())
    held = first.layouts.get()
    twin = Host.objects.get(pk=here.pk)
    twin.pk, twin.name = None, "twin"
    twin.save()
    second = create_campaign(
        team=here.team, user=first.created_by, name="second", question="", hosts=[twin], repeats=1,
        topologies=[held.topology], workloads=[first.runs.get().workload],
        order="random_blocks", seed=7,
    )  # fmt: skip
    drive.plan_and_start(second)
    layout = second.layouts.get()
    engine.step_until_waiting(layout.pk)
    layout.refresh_from_db()
    assert (layout.phase, layout.steps.count()) == ("provisioning", 0)
    assert f"twin and here are the same machine, on which {held.name} is at work" in layout.trouble
    campaigns = Campaign.objects.filter(pk=first.pk)
    campaigns.update(team=Team.objects.create(name="others"))
    engine.step_until_waiting(layout.pk)
    layout.refresh_from_db()
    assert "is in use by another team" in layout.trouble and held.name not in layout.trouble
    campaigns.update(team=here.team)
    commands.cancel_campaign(first)
    drive.to_the_end(first)
    engine.step_until_waiting(layout.pk)
    layout.refresh_from_db()
    assert (layout.phase, layout.trouble) == ("ready", "")
    commands.cancel_campaign(second)
    drive.to_the_end(second)
