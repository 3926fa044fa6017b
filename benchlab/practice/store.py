# SPDX-License-Identifier: Apache-2.0
"""Cache of what is built once: under a temporary name first, by one builder at a time."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchlab.practice.errors import PracticeError
from benchlab.practice.machine import Progress
from benchlab.practice.paths import every_host, images_dir

_KEPT_DAYS = 14


@dataclass(frozen=True)
class Image:
    """A finished image: `root` is never written to, `key` is the private key of its users."""

    name: str
    directory: Path

    @property
    def root(self) -> Path:
        return self.directory / "root.img"

    @property
    def ssh_key(self) -> Path:
        return self.directory / "key"


def ensure(name: str, room_mb: int, fill: Callable[[Path], None], progress: Progress) -> Path:
    """The directory `name` in the cache; if it is not there, what `fill` puts into an empty one."""
    directory = images_dir() / name
    if not directory.exists():
        images_dir().mkdir(parents=True, exist_ok=True)
        with _only_builder(images_dir() / f"{name}.lock", progress):
            if not directory.exists():
                _build_image(directory, room_mb, fill)
                progress(f"ready: {directory}")
    (directory / "used").touch()
    return directory


@contextmanager
def _only_builder(lock: Path, progress: Progress) -> Iterator[None]:
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("another process builds the image: waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build_image(directory: Path, room_mb: int, fill: Callable[[Path], None]) -> None:
    free_mb = shutil.disk_usage(images_dir()).free >> 20
    if free_mb < room_mb:
        raise PracticeError(
            f"{images_dir()} has {free_mb} MiB left, the image needs {room_mb}: "
            "free some space or set BENCHLAB_CACHE to a roomier directory"
        )
    _forget_old(directory.name)
    # A name of its own: an interrupted builder's children may still write under theirs.
    work = Path(tempfile.mkdtemp(prefix=f".building-{directory.name}-", dir=images_dir()))
    try:
        fill(work)
        # a half-written image must not survive a crash under its final name
        os.sync()
        work.chmod(0o755)
        work.rename(directory)
    finally:
        _remove_tree(work)


def _forget_old(name: str) -> None:
    """Remove what interrupted builds left, and images that nobody has used for a while."""
    for leftover in images_dir().glob(".building-*"):
        # We hold this image's lock, so nobody builds it now; no build takes a day.
        ours = leftover.name.startswith(f".building-{name}-")
        if ours or _idle_days(leftover) > 1:
            _remove_tree(leftover)
    in_use = {record.image for record in every_host()}
    for other in images_dir().glob("*/used"):
        if _idle_days(other) > _KEPT_DAYS and other.parent.name not in in_use:
            _remove_tree(other.parent)


def _idle_days(path: Path) -> float:
    return (time.time() - path.stat().st_mtime) / 86400


def _remove_tree(tree: Path) -> None:
    # mmdebstrap, killed halfway, may have left the machine's own /dev mounted in there.
    mounts = Path("/proc/self/mountinfo").read_text()
    if f" {tree}/" not in mounts:
        shutil.rmtree(tree, ignore_errors=True)
