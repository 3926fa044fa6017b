"""Disks as a power loss would leave them, at many moments of one life.

A killed kernel leaves on its disks what it had written until then. So does a copy of the disks' files made while the
kernel is stopped (SIGSTOP): a machine that boots from the copy is one that lost its power at that moment. One life of
layouts then serves to try a power loss after each of its commands; to live it anew up to each would take most of the
time.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchlab.practice import PracticeHost

FILES = ("disk*.img", "root.*")


class Moments:
    """Copies of all disks of one host, the root too, by number."""

    def __init__(self, host: PracticeHost) -> None:
        self.host = host
        self.kept: dict[int, Path] = {}

    def keep(self, number: int) -> None:
        """The disks as they are now, whatever the kernel still holds in its memory."""
        place = self.host.directory / f"moment-{number}"
        place.mkdir()
        with _stopped(self.host):
            _copy(self.host.directory, place)
        self.kept[number] = place

    def drop(self, keep: Collection[int] = ()) -> None:
        """Remove the copies of all other moments: they lie in memory."""
        for number in sorted(self.kept.keys() - set(keep)):
            shutil.rmtree(self.kept.pop(number))

    def power_loss(self, number: int) -> None:
        """End the host, and boot it as it would boot had it lost its power at that moment."""
        place = self.kept.pop(number)
        self.host.kill()
        _copy(place, self.host.directory)
        shutil.rmtree(place)
        self.host.restart()


@contextmanager
def _stopped(host: PracticeHost) -> Iterator[None]:
    """No thread of its kernel runs. Programs of a User Mode Linux are processes of this machine, and wait for it."""
    kernel = host.record.kernel
    assert kernel is not None
    os.kill(kernel.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(kernel.pid, signal.SIGCONT)


def _copy(source: Path, to: Path) -> None:
    files = [str(file) for pattern in FILES for file in sorted(source.glob(pattern))]
    subprocess.run(["cp", "--sparse=always", *files, str(to)], check=True)
