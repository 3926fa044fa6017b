# SPDX-License-Identifier: Apache-2.0
"""Paths of images and hosts, and locks on them: a cache outside any clone, so that a fresh clone finds it warm.

All installations of a user share the images. A host is its installation's alone: no other's `--stop` must end it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchlab.installation import state_path
from benchlab.practice.machine import HostRecord


def cache_root() -> Path:
    """$BENCHLAB_CACHE, else $XDG_CACHE_HOME/benchlab, else ~/.cache/benchlab."""
    if own := os.environ.get("BENCHLAB_CACHE"):
        return Path(own).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache").absolute() / "benchlab"


def images_dir() -> Path:
    """Root images, one directory per recipe."""
    return cache_root() / "practice" / "images"


def hosts_dir() -> Path:
    """This installation's hosts, running or powered off, a directory each; $BENCHLAB_HOSTS, else in the cache.

    An installation is its state directory: a name of it alone, for what sockets are in there has short paths only.
    """
    if own := os.environ.get("BENCHLAB_HOSTS"):
        return Path(own).absolute()
    return common_dir() / installation()


def installation() -> str:
    """The same tag as benchlab.up.state.State.tag."""
    return hashlib.sha256(str(state_path()).encode()).hexdigest()[:10]


def common_dir() -> Path:
    """A directory for each installation; hosts of before there were such are in here themselves."""
    return cache_root() / "practice" / "hosts"


def every_hosts_dir() -> list[Path]:
    """The host directories of all installations, this one first.

    Images and CPUs are shared, so their users must know every host.
    """
    directories = [hosts_dir(), common_dir()]
    if common_dir().is_dir():
        directories += [
            directory
            for directory in sorted(common_dir().iterdir())
            if directory.is_dir() and not HostRecord.load(directory)
        ]
    return list(dict.fromkeys(directories))


def every_host() -> Iterator[HostRecord]:
    """The records of all of them."""
    for place in every_hosts_dir():
        for home in sorted(place.glob("*")):
            if record := HostRecord.load(home):
                yield record


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for the lock, and hold it; its directory is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with path.open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            # Who held it may have removed the file: a lock on a removed one keeps nobody out.
            if _still_named(handle.fileno(), path):
                yield
                return


def _still_named(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
