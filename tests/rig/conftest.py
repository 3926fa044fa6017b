"""Every test here needs a real host."""

import os
from collections.abc import Iterator

import pytest

from tests.rig.fixtures import (
    kept_hosts,
    kept_zfs_hosts,
    make_rig_host,
    make_zfs_host,
    rig_host,
    uml_image,
    zfs_host,
    zfs_image,
)

__all__ = [
    "kept_hosts",
    "kept_zfs_hosts",
    "make_rig_host",
    "make_zfs_host",
    "rig_host",
    "uml_image",
    "zfs_host",
    "zfs_image",
]


LONGEST = ("test_interrupted.py", "test_interrupted_zfs.py")  # a third of all the time


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    for item in items:
        if "/tests/rig/" in item.path.as_posix():
            item.add_marker(pytest.mark.rig)
    yield  # now those are left that -m and -k have chosen
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    for number, name in enumerate(LONGEST[:processes]):
        _move(items, name, number * len(items) // processes)


def _move(items: list[pytest.Item], name: str, place: int) -> None:
    """To where a process's share begins: what comes last, the others wait for."""
    long = [item for item in items if item.path.name == name]
    others = [item for item in items if item.path.name != name]
    items[:] = [*others[:place], *long, *others[place:]]
