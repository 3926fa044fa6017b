"""Real hosts for every conftest that imports this: skipped where none can run, unless BENCHLAB_RIG=required."""

import itertools
import os
from collections.abc import Callable, Iterator, Sequence

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

MakeRigHost = Callable[..., UmlHost]

DISKS = (
    DiskSpec(512),  # no serial: a weak identity
    DiskSpec(512, serial="RIG-DISK-1"),
    DiskSpec(512, serial="RIG-DISK-2"),
    DiskSpec(512, serial="RIG-DISK-3"),
)

_numbers = itertools.count(1)


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
        host = UmlHost(f"rig-{os.getpid()}-{next(_numbers)}")
        made.append(host)
        return host.start(disks, slow_disks, memory_mb=memory_mb, owned=True)

    try:
        yield make
    finally:
        for host in made:
            host.stop()


@pytest.fixture(scope="module")
def rig_host(make_rig_host: MakeRigHost) -> UmlHost:
    """A host with four fast disks of 512 MiB, /dev/ubdb (no serial) to /dev/ubde."""
    return make_rig_host()
