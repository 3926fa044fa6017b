"""Hosts on which dynamo would not run as it is, and devices that it must not have."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents.dynamo import areas, hostfacts, link, process
from agents.dynamo.console import Turn
from agents.dynamo.messages import Disk
from agents.dynamo.process import DynamoProcess
from agents.dynamo.wire import DynamoError

ARGV = ["/opt/dynamo", "-i", "127.0.0.1"]
INFO = "processor\t: {}\ncpu MHz\t\t: 2596.120\nflags\t\t: x\n\n"


@pytest.fixture
def plain_host(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(hostfacts, "cpus", lambda: 64)
    monkeypatch.setattr(hostfacts, "own_name_resolves", lambda: True)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return monkeypatch


def test_a_plain_host_runs_it_as_it_is(plain_host: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert process.wrap_command(ARGV, tmp_path) == ARGV


def test_more_than_64_cpus_are_hidden_from_it(
    plain_host: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cpus = [INFO.format(n) for n in range(128)]
    plain_host.setattr(hostfacts, "cpus", lambda: 128)
    plain_host.setattr(hostfacts, "first_cpus", lambda most: "".join(cpus[:most]))
    made = process.wrap_command(ARGV, tmp_path)
    assert made[:4] == ["unshare", "--mount", "sh", "-c"]
    assert made[5:] == ["dynamo", str(tmp_path / "cpuinfo"), "", *ARGV]
    assert (tmp_path / "cpuinfo").read_text().count("processor\t") == 64


def test_a_name_that_does_not_resolve_is_another_one_for_it_alone(
    plain_host: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plain_host.setattr(hostfacts, "own_name_resolves", lambda: False)
    made = process.wrap_command(ARGV, tmp_path)
    assert made[:3] == ["unshare", "--mount", "--uts"]
    assert made[-5:] == ["", "localhost", *ARGV]


@pytest.mark.parametrize("lack", ["cpus", "name"])
def test_without_root_the_cure_is_told(
    plain_host: pytest.MonkeyPatch, tmp_path: Path, lack: str
) -> None:
    plain_host.setattr(os, "geteuid", lambda: 1000)
    if lack == "cpus":
        plain_host.setattr(hostfacts, "cpus", lambda: 65)
    else:
        plain_host.setattr(hostfacts, "own_name_resolves", lambda: False)
    with pytest.raises(DynamoError, match=r"64 CPUs|/etc/hosts") as caught:
        process.wrap_command(ARGV, tmp_path)
    assert "as root" in str(caught.value)


def private() -> bool:
    """True when name spaces can be made here."""
    return not subprocess.run(
        ["unshare", "--mount", "--uts", "true"], capture_output=True, check=False
    ).returncode


@pytest.mark.skipif(os.geteuid() != 0 or not private(), reason="needs root and name spaces")
def test_the_private_name_space_shows_it_64_cpus_and_leaves_the_host_alone(tmp_path: Path) -> None:
    short = tmp_path / "cpuinfo"
    short.write_text("".join(INFO.format(n) for n in range(64)))
    before = Path("/proc/cpuinfo").read_text().count("processor"), os.uname().nodename
    said = subprocess.run(
        ["unshare", "--mount", "--uts", "sh", "-c", process.PRIVATE, "dynamo", str(short), "localhost",
         "sh", "-c", "grep -c ^processor /proc/cpuinfo; uname -n"],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    assert said == ["64", "localhost"]
    assert (Path("/proc/cpuinfo").read_text().count("processor"), os.uname().nodename) == before


def test_the_first_cpus_are_whole_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Path, "read_text", lambda *a, **k: "".join(INFO.format(n) for n in range(9))
    )
    assert hostfacts.first_cpus(3) == "".join(INFO.format(n) for n in range(3))
    assert hostfacts.cpus() == 9


def test_a_host_without_cpu_mhz_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *a, **k: "processor\t: 0\nBogoMIPS\t: 50\n")
    with pytest.raises(DynamoError, match="cpu MHz"):
        hostfacts.cpus()


DISKSTATS = """ 253       3 dm-3 100 0 800 5 200 0 1600 9 0 4 14
   8       0 sda 1 2 3 4 5 6 7 8 9 10 11
"""


def test_the_kernels_own_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *a, **k: DISKSTATS)
    assert hostfacts.read_diskstats(["253:3"]) == {"253:3": [100, 800 * 512, 200, 1600 * 512]}
    assert hostfacts.read_diskstats(["9:9"]) == {}


@pytest.mark.parametrize(("path", "said"), [
    ("/dev/null", "not a block device"), ("/nowhere/at/all", "No such file"),
])  # fmt: skip
def test_what_is_no_free_device_is_refused(path: str, said: str) -> None:
    with pytest.raises(DynamoError, match=said):
        hostfacts.device_place(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_mounted_device_is_refused() -> None:
    """dynamo would write over it. O_EXCL asks the kernel, who knows of mounts and of RAID and LVM members."""
    mounted = [
        words[0] for words in map(str.split, Path("/proc/mounts").read_text().splitlines())
        if words[0].startswith("/dev/") and Path(words[0]).is_block_device()
    ]  # fmt: skip
    if not mounted:
        pytest.skip("no mounted device here")
    with pytest.raises(DynamoError, match="cannot be opened exclusively"):
        hostfacts.device_place(mounted[0])


def test_slices_of_a_volume_do_not_overlap(tmp_path: Path) -> None:
    here = hostfacts.Place(512, 512, 1 << 30, "253:3")
    wish = areas.TestSettings(
        "dynamo", ("8192",), volume="/dev/bl1/data", workers=2, targets=2, own=True, size=0
    )
    found = areas.target_areas(wish, here)
    assert [(area.start, area.size) for area in found] == [(n << 28, 1 << 28) for n in range(4)]
    assert all(area.is_ready() for area in found)  # a device needs no preparation
    trial = areas.build_trial(wish, here, found)
    disks = [t.details for targets in trial.workers for t in targets]
    starts = [disk.starting_sector for disk in disks if isinstance(disk, Disk)]
    assert starts == [n << 19 for n in range(4)]
    with pytest.raises(DynamoError, match="do not fit"):
        areas.target_areas(wish._replace(size=1 << 29), here)


# All that the real one printed on a good run.
USUAL = """Command line parameter(s):
   Looking for Iometer on "127.0.0.1"
   New manager name is "benchlab-e23b048f707b"
Sending login request...
   benchlab-e23b048f707b
   127.0.0.1 (port 49521)
Successful PortTCP::Connect
  - port name: 127.0.0.1

*** If dynamo and iometer hangs here, please make sure
*** you use a correct -m <manager_computer_name> that
*** can ping from iometer machine. use IP if need.
   Login accepted.
Worker 0 running Access Spec: 8192 B
Access specifications for test defined.
Grunt: Growing grunt data buffer from 8192 to 8192
Worker 0 setting targets...
Seeding random Number Generator(11400714819323198486)
   Generating random data...
Preparing disks...
   /mnt/bl1/iometer1 preparing.
   /mnt/bl1/iometer1 done.
Worker 0 running Access Spec: 8192 B
Access specifications for test defined.
Grunt: Grunt data buffer size 8192 >= 8192, returning
Worker 0 setting targets...
Seeding random Number Generator(11400714819323198486)
   Generating random data...
Starting...
   Opening targets.
Beginning to perform I/O...
   Stopped.
Stopping...
*** Grunt thread exiting with 3 still active
   Stopped.
Removing all workers.
Ending execution.
Error receiving message.
"""


def test_what_it_says_on_every_run_is_no_error(tmp_path: Path) -> None:
    script = tmp_path / "dynamo"
    script.write_text(
        "#!/bin/sh\necho Dynamo version 1.1.0, x86-64\n"
        "echo '*** Grunt thread exiting with 3 still active'\necho 'Set_Sizes: Open failed'\n"
        f"cat <<'end'\n{USUAL}end\n"
    )
    script.chmod(0o755)
    running = DynamoProcess([str(script)], tmp_path, ["/mnt/a"])
    for _ in range(100):
        if running.has_ended:
            break
        time.sleep(0.02)
    assert running.last_words() == "; dynamo printed: Set_Sizes: Open failed"
    assert running.printed_version() == "Dynamo version 1.1.0, x86-64"
    assert (tmp_path / "mnttab").read_text() == "none /mnt/a ext4 rw 0 0\n"
    running.wait_or_kill(0)


def test_a_program_that_is_none_is_told(tmp_path: Path) -> None:
    broken = tmp_path / "dynamo"
    broken.write_bytes(b"\x7fELF")
    broken.chmod(0o755)
    with pytest.raises(DynamoError, match="Exec format error"):
        DynamoProcess([str(broken)], tmp_path, [])


def test_a_full_file_system_is_never_prepared_on() -> None:
    wish = areas.TestSettings("dynamo", ("8192",), mount="/mnt/none", size=1 << 30)
    free = hostfacts.Place(4096, 512, (1 << 30) + hostfacts.SPARE - 1, "")
    with pytest.raises(DynamoError, match="a full file system performs differently"):
        areas.target_areas(wish, free)
    assert areas.target_areas(wish, free._replace(size=free.size + 1))


@pytest.mark.parametrize(
    ("lacks", "head", "there", "given"),
    [
        (["libaio.so.1"], b"\x7fELF\x02", True, True),
        (["libaio.so.1"], b"\x7fELF\x02", False, False),
        (["libaio.so.1"], b"\x7fELF\x01", True, False),  # 32 bits: not the same library
        ([], b"\x7fELF\x02", True, False),
    ],
)
def test_libaio_is_found_by_debians_new_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lacks: list[str], head: bytes, there: bool, given: bool,
) -> None:  # fmt: skip
    program, renamed = tmp_path / "dynamo", tmp_path / "libaio.so.1t64"
    program.write_bytes(head)
    if there:
        renamed.write_bytes(b"")
    monkeypatch.setattr(hostfacts, "_unresolved_libraries", lambda path: [*lacks, "libother.so"])
    monkeypatch.setattr(hostfacts, "RENAMED_LIBAIO", (str(renamed),))
    found = hostfacts.renamed_libaio(str(program))
    assert found == (str(renamed) if given else "")
    left = hostfacts.missing_libraries(str(program))
    assert left == ["libother.so"] if given or not lacks else left == [*lacks, "libother.so"]


def test_it_gets_libaio_by_the_name_it_knows(
    plain_host: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plain_host.setattr(hostfacts, "renamed_libaio", lambda path: "/lib/libaio.so.1t64")
    script = tmp_path / "dynamo"
    script.write_text('#!/bin/sh\nreadlink "$LD_LIBRARY_PATH"/libaio.so.1\n')
    script.chmod(0o755)
    for _ in range(2):  # also a second time in the same directory
        running = DynamoProcess([str(script)], tmp_path, [])
        running.wait_or_kill(5.0)
        assert "/lib/libaio.so.1t64" in running.last_words()


def test_whom_we_killed_did_not_crash(plain_host: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "dynamo"
    script.write_text("#!/bin/sh\nexec sleep 30\n")
    script.chmod(0o755)
    running = DynamoProcess([str(script)], tmp_path, [])
    running.wait_or_kill(0.1)
    assert running.has_ended and running.last_words() == ""


def test_a_machine_that_lost_its_power_is_noticed() -> None:
    with socket.socket() as stream:
        link.set_socket_options(stream)
        idle = stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
        tries = stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
        apart = stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL)
    assert idle + tries * apart < 60


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_session(number: int) -> None:
    stopper = link.Stopper()
    try:
        assert not stopper.stopped
        os.kill(os.getpid(), number)
        assert stopper.stopped and select.select([stopper], [], [], 5.0)[0] == [stopper]
    finally:
        stopper.close()


@pytest.mark.parametrize(
    ("deadline", "look", "ends", "waits"),
    [(None, 101.0, None, 1.0), (100.5, 101.0, None, 0.5), (102.0, 101.0, 100.25, 0.25), (99.0, 101.0, None, 0.0)],
)  # fmt: skip
def test_the_first_that_is_due_is_waited_for(monkeypatch, deadline, look, ends, waits) -> None:
    waited: list[float] = []

    def ready(readers: list, *others: Any) -> tuple[list, ...]:
        waited.append(others[-1])
        return (readers, [], [])

    monkeypatch.setattr(link, "clock", lambda: 100.0)
    monkeypatch.setattr(link.select, "select", ready)
    stopper, console = link.StopSignal(), SimpleNamespace(deadline=deadline)
    here, there = socket.socketpair()
    with contextlib.closing(stopper), here, there:
        talk: Any = link.Transport(None, stopper, None, None)
        talk._stream = here
        assert talk._wait_ready(console, look, ends) == [here, stopper]
    assert waited == [waits]


class Session:
    """A console that is over so many turns after it was cancelled; of None never."""

    def __init__(self, turns: int | None) -> None:
        self.turns, self.cancelled = turns, False
        self.deadline, self.failure, self.result = 0.0, None, "result"

    @property
    def over(self) -> bool:
        return self.cancelled and self.turns == 0

    def start_script(self, now: float) -> Turn:
        return Turn(b"", ())

    def cancel(self, now: float) -> Turn:
        self.cancelled = True
        return Turn(b"", ())

    def tick(self, now: float) -> Turn:
        if self.cancelled and self.turns:
            self.turns -= 1
        return Turn(b"", ())


def serve(session: Any) -> object:
    """What a session that was stopped before it began comes to."""
    stopper = link.StopSignal()
    stopper.stopped = True
    here, there = socket.socketpair()
    with contextlib.closing(stopper), here, there:
        talk = link.Transport(None, stopper, None, lambda now: "")
        talk._stream = here
        return talk._run_console(session)


def test_a_stopped_session_has_time_to_end() -> None:
    assert serve(Session(3)) == "result"


def test_a_stopped_session_that_does_not_end_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link.Transport, "ENDING", 0.05)
    with pytest.raises(DynamoError, match="did not become idle"):
        serve(Session(None))
