# SPDX-License-Identifier: Apache-2.0
"""Debian's kernel for QEMU hosts, with OpenZFS compiled for it: the slow half of their image, kept by itself."""

import lzma
import shutil
from dataclasses import dataclass
from pathlib import Path

from benchlab.practice.errors import PracticeError, run_command
from benchlab.practice.machine import Progress
from benchlab.practice.recipe import SUITE, recipe_id
from benchlab.practice.store import ensure
from benchlab.practice.tree import unpack

_SCRIPTS = Path(__file__).with_name("guest-kernel")
_ROOM_MB = 3072
_COMPILE_S = 3600
_XZ = b"\xfd7zXZ\x00"
_PACKAGES = (
    *("linux-image-amd64", "linux-headers-amd64", "zfs-dkms", "gcc", "make", "libc6-dev"),
    *("kmod", "busybox-static", "?essential"),
)
_KEPT_MODULES = (
    *("arch", "block", "crypto", "fs", "lib", "mm", "net/core", "drivers/block", "drivers/md"),
    *("drivers/nvme", "drivers/scsi", "drivers/virtio", "drivers/net/virtio_net.ko"),
    *("drivers/net/net_failover.ko", "drivers/dax", "drivers/char/hw_random"),
)
"""The rest is for hardware that QEMU does not show, and nine tenths of the whole."""


@dataclass(frozen=True)
class ZfsKernel:
    """A finished kernel; `modules` holds one directory, named by the kernel's release."""

    name: str
    directory: Path

    @property
    def vmlinux(self) -> Path:
        return self.directory / "vmlinux"

    @property
    def initrd(self) -> Path:
        return self.directory / "initrd.img"

    @property
    def modules(self) -> Path:
        return self.directory / "modules"


def ensure_zfs_kernel(progress: Progress = print) -> ZfsKernel:
    """The kernel of the present recipe, compiled now if it is not there."""

    def fill(work: Path) -> None:
        tree = work / "tree"
        progress("downloading Debian's kernel and OpenZFS (about half a minute)")
        unpack(tree, _PACKAGES, components="main contrib", variant="extract")
        _compile(tree, progress)
        _move_kernel_files(tree, work)
        shutil.rmtree(tree)

    name = kernel_id()
    return ZfsKernel(name, ensure(name, _ROOM_MB, fill, progress))


def kernel_id() -> str:
    """The kernel's name in the cache; it changes with whatever could change the kernel."""
    return recipe_id((SUITE, *_PACKAGES, *_KEPT_MODULES), Path(__file__), _SCRIPTS)


def _compile(tree: Path, progress: Progress) -> None:
    shutil.copytree(_SCRIPTS, tree, dirs_exist_ok=True)
    for place in ("proc", "sys"):
        (tree / place).mkdir(exist_ok=True)
    release = _kernel_release(tree)
    progress(f"compiling OpenZFS for Linux {release} (two to four minutes)")
    _inside(tree, "/compile", release)
    modules = tree / "lib/modules" / release / "kernel"
    for module in modules.rglob("*.ko"):
        if not str(module.relative_to(modules)).startswith(_KEPT_MODULES):
            module.unlink()
    _inside(tree, "/pack", release)


def _kernel_release(tree: Path) -> str:
    releases = sorted(path.name for path in (tree / "lib/modules").iterdir())
    if len(releases) != 1:
        raise PracticeError(f"expected one kernel in Debian {SUITE}, found {releases}")
    return releases[0]


def _inside(tree: Path, script: str, release: str) -> None:
    """Run a script with `tree` as its root, in namespaces that end with it: no mount is left."""
    enter = ("unshare", "--mount", "--pid", "--fork", "--kill-child", f"--root={tree}")
    run_command((*enter, "--mount-proc", "sh", script, release), timeout=_COMPILE_S)


def _move_kernel_files(tree: Path, work: Path) -> None:
    """Move what is needed out of the tree, and unpack the kernel: QEMU would emulate its unpacking."""
    release = _kernel_release(tree)
    packed = (tree / f"boot/vmlinuz-{release}").read_bytes()
    start = packed.find(_XZ)
    if start < 0:
        raise PracticeError(f"Debian's kernel {release} is not packed by xz any more")
    (work / "vmlinux").write_bytes(lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(packed[start:]))
    (tree / "initrd.img").rename(work / "initrd.img")
    (tree / "lib/modules").rename(work / "modules")
