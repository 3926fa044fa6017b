"""Real hosts for every conftest that imports this: skipped where none can run, unless BENCHLAB_RIG=required."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from benchlab.practice import (
    DiskSpec,
    Image,
    PracticeError,
    SlowDisk,
    UmlHost,
    available,
    ensure_image,
    sweep_leftovers,
)
from tests.rig.blank import storage_state

MakeRigHost = Callable[..., UmlHost]

DISKS = (
    DiskSpec(512),  # no serial: a weak identity
    DiskSpec(512, serial="RIG-DISK-1"),
    DiskSpec(512, serial="RIG-DISK-2"),
    DiskSpec(512, serial="RIG-DISK-3"),
)

_numbers = itertools.count(1)


@dataclass(frozen=True)
class KeptHost:
    """A host and what was on it when it was new."""

    host: UmlHost
    state: str

    @classmethod
    def boot(cls) -> KeptHost:
        host = UmlHost(new_name())
        host.start(DISKS, owned=True)
        try:
            return cls(host, storage_state(host))
        except BaseException:
            host.stop()
            raise


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
def kept_hosts(uml_image: Image) -> Iterator[list[KeptHost]]:
    """The host that `rig_host` hands from module to module, one per process; empty while it is lent."""
    kept: list[KeptHost] = []
    try:
        yield kept
    finally:
        for one in kept:
            one.host.stop()


@pytest.fixture(scope="module")
def rig_host(kept_hosts: list[KeptHost]) -> Iterator[UmlHost]:
    """A host with four fast disks of 512 MiB, /dev/ubdb (no serial) to /dev/ubde.

    The next module gets the same, once its disks are proven to be as they were when it was booted: else this module's
    last test fails, and the next module boots another.
    """
    lent = kept_hosts.pop() if kept_hosts else KeptHost.boot()
    try:
        yield lent.host
        assert storage_state(lent.host) == lent.state, "the module left something on the host"
    except BaseException:
        lent.host.stop()
        raise
    kept_hosts.append(lent)
