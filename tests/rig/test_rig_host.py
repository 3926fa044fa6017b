"""The practice host itself, on the real thing."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from benchlab.practice import (
    DiskSpec,
    PracticeError,
    PracticeHost,
    SlowDisk,
    UmlHost,
    add_scsi_disks,
    list_hosts,
    sweep_leftovers,
)
from benchlab.practice.paths import hosts_dir
from benchlab.practice.process import ProcessId, inside
from tests.rig.fixtures import new_name


@pytest.fixture(scope="module")
def rig_host(make_rig_host):
    """One of its own: it is killed and gets more disks here."""
    return make_rig_host()


def _disks(host: UmlHost) -> dict[str, dict[str, object]]:
    listed = host.ssh("lsblk", "--nodeps", "-J", "-b", "-o", "NAME,SIZE,SERIAL,WWN").stdout
    return {disk["name"]: disk for disk in json.loads(listed)["blockdevices"]}


def _host_key(host: UmlHost) -> str:
    return host.ssh("cat", "/etc/ssh/ssh_host_ed25519_key.pub").stdout


def _iops(host: UmlHost, device: str, depth: int) -> float:
    out = host.ssh(
        *("fio", "--name=x", f"--filename={device}", "--rw=randread", "--bs=4k", "--direct=1"),
        *("--ioengine=libaio", f"--iodepth={depth}", "--runtime=3", "--time_based"),
        "--output-format=json",
    ).stdout
    return float(json.loads(out)["jobs"][0]["read"]["iops"])


def test_a_host_boots_with_its_disks(rig_host):
    disks = _disks(rig_host)
    assert [name for name in disks if name != "ubda"] == ["ubdb", "ubdc", "ubdd", "ubde"]
    assert all(disks[f"ubd{letter}"]["size"] == 512 << 20 for letter in "bcde")
    assert disks["ubdb"]["serial"] is None
    assert disks["ubdc"]["serial"] == "RIG-DISK-1"


@pytest.mark.parametrize(("user", "code"), [("lab", 0), ("nosudo", 1)])
def test_only_lab_may_sudo(rig_host, user, code):
    assert rig_host.ssh("sudo", "-n", "true", user=user, check=False).returncode == code


def test_arguments_reach_the_guest_as_they_are(rig_host):
    assert rig_host.ssh("printf", "%s|", "a b", "$HOME", "';").stdout == "a b|$HOME|';|"


def test_scsi_disks_have_serial_and_wwn(rig_host):
    names = add_scsi_disks(rig_host, 2)
    disks = _disks(rig_host)
    identities = {(disks[name]["serial"], disks[name]["wwn"]) for name in names}
    assert len(identities) == 2
    assert all(serial and wwn for serial, wwn in identities)


class HangsOnce(UmlHost):
    """Its first kernel says nothing and answers nobody."""

    boots = 0

    def _kernel_argv(self) -> tuple[str, ...]:
        self.boots += 1
        type(self).boot_s = 3.0 if self.boots == 1 else UmlHost.boot_s
        return ("sleep", "3600") if self.boots == 1 else super()._kernel_argv()


def test_a_boot_that_hangs_is_begun_anew(uml_image, caplog):
    host = HangsOnce(new_name())
    try:
        host.start(owned=True)
        assert host.boots == 2 and host.ssh("true").returncode == 0
        assert f"{host.name} hangs in its boot" in caplog.text
    finally:
        host.stop()


def test_a_cut_network_is_silent_until_healed(rig_host):
    silent_until_healed(rig_host)


def silent_until_healed(host: PracticeHost) -> None:
    host.cut()
    try:
        with socket.create_connection(("127.0.0.1", host.port)) as link:
            link.settimeout(2)
            with pytest.raises(TimeoutError):
                link.recv(1)
        with pytest.raises(subprocess.TimeoutExpired):
            host.ssh("true", timeout=3)
    finally:
        host.heal()
    assert host.ssh("echo", "back").stdout == "back\n"


def test_a_running_command_survives_a_short_cut(rig_host):
    started = subprocess.Popen(
        [sys.executable, "-c", _SLEEPER, rig_host.name], stdout=subprocess.PIPE, text=True
    )
    time.sleep(1.5)
    rig_host.cut()
    time.sleep(3)
    rig_host.heal()
    assert started.communicate(timeout=60)[0] == "slept\n"


_SLEEPER = """
import sys
from benchlab.practice import UmlHost
print(UmlHost(sys.argv[1]).ssh("sh", "-c", "sleep 3; echo slept").stdout, end="")
"""


def test_power_loss_keeps_what_was_synced(rig_host):
    key, port, boot = _host_key(rig_host), rig_host.port, _boot_id(rig_host)
    write = ("dd", "if=/dev/stdin", "of=/dev/ubdc", "conv=fsync")
    rig_host.ssh(*write, stdin="kept".ljust(512))
    rig_host.kill()
    assert not rig_host.running
    rig_host.restart()
    assert rig_host.ssh("head", "-c", "4", "/dev/ubdc").stdout == "kept"
    assert (_host_key(rig_host), rig_host.port) == (key, port)
    assert _boot_id(rig_host) != boot


def _boot_id(host: UmlHost) -> str:
    return host.ssh("cat", "/proc/sys/kernel/random/boot_id").stdout


@pytest.mark.alone
def test_a_slow_disk_serves_one_request_at_a_time(make_rig_host):
    host = make_rig_host([], [SlowDisk(64, serial="SLOW-0"), SlowDisk(64, store="file")])
    assert _disks(host)["nbd0"]["serial"] == "SLOW-0"
    alone, crowded = (_iops(host, "/dev/nbd0", depth) for depth in (1, 8))
    # 1 ms is the least a request may take, however many wait; the rest is this machine's own load.
    assert 0 < alone < 1000
    assert 0 < crowded < 1000
    host.ssh("dd", "if=/dev/stdin", "of=/dev/nbd1", "conv=fsync", stdin="kept".ljust(512))
    host.restart()
    assert host.ssh("head", "-c", "4", "/dev/nbd1").stdout == "kept"


def test_stop_leaves_nothing_behind(make_rig_host):
    host = make_rig_host([DiskSpec(16)])
    record, port = host.record, host.port
    assert len(inside(host.network.path)) >= 2
    with pytest.raises(PracticeError, match="exists already"):
        host.start()
    host.stop()
    host.stop()
    assert not host.network.path.exists()
    assert not host.directory.exists()
    assert record.kernel
    assert record.forward
    # The kernel reaps the killed processes of the group in its own time
    until = time.monotonic() + 10
    while (left := _alive_in_group(record.kernel)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not left
    assert not record.forward.alive
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def _alive_in_group(leader: ProcessId) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (one := ProcessId.of_pid(int(entry.name))):
            try:
                group = os.getpgid(one.pid)
            except ProcessLookupError:
                continue
            if group == leader.pid:
                found.append(one.pid)
    return found


def test_hosts_whose_owner_died_are_swept(uml_image, monkeypatch):
    place = hosts_dir() / f"orphans-{os.getpid()}"  # where the other test process does not sweep
    monkeypatch.setenv("BENCHLAB_HOSTS", str(place))
    name = f"rig-orphan-{os.getpid()}"
    start = f"from benchlab.practice import UmlHost; UmlHost({name!r}).start(owned=True)"
    subprocess.run([sys.executable, "-c", start], check=True, timeout=300)
    host = UmlHost(name)
    try:
        assert [one.name for one in list_hosts()] == [name]
        assert host.running
        assert sweep_leftovers() == [name]
        assert not host.exists
        assert not host.network.socket_path.exists()
    finally:
        host.stop()
        shutil.rmtree(place)


def test_two_hosts_live_side_by_side(rig_host, make_rig_host):
    other = make_rig_host([])
    assert other.port != rig_host.port
    assert other.ssh("hostname").stdout.strip() == other.name
    assert rig_host.ssh("hostname").stdout.strip() == rig_host.name
    assert _host_key(other) != _host_key(rig_host)


def test_a_kernel_and_its_programs_stay_on_one_cpu(rig_host):
    record = rig_host.record
    assert record.kernel
    [cpu] = os.sched_getaffinity(record.kernel.pid)
    cpus = []
    for pid in _alive_in_group(record.kernel):
        with suppress(ProcessLookupError):  # it has ended meanwhile
            cpus.append(os.sched_getaffinity(pid))
    assert len(cpus) > 1
    assert all(its == {cpu} for its in cpus)
