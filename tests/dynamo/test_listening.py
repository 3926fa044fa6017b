"""A host that only dynamo reaches, from its login to the page's numbers, over real sockets."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from agents.layers import reported as planned
from benchlab.campaigns.models import Campaign, Workload
from benchlab.dynamo import listening as dynamo_listening
from benchlab.dynamo import reported_hosts, session
from benchlab.dynamo.listening import Listener, SettingsError, parse_listen_address, parse_networks
from benchlab.dynamo.models import DynamoLogin, Reported
from benchlab.engine.checks import previews
from benchlab.engine.new_runs import create_campaign
from benchlab.hosts.models import Host
from benchlab.runs.models import Attempt
from benchlab.topologies.models import Topology
from tests.agents import dynamo_sim
from tests.dynamo.database import environment
from tests.runs import drive

pytestmark = pytest.mark.django_db(transaction=True)
SIM = Path(dynamo_sim.__file__)
OPTIONS = {"size": 1 << 20, "runtime_s": 1, "ramp_s": 0}


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bl") as name:
        (Path(name) / "data").mkdir()
        yield Path(name)


@contextlib.contextmanager
def listening(allowed: str = "127.0.0.1", port: int = 0) -> Iterator[Listener]:
    made = Listener(f"127.0.0.1:{port}", [allowed], "")
    thread = threading.Thread(target=made.serve_dynamos)
    thread.start()
    try:
        yield made
    finally:
        made.request_stop()
        thread.join(20)


@contextlib.contextmanager
def dynamo(port: int, folder: Path, sim: str = "") -> Iterator[subprocess.Popen[bytes]]:
    argv = [
        sys.executable,
        str(SIM),
        "-i",
        "127.0.0.1",
        "-p",
        str(port),
        "-m",
        "127.0.0.1",
        "-n",
        "WIN-7",
    ]
    env = {**os.environ, "SIM": f"reports={folder}/data {sim}"}
    process = subprocess.Popen(argv, cwd=folder, env=env, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(true: Callable[[], Any], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def campaign_on(
    host: Host, folder: Path, user: Any, kind: str = "ext4", **options: Any
) -> Campaign:
    stack = [{"kind": "reported", "options": {"target": f"{folder}/data [{kind}]"}, "devices": []}]
    number = Topology.objects.count() + 1
    topology = Topology.objects.create(team=host.team, name=f"its file {number}", stack=stack)
    workload = Workload.objects.create(
        team=host.team, name=f"8k {number}", tool="dynamo", options={**OPTIONS, **options},
        sweep={"outstanding_ios": [1, 4]},
    )  # fmt: skip
    return create_campaign(
        team=host.team, user=user, name="Windows", question="", hosts=[host], topologies=[topology],
        workloads=[workload], repeats=1, order="as_written",
    )  # fmt: skip


def only_host(*, user: Any = None, same_machine: bool = False) -> Host:
    """The host of the one dynamo that logged in; accepted by `user`."""
    until(lambda: Host.objects.filter(access="dynamo", seen_at__isnull=False).exists())
    host = Host.objects.get(access="dynamo")
    if user is not None:
        reported_hosts.accept_dynamo(host, user, host.dynamo_login.port, same_machine)
    return host


def test_a_dynamo_becomes_a_host_and_runs_a_campaign(team, user, web, folder):
    with listening() as listener, dynamo(listener.port, folder):
        host = only_host(user=user)
        assert (host.name, host.address, host.team) == ("WIN-7", "127.0.0.1", team)
        assert {(r.name, r.raw, r.usable) for r in host.reported.all()} == {
            (f"{folder}/data [ext4]", False, True), ("sdz", True, False),
        }  # fmt: skip
        campaign = campaign_on(host, folder, user)
        drive.plan_and_start(campaign)
        drive.to_the_end(campaign, 60)
    layout = campaign.layouts.get()
    assert (layout.phase, layout.outcome) == ("done", "succeeded"), layout.reason_text
    for attempt in Attempt.objects.all():
        assert attempt.outcome == "succeeded", attempt.reason_text
        figures = dict(attempt.measurements.filter(labels={}).values_list("name", "value"))
        assert figures["iops"] == pytest.approx(1000, rel=0.05)
        assert attempt.artifacts.get().name == "messages.bin"
        assert attempt.meta["console"] == "BenchLab's listener"
    assert Reported.objects.get(raw=False).prepared == 1 << 20
    page = web.get(f"/runs/{attempt.run_id}/").content.decode()
    assert "1.00 k" in page or "1000" in page or "k IOPS" in page
    log = (folder / "sim.log").read_text().split("\n")
    assert sum(line.startswith("PREP_DISKS") for line in log) == 1  # the second found it ready
    assert not any(line.startswith("EXIT") for line in log)


def test_a_second_dynamo_of_the_same_name_is_refused(team, user, web, folder):
    """Two machines behind one address with one name: a test ran on either one's file."""
    other = folder / "other"
    (other / "data").mkdir(parents=True)
    with listening() as listener, dynamo(listener.port, folder):
        host = only_host(user=user)
        with dynamo(listener.port, other) as second:
            assert second.wait(20) == 0  # it got EXIT, and ended
        assert (other / "sim.log").read_text().split("\n")[0].startswith("EXIT")
        campaign = campaign_on(host, folder, user)
        drive.plan_and_start(campaign)
        drive.to_the_end(campaign, 60)
    assert Host.objects.filter(access="dynamo").count() == 1
    assert {row.name for row in host.reported.all()} == {f"{folder}/data [ext4]", "sdz"}
    assert [row.outcome for row in Attempt.objects.all()] == ["succeeded", "succeeded"]
    page = web.get(f"/hosts/{host.pk}/").content.decode()
    assert "a second dynamo logged in as &#x27;WIN-7&#x27; from 127.0.0.1" in page


@pytest.mark.slow
@pytest.mark.one_in(1)
def test_a_dynamo_that_takes_the_place_of_another_waits_to_be_accepted(team, user, folder):
    """It has the other's name, address and targets, but not its files and disks: 4 KiB were measured as 1 MiB."""
    with listening() as listener:
        with dynamo(listener.port, folder):
            first = campaign_on(only_host(user=user), folder, user)
            drive.plan_and_start(first)
            drive.to_the_end(first, 60)
            reported_hosts.mark_spare(Reported.objects.get(raw=True), user, "sdz")
            before = DynamoLogin.objects.get().port
        assert Reported.objects.get(raw=False).prepared == 1 << 20
        (folder / "data" / "iobw.tst").write_bytes(b"x" * 4096)
        with dynamo(listener.port, folder):
            until(lambda: DynamoLogin.objects.get().port != before)
            host = Host.objects.get(access="dynamo")
            second = campaign_on(host, folder, user)
            drive.plan_and_start(second)
            drive.until(second, lambda: bool(second.layouts.get().trouble), 30)
            assert "is another one than the one that was" in second.layouts.get().trouble
            assert not Attempt.objects.filter(run__campaign=second, started_at__isnull=False)
            only_host(user=user)
            assert not Reported.objects.get(raw=True).spare_at
            drive.to_the_end(second, 60)
    for attempt in Attempt.objects.filter(run__campaign=second):
        assert (attempt.outcome, attempt.reason) == ("failed", "tool_failed")
        assert "knows only 0 of 1048576 bytes" in attempt.reason_text


def test_a_test_uses_only_what_this_very_dynamo_reported(team, user, folder, monkeypatch):
    """The host's rows had a target that this dynamo did not report."""
    with listening() as listener, dynamo(listener.port, folder):
        campaign = campaign_on(only_host(user=user), folder, user)
        Reported.objects.create(host=Host.objects.get(access="dynamo"), name="C:", raw=False)
        monkeypatch.setattr(session.DynamoSession, "_target_name", "C:")
        drive.plan_and_start(campaign)
        drive.to_the_end(campaign, 60)
    for attempt in Attempt.objects.all():
        assert "C: is not reported by this dynamo" in attempt.reason_text


def test_a_file_on_xfs_is_refused_by_the_plan(team, user, folder):
    with listening() as listener, dynamo(listener.port, folder, "fs=xfs"):
        campaign = campaign_on(only_host(user=user), folder, user, "xfs")
        assert not Reported.objects.get(raw=False).usable
        layout = campaign.layouts.get()
        previews.plan_draft(layout.pk)
    layout.refresh_from_db()
    assert "on XFS dynamo lays out only a sixteenth of its file" in layout.plan_error
    assert not (folder / "data" / "iobw.tst").exists()


def test_a_file_on_xfs_is_refused_where_a_plan_had_passed(team, user, folder, monkeypatch):
    """ "64 MiB" were measured on 4: nothing on the wire tells."""
    monkeypatch.setattr(
        planned, "specs", SimpleNamespace(laid_out_short=lambda name: False, SHORT="")
    )
    with listening() as listener, dynamo(listener.port, folder, "fs=xfs"):
        campaign = campaign_on(only_host(user=user), folder, user, "xfs")
        drive.plan_and_start(campaign)
        drive.to_the_end(campaign, 60)
    for attempt in Attempt.objects.all():
        assert (attempt.outcome, attempt.reason) == ("failed", "tool_failed")
        assert "on XFS dynamo lays out only a sixteenth of its file" in attempt.reason_text
    assert not (folder / "data" / "iobw.tst").exists()


def test_a_file_system_that_nobody_tried_marks_its_figures(team, user, folder):
    with listening() as listener, dynamo(listener.port, folder, "fs=f2fs"):
        campaign = campaign_on(only_host(user=user), folder, user, "f2fs")
        drive.plan_and_start(campaign)
        drive.to_the_end(campaign, 60)
    for attempt in Attempt.objects.all():
        note = attempt.measurements.get(name="iops", labels={}).note
        assert f"the size of dynamo's file on {folder}/data [f2fs] could not be checked" in note


def test_a_file_of_unknown_size_is_not_used(team, user, folder):
    (folder / "data" / "iobw.tst").write_bytes(b"x" * 4096)
    with listening() as listener, dynamo(listener.port, folder):
        campaign = campaign_on(only_host(user=user), folder, user)
        drive.plan_and_start(campaign)
        drive.to_the_end(campaign, 60)
    for attempt in Attempt.objects.all():
        assert (attempt.outcome, attempt.reason) == ("failed", "tool_failed")
        assert "knows only 0 of 1048576 bytes" in attempt.reason_text
        assert not attempt.measurements.exists()
    assert (folder / "data" / "iobw.tst").stat().st_size == 4096


def test_slots_that_a_dynamo_never_gives_back_are_told(team, user, folder):
    with listening() as listener, dynamo(listener.port, folder, "aio=20"):
        campaign = campaign_on(only_host(user=user), folder, user)
        drive.plan_and_start(campaign)
        drive.to_the_end(campaign, 60)
    first, second = Attempt.objects.order_by("run__position")
    assert first.outcome == "succeeded", first.reason_text
    assert (second.outcome, second.reason) == ("failed", "tool_failed")
    assert "was given 22, and only restarting it frees them" in second.reason_text


@pytest.mark.slow
def test_a_killed_listener_costs_the_attempt_and_another_is_made(team, user, folder):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with killable(port) as killed, dynamo(port, folder):
        campaign = campaign_on(only_host(user=user), folder, user, runtime_s=4)
        drive.plan_and_start(campaign)
        drive.until(campaign, lambda: Attempt.objects.filter(phase="running").exists(), 30)
        until(lambda: "RECORD_ON" in (folder / "sim.log").read_text())
        killed.kill()
        killed.wait()
        drive.until(campaign, lambda: Attempt.objects.filter(outcome="interrupted").exists(), 30)
    lost = Attempt.objects.get(outcome="interrupted")
    assert (lost.reason, lost.artifacts.count(), lost.measurements.count()) == ("worker_lost", 0, 0)
    before = DynamoLogin.objects.get().port
    with listening(port=port), dynamo(port, folder):
        until(lambda: DynamoLogin.objects.get().port != before)
        only_host(user=user, same_machine=True)
        drive.to_the_end(campaign, 90)
    again = lost.run.attempts.get(number=2)
    assert again.outcome == "succeeded", again.reason_text
    assert campaign.layouts.get().outcome == "succeeded"


@contextlib.contextmanager
def killable(port: int) -> Iterator[subprocess.Popen[bytes]]:
    """The command, in a process of its own, on the tests' database."""
    env = {
        **environment(), "BENCHLAB_DYNAMO_LISTEN": f"127.0.0.1:{port}", "BENCHLAB_DYNAMO_ALLOW": "127.0.0.1",
    }  # fmt: skip
    process = subprocess.Popen([sys.executable, "manage.py", "dynamo_listener"], env=env)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 0.2).close()
                break
            time.sleep(0.1)
        yield process
    finally:
        process.kill()
        process.wait()


def test_idle_connections_keep_no_dynamo_out(team, folder):
    """64 of them did so for 30 s."""
    with listening() as listener, contextlib.ExitStack() as idle:
        for _ in range(70):
            idle.enter_context(socket.create_connection(("127.0.0.1", listener.port)))
        with dynamo(listener.port, folder):
            assert only_host().name == "WIN-7"


def test_a_connection_that_sends_nothing_is_ended(team, monkeypatch):
    monkeypatch.setattr(dynamo_listening.await_first_byte, "__defaults__", (0.3,))
    with (
        listening() as listener,
        socket.create_connection(("127.0.0.1", listener.port)) as stranger,
    ):
        stranger.settimeout(5)
        assert stranger.recv(1) == b""


def test_who_is_not_on_the_list_is_not_spoken_to(team, folder):
    with listening(allowed="192.0.2.0/24") as listener:
        stranger = socket.create_connection(("127.0.0.1", listener.port))
        assert stranger.recv(1) == b""
        stranger.close()
    assert not Host.objects.exists()


def test_a_login_that_is_none_is_turned_away(team, folder, monkeypatch):
    monkeypatch.setattr(session._ListenerTransport, "GREETING", 1.0)
    with (
        listening() as listener,
        socket.create_connection(("127.0.0.1", listener.port)) as stranger,
    ):
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        stranger.settimeout(15)
        assert stranger.recv(1) == b""
    assert not Host.objects.exists()


@pytest.mark.parametrize("wrong", ["1066", "host:port", ":1066", "0.0.0.0:99999"])
def test_where_to_listen_is_an_address_and_a_port(wrong):
    with pytest.raises(SettingsError, match="address:port"):
        parse_listen_address(wrong)


@pytest.mark.parametrize("wrong", [[], ["everybody"], ["0.0.0.0/0"], ["::/0"]])
def test_nobody_is_listened_to_without_a_list(wrong):
    with pytest.raises(SettingsError, match="BENCHLAB_DYNAMO_ALLOW"):
        parse_networks(wrong)


def test_only_dynamos_workloads_on_what_it_reports(team, user, folder):
    host = Host.objects.create(team=team, name="win", access="dynamo", address="192.0.2.1")
    Reported.objects.create(host=host, name="C:", raw=False)
    scratch = Topology.objects.create(
        team=team, name="scratch", stack=[{"kind": "directory", "options": {}, "devices": []}]
    )
    its = Topology.objects.create(
        team=team,
        name="its",
        stack=[{"kind": "reported", "options": {"target": "C:"}, "devices": []}],
    )
    dd = Workload.objects.create(team=team, name="dd", tool="dd", options={})

    def make(topology: Topology, workload: Workload) -> Campaign:
        return create_campaign(
            team=team, user=user, name="x", question="", hosts=[host], topologies=[topology],
            workloads=[workload], repeats=1, order="as_written",
        )  # fmt: skip

    with pytest.raises(ValidationError, match="cannot be built on win"):
        make(scratch, dd)
    with pytest.raises(ValidationError, match="runs dynamo's alone"):
        make(its, dd)
