"""The real dynamo 1.1.0, where this machine has it: logins, campaigns, its clock, and its figures checked by hand.

BENCHLAB_DYNAMO names the program if it is not on the PATH; docs/tests.md says how to build it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.dynamo import link, transcript
from benchlab.dynamo import session
from benchlab.dynamo.models import DynamoLogin, Reported
from benchlab.hosts.models import Host
from benchlab.runs.models import Artifact, Attempt
from tests.dynamo.test_listening import campaign_on, listening, only_host, until
from tests.dynamo.test_listening import folder as folder
from tests.runs import drive

PROGRAM = os.environ.get("BENCHLAB_DYNAMO") or shutil.which("dynamo") or ""
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.night,
    pytest.mark.skipif(not PROGRAM, reason="no dynamo here; BENCHLAB_DYNAMO may name one"),
]
RESULTS = 0x10000008
WHOLE = 888840


@contextlib.contextmanager
def real(
    port: int, folder: Path, name: str = "WIN-7", mhz: float = 0.0
) -> Iterator[subprocess.Popen[bytes]]:
    """A dynamo that finds `folder`/data, and no disk of this machine. `mhz`: its clock, as it is told."""
    disks = [line.split()[3] for line in Path("/proc/partitions").read_text().splitlines()[2:]]
    table = [f"/dev/{disk} /nowhere ext4 rw 0 0" for disk in disks]
    (folder / "mnttab").write_text("\n".join([*table, f"none {folder}/data ext4 rw 0 0", ""]))
    argv = [PROGRAM, "-i", "127.0.0.1", "-p", str(port), "-m", "127.0.0.1", "-n", name]
    if mhz:
        facts = Path("/proc/cpuinfo").read_text().splitlines(keepends=True)
        told = (f"cpu MHz\t\t: {mhz}\n" if line.startswith("cpu MHz") else line for line in facts)
        (folder / "cpuinfo").write_text("".join(told))
        script = 'mount --bind "$0" /proc/cpuinfo && exec "$@"'
        argv = ["unshare", "-m", "sh", "-c", script, str(folder / "cpuinfo"), *argv]
    env = {**os.environ, "MNTTAB": str(folder / "mnttab")}
    process = subprocess.Popen(argv, cwd=folder, env=env, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class ByHand:
    """Figures of the last test of a session, from the places that the protocol has them at; no code of ours decodes."""

    def __init__(self, attempt: Attempt) -> None:
        records = transcript.parse_transcript(Artifact.objects.get(attempt=attempt).read()).records
        login = next(
            row.message_bytes for row in records if (row.channel, row.wire) == ("L", WHOLE)
        )
        _, self.cpus, self.ticks = struct.unpack_from("<Hid", login, 344)
        asked, answers = 0, dict[int, list[bytes]]()
        for row in (row for row in records if row.channel == "C"):
            if row.kind == ">" and row.wire == 8:
                asked = struct.unpack("<Ii", row.message_bytes)[0]
                answers[asked] = []
            elif row.kind == "<":
                answers[asked].append(row.message_bytes)
        self.manager, *workers = answers[RESULTS]
        self.rows = [
            (*struct.unpack_from("<QQ", raw, 8), struct.unpack_from("<6Q2I9Q21q", raw, 28))
            for raw in workers
        ]

    def figures(self, ticks: float) -> dict[str, float]:
        """By their names here; `ticks` of a second."""
        made: dict[str, float] = {"tick_rate.reported": self.ticks}
        ways = {"read.": (2, 0, 9, 8, 6), "write.": (3, 1, 11, 10, 7)}
        sums: dict[str, float] = {}
        for prefix, (count, size, total, most, errors) in ways.items():
            spans = [(last - first) / ticks for first, last, _ in self.rows]
            rows = [row for _, _, row in self.rows]
            made[f"{prefix}iops"] = sum(r[count] / s for r, s in zip(rows, spans, strict=True))
            made[f"{prefix}bandwidth"] = sum(r[size] / s for r, s in zip(rows, spans, strict=True))
            made[f"{prefix}ios"] = sum(row[count] for row in rows)
            made[f"{prefix}bytes"] = sum(row[size] for row in rows)
            made[f"{prefix}errors"] = sum(row[errors] for row in rows)
            made[f"{prefix}lat.max"] = max(row[most] for row in rows) / ticks
            sums[prefix] = sum(row[total] for row in rows) / ticks
            made[f"{prefix}lat.mean"] = sums[prefix] / made[f"{prefix}ios"]
        for name in ("iops", "bandwidth", "ios", "bytes", "errors"):
            made[name] = made[f"read.{name}"] + made[f"write.{name}"]
        made["lat.max"] = max(made["read.lat.max"], made["write.lat.max"])
        made["lat.mean"] = sum(sums.values()) / made["ios"]
        busy = [struct.unpack_from("<3d", self.manager, 28 + 48 * cpu) for cpu in range(self.cpus)]
        for column, name in enumerate(("cpu.busy", "cpu.user", "cpu.system")):
            made[name] = sum(row[column] for row in busy) / self.cpus / 100
        return made


def figures_of(attempt: Attempt) -> dict[str, Any]:
    assert attempt.outcome == "succeeded", attempt.reason_text
    return dict(attempt.measurements.filter(labels={}).values_list("name", "value"))


def checked(attempt: Attempt) -> dict[str, Any]:
    """The stored figures, all of them equal to those by hand, and all I/Os in the bins."""
    shown, hand = figures_of(attempt), ByHand(attempt)
    note = attempt.measurements.get(name="iops", labels={}).note
    ticks = shown["tick_rate.measured"] if "the measured rate is used" in note else hand.ticks
    for name, value in hand.figures(ticks).items():
        assert shown[name] == pytest.approx(value, rel=1e-9, abs=1e-12), name
    bins = attempt.measurements.filter(name="lat.bin").exclude(labels__has_key="worker")
    hits = [sum(row[17 + number] for *_, row in hand.rows) for number in range(21)]
    assert [row.value for row in bins.order_by("pk")] == hits
    assert sum(hits) == shown["ios"]
    return shown


def accept(web: Any, host: Host, **more: str) -> None:
    web.post(f"/hosts/{host.pk}/accept-dynamo/", {"port": host.dynamo_login.port, **more})


def test_a_campaign_with_its_figures(team, user, web, folder):
    with listening() as listener, real(listener.port, folder):
        host = only_host()
        assert {(row.name, row.raw) for row in host.reported.all()} == {
            (f"{folder}/data [ext4]", False)
        }
        accept(web, host)
        campaign = campaign_on(host, folder, user, size=16 << 20, runtime_s=3, ramp_s=1, workers=2)
        drive.plan_and_start(campaign)
        drive.to_the_end(campaign, 90)
    for attempt in Attempt.objects.order_by("pk"):
        shown = checked(attempt)
        outstanding = attempt.run.options["outstanding_ios"] * 2
        assert shown["iops"] * shown["lat.mean"] == pytest.approx(outstanding, rel=0.05)
    assert (folder / "data" / "iobw.tst").stat().st_size == 16 << 20


def test_a_second_one_of_its_name_is_ended(team, user, web, folder):
    other = folder / "other"
    (other / "data").mkdir(parents=True)
    with listening() as listener, real(listener.port, folder):
        host = only_host()
        accept(web, host)
        with real(listener.port, other) as second:
            assert second.wait(20) == 0
        with real(listener.port, other, "WIN-8"):
            until(lambda: Host.objects.filter(name="WIN-8", seen_at__isnull=False).exists())
            campaign = campaign_on(host, folder, user)
            drive.plan_and_start(campaign)
            drive.to_the_end(campaign, 90)
    assert [checked(row)["ios"] > 0 for row in Attempt.objects.all()] == [True, True]
    assert (folder / "data" / "iobw.tst").exists()
    assert not (other / "data" / "iobw.tst").exists()
    host.dynamo_login.refresh_from_db()
    assert "a second dynamo logged in as 'WIN-7'" in host.dynamo_login.refusal


def test_a_restarted_one_is_accepted_again(team, user, web, folder):
    with listening() as listener:
        with real(listener.port, folder):
            accept(web, only_host())
            first = campaign_on(Host.objects.get(), folder, user)
            drive.plan_and_start(first)
            drive.to_the_end(first, 90)
        before = DynamoLogin.objects.get()
        assert before.is_accepted
        with real(listener.port, folder):
            until(lambda: DynamoLogin.objects.get().port != before.port)
            host = only_host()
            assert not host.dynamo_login.is_accepted
            accept(web, host, same_machine="1")
            assert Reported.objects.get().prepared == 1 << 20
            second = campaign_on(host, folder, user)
            drive.plan_and_start(second)
            drive.to_the_end(second, 90)
    for attempt in Attempt.objects.filter(run__campaign=second):
        checked(attempt)


def slow(stream: socket.socket, rate: float) -> socket.socket:
    """The same stream, whose data messages come with `rate` bytes a second."""
    near, far = socket.socketpair()

    def carry(source: socket.socket, sink: socket.socket, pace: float) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 15):
                time.sleep(len(data) / pace if len(data) > 8 else 0)
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def relay() -> None:
        requests = threading.Thread(target=carry, args=(far, stream, 1e9), daemon=True)
        requests.start()
        carry(stream, far, rate)
        requests.join()
        far.close()
        stream.close()

    threading.Thread(target=relay, daemon=True).start()
    return near


@pytest.mark.parametrize("pace", [0.0, 2e6])
@pytest.mark.parametrize("off", [0.94, 1.0, 2.0])
def test_a_wrong_clock_is_found_out(team, user, web, folder, monkeypatch, pace, off):
    """Answers that take a second each hide nothing: IOPS are within 1 % of those by the true rate."""
    if pace:
        connect = link.connect_back
        monkeypatch.setattr(session, "connect_back", lambda *more: slow(connect(*more), pace))
    facts = Path("/proc/cpuinfo").read_text().splitlines()
    true = float(next(line.split()[-1] for line in facts if line.startswith("cpu MHz")))
    with listening() as listener, real(listener.port, folder, mhz=true * off):
        host = only_host()
        accept(web, host)
        campaign = campaign_on(host, folder, user, runtime_s=9)
        drive.plan_and_start(campaign)
        drive.to_the_end(campaign, 150)
    for attempt in Attempt.objects.all():
        shown = checked(attempt)
        by_true_rate = ByHand(attempt).figures(true * 1e6)["iops"]
        assert shown["iops"] == pytest.approx(by_true_rate, rel=0.01)
        note = attempt.measurements.get(name="iops", labels={}).note
        assert "the measured rate is used" in note or off == 1.0
        assert ("because its answers took long" in note) == bool(pace)
