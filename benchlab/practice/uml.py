# SPDX-License-Identifier: Apache-2.0
"""A real Linux host in one process: Debian's User Mode Linux kernel on a copy-on-write root.

The root image is built once per recipe.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from benchlab.practice.disks import DiskSpec
from benchlab.practice.errors import PracticeError, run_command
from benchlab.practice.host import PracticeHost
from benchlab.practice.machine import (
    COMPILER,
    KERNEL,
    Progress,
    cpu_mhz,
    kernel_version,
    require_tools,
    wide_registers,
)
from benchlab.practice.network import TAP
from benchlab.practice.recipe import PACKAGES, SUITE, guest_id
from benchlab.practice.store import Image, ensure
from benchlab.practice.tree import furnish, make_key, unpack, write_root

_SHIM = Path(__file__).with_name("uml-shim") / "xstate.c"
_SHIM_MB = 1


class UmlHost(PracticeHost):
    """Boots in a few seconds; has all layers but OpenZFS; one CPU; its disks have no speed limit."""

    kind = "uml"
    boot_s = 120.0
    one_cpu = True
    memory_mb = 768

    def _check_disks(self, disks: Sequence[DiskSpec]) -> None:
        if capped := [disk for disk in disks if disk.iops]:
            raise PracticeError(
                f"User Mode Linux cannot cap a disk's IOPS: {capped[0]}; use a SlowDisk or QemuHost"
            )

    def _ensure_image(self, progress: Progress) -> Image:
        return ensure_image(progress)

    def _make_root(self, image: Image) -> None:
        """The kernel itself makes root.cow."""

    def _kernel_argv(self) -> tuple[str, ...]:
        record, image = self.record, self._image()
        disks = (self._disk_argument(index, disk) for index, disk in enumerate(record.disks, 1))
        return (
            *("nsenter", f"--net={self.network.socket_path}", *preloaded(), KERNEL),
            *(f"mem={record.memory_mb}M", f"uml_dir={self.directory}/", "umid=uml"),
            f"ubd0={self.directory}/root.cow,{image.root}",
            *disks,
            # A kernel that reboots keeps its old tap open, so the new one would have no network:
            # a reboot in the guest powers it off, and `restart` powers it on.
            *("noreboot", "root=/dev/ubda", "rw", "net.ifnames=0", "systemd.show_status=no"),
            f"vec0:transport=tap,ifname={TAP},depth=128,gro=1",
            *("con0=null,fd:1", "con=null"),
            # its own kernel tells none
            f"practice.cpu_mhz={cpu_mhz()}",
            *(f"systemd.hostname={self.name}", f"systemd.machine_id={record.machine_id}"),
        )

    def _disk_argument(self, index: int, disk: DiskSpec) -> str:
        # `d` says it is data, whatever its first bytes.
        file = self._disk_file(index)
        return f"ubd{index}d={file}" + (f",,{disk.serial}" if disk.serial else "")


def preloaded(progress: Progress = lambda _: None) -> tuple[str, ...]:
    """Words before the kernel's: () on a CPU that needs none, else `env` with the shim, compiled now if need be.

    A CPU with AMX has more registers than the kernel 6.1 of User Mode Linux can hold: see uml-shim/xstate.c.
    """
    if not wide_registers():
        return ()

    def fill(work: Path) -> None:
        # Without libc6-dev: what it calls is in every process of the C library.
        how = ("-O2", "-shared", "-fPIC", "-nostdlib", "-fno-builtin")
        run_command((COMPILER, *how, "-o", str(work / "xstate.so"), str(_SHIM)))

    name = f"xstate-{hashlib.sha256(_SHIM.read_bytes()).hexdigest()[:12]}"
    return ("env", f"LD_PRELOAD={ensure(name, _SHIM_MB, fill, progress) / 'xstate.so'}")


_ROOM_MB = 3072
_MODULES = Path("/usr/lib/uml/modules")
_OVERLAY = Path(__file__).with_name("guest-uml")
_ENABLED = {"practice-cpu.service": "sysinit.target"}


def ensure_image(progress: Progress = print) -> Image:
    """The image of the present recipe, built now if it is not there; PracticeError if it cannot."""
    require_tools(progress)
    kernel = kernel_version()

    def fill(work: Path) -> None:
        tree = work / "tree"
        progress(f"downloading and unpacking Debian {SUITE} (about half a minute)")
        unpack(tree, PACKAGES)
        shutil.copytree(_MODULES / kernel, tree / "lib/modules" / kernel, symlinks=True)
        furnish(tree, make_key(work), _OVERLAY, enabled=_ENABLED)
        progress("writing the file system")
        write_root(tree, work / "root.img")

    name = guest_id((kernel, *PACKAGES, *_ENABLED), Path(__file__), _OVERLAY)
    return Image(name, ensure(name, _ROOM_MB, fill, progress))
