# SPDX-License-Identifier: Apache-2.0
"""All practice hosts of this installation: make the usual one, list them, clear what a crash left."""

from collections.abc import Iterator
from contextlib import suppress

from benchlab.practice.disks import DiskSpec, SlowDisk
from benchlab.practice.errors import PracticeError
from benchlab.practice.host import PracticeHost
from benchlab.practice.machine import HostRecord, Progress
from benchlab.practice.paths import hosts_dir
from benchlab.practice.qemu import QemuHost
from benchlab.practice.uml import UmlHost

FAST = DiskSpec(size_mb=2048, serial="PRACTICE-FAST")
SLOW = tuple(SlowDisk(size_mb=512, serial=f"PRACTICE-SLOW{n}") for n in range(4))
_KINDS: dict[str, type[PracticeHost]] = {kind.kind: kind for kind in (UmlHost, QemuHost)}
_MEMORY_MB = 2560
"""The slow disks are in the guest's memory; what they do not use, this machine does not give."""


def boot_practice_host(name: str = "practice", progress: Progress = lambda _: None) -> UmlHost:
    """The host to try things on: running as it is, or powered on again, or made new.

    /dev/ubdb is fast; /dev/nbd0 to /dev/nbd3 serve one request at a time, each in over 1 ms.
    """
    host = UmlHost(name)
    if not host.exists:
        return host.start([FAST], SLOW, memory_mb=_MEMORY_MB, progress=progress)
    if not host.running:
        progress(f"booting {name}")
        host.restart()
    return host


def open_host(name: str) -> PracticeHost:
    """The host of that name, of whichever kind it is; PracticeError when there is none."""
    record = HostRecord.load(hosts_dir() / name)
    if record is None:
        raise PracticeError(f"there is no practice host {name!r}: start it first")
    return _KINDS[record.kind](name)


def list_hosts() -> list[PracticeHost]:
    """Every host that exists in this installation, running or powered off, by name."""
    hosts: list[PracticeHost] = []
    for name in sorted(_host_names()):
        # another process has stopped it since
        with suppress(PracticeError):
            hosts.append(open_host(name))
    return hosts


def sweep_leftovers() -> list[str]:
    """Stop the hosts whose owner has died without stopping them; their names.

    Only what a host's own record names, by pid and start time, or runs in its own network
    namespace, is ended; a host without an owner is somebody's to keep.
    """
    swept = []
    for host in list_hosts():
        record = HostRecord.load(host.directory)
        if record and record.owner and not record.owner.alive:
            host.stop()
            swept.append(host.name)
    return swept


def _host_names() -> Iterator[str]:
    if not hosts_dir().is_dir():
        return
    for directory in hosts_dir().iterdir():
        if HostRecord.load(directory):
            yield directory.name
