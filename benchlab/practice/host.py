# SPDX-License-Identifier: Apache-2.0
"""A practice host of either kind: one process with a kernel in it, in a network namespace of its own."""

import hashlib
import logging
import os
import re
import shutil
import socket
import subprocess
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Self

from benchlab.practice import cpus
from benchlab.practice.disks import (
    MOST_DISKS,
    MOST_SLOW_DISKS,
    DiskSpec,
    SlowDisk,
    make_slow,
    wait_for_slow,
)
from benchlab.practice.errors import PracticeError
from benchlab.practice.machine import HostRecord, Progress
from benchlab.practice.network import Network
from benchlab.practice.paths import hosts_dir, images_dir, locked
from benchlab.practice.process import ProcessId, spawn
from benchlab.practice.ssh import hang_up, shared_ssh_argv
from benchlab.practice.store import Image

log = logging.getLogger(__name__)

# sshd answers in the midst of the boot: serials, arrays and bcache come with udev's events, and LVM's rule leaves each
# group to a unit of its own, for which udev does not wait.
_SETTLE = """
udevadm settle
while systemctl --no-legend list-units --state=activating,active 'lvm-activate-*' | grep -q .; do sleep 0.1; done
udevadm settle
"""


class PracticeHost(ABC):
    """A host by name. It exists from `start` to `stop`; in between it may be powered off.

    Every method may be called from another process than the one that started the host.
    """

    kind: ClassVar[str]
    """Its name in a host's record."""

    boot_s: ClassVar[float]
    """No boot that ends takes longer, on a busy machine either. One that hangs is begun anew, once."""

    one_cpu: ClassVar[bool]
    """Whether its kernel has but one: see cpus.py."""

    memory_mb: ClassVar[int]
    """What a host gets that asks for nothing else."""

    def __init__(self, name: str) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,31}", name):
            raise PracticeError(f"host name {name!r}: give 1 to 32 of a-z, 0-9 and dashes")
        self.name = name
        self.directory = hosts_dir() / name
        # Two installations may both have a host of this name; the machine's namespaces are shared.
        place = hashlib.sha256(str(self.directory).encode()).hexdigest()[:8]
        self.network = Network(f"practice-{name}-{place}")

    @property
    def record(self) -> HostRecord:
        """Record of the host's parts; PracticeError when there is no such host."""
        record = HostRecord.load(self.directory)
        if record is None:
            raise PracticeError(f"there is no practice host {self.name!r}: start it first")
        if record.kind != self.kind:
            raise PracticeError(f"host {self.name} is a {record.kind} host, not a {self.kind} one")
        return record

    @property
    def exists(self) -> bool:
        return HostRecord.load(self.directory) is not None

    @property
    def running(self) -> bool:
        record = HostRecord.load(self.directory)
        return bool(record and record.kernel and record.kernel.alive)

    @property
    def port(self) -> int:
        """sshd answers on 127.0.0.1 at this port; it stays the same until `stop`."""
        return self.record.port

    @property
    def key_path(self) -> Path:
        """The private key of root, lab (passwordless sudo) and nosudo."""
        return self._image().ssh_key

    @property
    def console(self) -> Path:
        """File with what the kernel and systemd printed."""
        return self.directory / "console.log"

    def start(
        self,
        disks: Sequence[DiskSpec] = (),
        slow_disks: Sequence[SlowDisk] = (),
        *,
        memory_mb: int | None = None,
        port: int = 0,
        owned: bool = False,
        progress: Progress = lambda _: None,
    ) -> Self:
        """Make the host and boot it to a working sshd, with all its disks there.

        An owned host is a leftover as soon as this process has ended: see `sweep_leftovers`.
        """
        if len(disks) > MOST_DISKS or len(slow_disks) > MOST_SLOW_DISKS:
            raise PracticeError(f"at most {MOST_DISKS} disks and {MOST_SLOW_DISKS} slow disks")
        self._check_disks(disks)
        image = self._ensure_image(progress)
        with locked(self._lock_file):
            if self.exists:
                raise PracticeError(f"host {self.name} exists already: restart it, or stop it")
            self._remove_directory()
            self.directory.mkdir(parents=True)
            try:
                memory_mb = memory_mb or self.memory_mb
                self._create_record(image, tuple(disks), tuple(slow_disks), memory_mb, port, owned)
                progress(f"booting {self.name}")
                self._boot()
                make_slow(self.ssh, self.record.slow_disks)
            except BaseException as error:
                self._explain(error)
                self._remove_directory()
                self._lock_file.unlink(missing_ok=True)
                raise
        return self

    def restart(self) -> None:
        """Power off, if it is on, and boot again: same disks, same port, same host key."""
        self._must_exist()
        with locked(self._lock_file):
            self._power_off()
            self._boot()
            wait_for_slow(self.ssh, self.record.slow_disks)

    def kill(self) -> None:
        """Power loss: disks keep what was synced, the network falls silent."""
        self._must_exist()
        with locked(self._lock_file):
            self._power_off()

    def stop(self) -> None:
        """End the host and remove everything of it; safe to call twice."""
        with locked(self._lock_file):
            self._remove_directory()
            self._lock_file.unlink(missing_ok=True)

    def cut(self) -> None:
        """Cut the network cable."""
        self._must_exist()
        self.network.cut()

    def heal(self) -> None:
        """Plug it in again."""
        self._must_exist()
        self.network.heal()

    def ssh(
        self,
        *argv: str,
        user: str = "root",
        stdin: str = "",
        check: bool = True,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the guest, arguments as they are; PracticeError unless it ends with 0.

        For tests and for making disks: the product reaches hosts by agents/ssh/shell.py.
        """
        completed = subprocess.run(
            shared_ssh_argv(self.directory, self.port, self.key_path, user, argv),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and completed.returncode:
            raise PracticeError(
                f"{self.name}: {' '.join(argv)} ended with {completed.returncode}: "
                + (completed.stderr or completed.stdout).strip()
            )
        return completed

    @abstractmethod
    def _check_disks(self, disks: Sequence[DiskSpec]) -> None:
        """PracticeError naming a disk that this kind of host cannot have."""

    @abstractmethod
    def _ensure_image(self, progress: Progress) -> Image:
        """The root image, built now if it is not there."""

    @abstractmethod
    def _make_root(self, image: Image) -> None:
        """Make the file that takes what the guest writes to its root, unless the kernel does."""

    @abstractmethod
    def _kernel_argv(self) -> tuple[str, ...]:
        """The process that is the host."""

    def _image(self) -> Image:
        name = self.record.image
        return Image(name, images_dir() / name)

    def _must_exist(self) -> None:
        _ = self.record

    @property
    def _lock_file(self) -> Path:
        return hosts_dir() / f"{self.name}.lock"

    def _create_record(
        self,
        image: Image,
        disks: tuple[DiskSpec, ...],
        slow_disks: tuple[SlowDisk, ...],
        memory_mb: int,
        port: int,
        owned: bool,
    ) -> None:
        owner = ProcessId.of_pid(os.getpid()) if owned else None
        machine_id = uuid.uuid4().hex
        record = HostRecord(
            self.kind, port, memory_mb, image.name, machine_id, disks, slow_disks, owner
        )
        record.save(self.directory)
        for index, disk in enumerate(disks, start=1):
            with self._disk_file(index).open("wb") as handle:
                handle.truncate(disk.size_mb << 20)
        self._make_root(image)
        self.network.up()
        forward, chosen = self.network.forward(port, self.directory / "forward.log")
        replace(record, port=chosen, forward=forward).save(self.directory)

    def _disk_file(self, index: int) -> Path:
        return self.directory / f"disk{index}.img"

    def _power_on(self) -> ProcessId:
        with cpus.bound() if self.one_cpu else nullcontext():
            kernel = spawn(self._kernel_argv(), self.console)
            self.record.with_kernel(kernel).save(self.directory)
        return kernel

    def _boot(self) -> None:
        if not self._answers(self._power_on()):
            # Seen once in some thousand boots under emulation: not a word on the console, and no sshd.
            log.warning("%s hangs in its boot, and boots anew: %s", self.name, self._last_words())
            self._power_off()
            if not self._answers(self._power_on()):
                raise PracticeError(f"{self.name}: no sshd after twice {self.boot_s:.0f} s")
        self.ssh("timeout", "150", "sh", "-c", _SETTLE, timeout=self.boot_s)

    def _answers(self, kernel: ProcessId) -> bool:
        """Wait for sshd; False: it is not there in time, and the kernel still runs."""
        deadline = time.monotonic() + self.boot_s
        while time.monotonic() < deadline:
            if not kernel.alive:
                last_words = self._last_words()
                raise PracticeError(
                    f"the kernel of {self.name} ended while it booted: {last_words}"
                )
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as link:
                # each try costs the guest a process
                link.settimeout(10)
                if link.recv(8).startswith(b"SSH-2.0"):
                    return True
            time.sleep(0.1)
        return False

    def _last_words(self) -> str:
        return self.console.read_text(errors="replace").strip()[-400:]

    def _power_off(self) -> None:
        record = self.record
        if record.kernel:
            record.kernel.kill()
            record.with_kernel(None).save(self.directory)
        hang_up(self.directory)
        # The kernel's pid file would be taken for a running machine's by the next boot.
        shutil.rmtree(self.directory / "uml", ignore_errors=True)

    def _remove_directory(self) -> None:
        if record := HostRecord.load(self.directory):
            for process in (record.kernel, record.forward):
                if process:
                    process.kill()
        self.network.down()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _explain(self, error: BaseException) -> None:
        """Add the console's last lines to the error, before they are removed with the host."""
        with suppress(OSError):
            lines = self.console.read_text(errors="replace").splitlines()[-15:]
            error.add_note("last lines of the console:\n" + "\n".join(lines))


def add_scsi_disks(host: PracticeHost, count: int = 2, size_mb: int = 96) -> list[str]:
    """Make `count` SCSI disks with serial and WWN, /dev/sda and on. Returns their names without /dev/.

    The kernel's scsi_debug driver keeps them in the guest's memory, until its next power loss. Under
    a delay the driver aborts some reads, so they have none: good for identity and layouts, not for
    numbers.
    """
    if not 1 <= count <= 16:
        raise PracticeError(f"{count} SCSI disks: give 1 to 16")
    host.ssh(
        *("modprobe", "scsi_debug", f"add_host={count}", "per_host_store=1"),
        *(f"dev_size_mb={size_mb}", "delay=0", "removable=0"),
    )
    host.ssh("udevadm", "settle")
    listing = host.ssh("lsblk", "--nodeps", "--noheadings", "--output", "NAME,MODEL").stdout
    names = [line.split()[0] for line in listing.splitlines() if line.split()[1:] == ["scsi_debug"]]
    if len(names) != count:
        raise PracticeError(f"{host.name}: scsi_debug made {len(names)} disks, not {count}")
    return names
