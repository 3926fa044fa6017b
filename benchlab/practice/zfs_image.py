# SPDX-License-Identifier: Apache-2.0
"""The root image of QEMU hosts: the same guest as under User Mode Linux, with OpenZFS and its kernel."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from benchlab.practice.machine import QEMU_TOOLS, Progress, require_tools
from benchlab.practice.recipe import PACKAGES, SUITE, guest_id
from benchlab.practice.store import Image, ensure
from benchlab.practice.tree import furnish, make_key, unpack, write_root
from benchlab.practice.zfs_kernel import ensure_zfs_kernel, kernel_id

_ROOM_MB = 4096
_OVERLAY = Path(__file__).with_name("guest-zfs")
_PACKAGES = (*PACKAGES, "zfsutils-linux")
_MASKED = (
    *("zfs-import-cache.service", "zfs-import-scan.service", "zfs-mount.service"),
    *("zfs-share.service", "zfs-volume-wait.service", "zfs-import.target", "zfs.target"),
    *("zfs-volumes.target", "kmod-static-nodes.service"),
)
"""A pool is imported by whoever wants it, never by the boot."""

_ENABLED = {"practice-zfs.service": "sysinit.target"}


@dataclass(frozen=True)
class ZfsImage(Image):
    """A root image with its kernel beside it."""

    @property
    def vmlinux(self) -> Path:
        return self.directory / "vmlinux"

    @property
    def initrd(self) -> Path:
        return self.directory / "initrd.img"


def ensure_zfs_image(progress: Progress = print) -> ZfsImage:
    """The image of the present recipe, built now if it is not there; PracticeError if it cannot."""
    require_tools(progress, QEMU_TOOLS)

    def fill(work: Path) -> None:
        kernel = ensure_zfs_kernel(progress)
        tree = work / "tree"
        progress(f"downloading and unpacking Debian {SUITE} with OpenZFS (about half a minute)")
        unpack(tree, _PACKAGES, components="main contrib")
        shutil.copytree(kernel.modules, tree / "lib/modules", symlinks=True, dirs_exist_ok=True)
        for file in (kernel.vmlinux, kernel.initrd):
            shutil.copy(file, work / file.name)
        furnish(tree, make_key(work), _OVERLAY, _MASKED, _ENABLED)
        progress("writing the file system")
        write_root(tree, work / "root.img")

    name = guest_id((kernel_id(), *_PACKAGES, *_MASKED, *_ENABLED), Path(__file__), _OVERLAY)
    return ZfsImage(name, ensure(name, _ROOM_MB, fill, progress))
