"""Every test here needs a real host."""

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/tests/rig/" in item.path.as_posix():
            item.add_marker(pytest.mark.rig)
