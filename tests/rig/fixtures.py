"""Real hosts for every conftest that imports this: skipped where none can run, unless BENCHLAB_RIG=required."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import pytest

from benchlab.practice import (
    QEMU_TOOLS,
    DiskSpec,
    Image,
    PracticeError,
    PracticeHost,
    QemuHost,
    SlowDisk,
    UmlHost,
    available,
    ensure_image,
    ensure_zfs_image,
    sweep_leftovers,
)
from tests import failures
from tests.rig.blank import assert_unchanged, storage_state

failures.listen()

Host = TypeVar("Host", bound=PracticeHost)
MakeRigHost = Callable[..., UmlHost]
MakeZfsHost = Callable[..., QemuHost]

DISKS = (
    DiskSpec(512),  # no serial: a weak identity
    DiskSpec(512, serial="RIG-DISK-1"),
    DiskSpec(512, serial="RIG-DISK-2"),
    DiskSpec(512, serial="RIG-DISK-3"),
)
ZFS_DISKS = (
    *(DiskSpec(512, serial=f"ZFS-DISK-{number}") for number in range(1, 5)),
    DiskSpec(512, serial="ZFS-CAPPED", iops=500),
)

_numbers = itertools.count(1)


@dataclass(frozen=True)
class KeptHost(Generic[Host]):
    """A host and what was on it when it was new."""

    host: Host
    state: str

    @classmethod
    def boot(cls, host: Host, disks: Sequence[DiskSpec]) -> KeptHost[Host]:
        host.start(disks, owned=True)
        try:
            return cls(host, storage_state(host))
        except BaseException:
            host.stop()
            raise


def lend(kept: list[KeptHost[Host]], boot: Callable[[], KeptHost[Host]]) -> Iterator[Host]:
    """The kept host, or one that boots now. It is kept for the next module once its disks are proven to be as they
    were when it was booted: else this module's last test fails, and the next module boots another.
    """
    lent = kept.pop() if kept else boot()
    try:
        yield lent.host
        assert_unchanged(lent.host, lent.state)
    except BaseException:
        lent.host.stop()
        raise
    kept.append(lent)


def new_name() -> str:
    """No other host of this machine has it, whatever runs beside us."""
    return f"rig-{os.getpid()}-{next(_numbers)}"


def refuse(reason: str) -> None:
    """Skip, or fail where the rig is required: a machine that should have it must not pass without."""
    if os.environ.get("BENCHLAB_RIG") == "required":
        pytest.fail(f"BENCHLAB_RIG=required, but: {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def uml_image() -> Image:
    """The root image, built by the first test that needs it."""
    if reason := available():
        refuse(reason)
    try:
        sweep_leftovers()
        return ensure_image()
    except PracticeError as error:
        refuse(str(error))
        raise


@pytest.fixture(scope="module")
def make_rig_host(uml_image: Image) -> Iterator[MakeRigHost]:
    """A function that boots a host of its own; each is stopped with the module."""
    made: list[UmlHost] = []

    def make(
        disks: Sequence[DiskSpec] = DISKS,
        slow_disks: Sequence[SlowDisk] = (),
        *,
        memory_mb: int = 768,
    ) -> UmlHost:
        host = UmlHost(new_name())
        made.append(host)
        return host.start(disks, slow_disks, memory_mb=memory_mb, owned=True)

    try:
        yield make
    finally:
        for host in made:
            host.stop()


@pytest.fixture(scope="session")
def kept_hosts(uml_image: Image) -> Iterator[list[KeptHost[UmlHost]]]:
    """The host that `rig_host` hands from module to module, one per process; empty while it is lent."""
    kept: list[KeptHost[UmlHost]] = []
    yield kept
    for one in kept:
        one.host.stop()


@pytest.fixture(scope="module")
def rig_host(kept_hosts: list[KeptHost[UmlHost]]) -> Iterator[UmlHost]:
    """A host with four fast disks of 512 MiB, /dev/ubdb (no serial) to /dev/ubde; the next module gets it too."""
    yield from lend(kept_hosts, lambda: KeptHost.boot(UmlHost(new_name()), DISKS))


@pytest.fixture(scope="session")
def zfs_image() -> Image:
    """The root image with OpenZFS, built by the first test that needs it: in minutes, where it is not cached."""
    if reason := available(QEMU_TOOLS):
        refuse(reason)
    try:
        sweep_leftovers()
        return ensure_zfs_image()
    except PracticeError as error:
        refuse(str(error))
        raise


@pytest.fixture(scope="module")
def make_zfs_host(zfs_image: Image) -> Iterator[MakeZfsHost]:
    """A function that boots a QEMU host of its own; each is stopped with the module."""
    made: list[QemuHost] = []

    def make(disks: Sequence[DiskSpec] = ZFS_DISKS) -> QemuHost:
        host = QemuHost(new_name())
        made.append(host)
        return host.start(disks, owned=True)

    try:
        yield make
    finally:
        for host in made:
            host.stop()


@pytest.fixture(scope="session")
def kept_zfs_hosts(zfs_image: Image) -> Iterator[list[KeptHost[QemuHost]]]:
    """The same for `zfs_host`."""
    kept: list[KeptHost[QemuHost]] = []
    yield kept
    for one in kept:
        one.host.stop()


@pytest.fixture(scope="module")
def zfs_host(kept_zfs_hosts: list[KeptHost[QemuHost]]) -> Iterator[QemuHost]:
    """A host with OpenZFS and five disks of 512 MiB: /dev/vdb to vde alike, vdf capped at 500 IOPS; the next module
    gets it too.
    """
    yield from lend(kept_zfs_hosts, lambda: KeptHost.boot(QemuHost(new_name()), ZFS_DISKS))
