"""Every test here needs a real host."""

import os
from collections.abc import Iterator

import pytest

from benchlab.testing import profiles
from tests import shares
from tests.rig.bench import Bench
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


@pytest.fixture(scope="module")
def bench(rig_host) -> Bench:
    """Only the disks with serials are spare. Modules that want other ones have a fixture of their own."""
    made = Bench(rig_host)
    made.spares = {i: spare for i, spare in made.spares.items() if i.startswith("serial:")}
    return made


LONGEST = ("test_interrupted.py", "test_interrupted_zfs.py")  # a third of all the time
# Guard, plans and teardown are right every time, or wrong.
NO_SECOND_CHANCE = (
    "layers/",
    "test_campaigns",
    "test_every_",
    "test_guard_",
    "test_interrupted",
    "test_layers",
    "test_lost_disk",
    "test_orphans",
    "test_stages",
)
# Of what ci leaves out each round of exploration runs one in so many.
ONE_IN = 8


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    for item in items:
        _, ours, name = item.path.as_posix().rpartition("/tests/rig/")
        if ours:
            item.add_marker(pytest.mark.rig)
        if ours and name.startswith(NO_SECOND_CHANCE):
            item.add_marker(pytest.mark.no_second_chance)
    yield  # now those are left that -m and -k have chosen
    if os.environ.get(profiles.WHOLE_GROUP) and profiles.profile() == profiles.CI:
        _draw(config, items)
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    for number, name in enumerate(LONGEST[:processes]):
        _move(items, name, number * len(items) // processes)


def _draw(config: pytest.Config, items: list[pytest.Item]) -> None:
    """CI's share: what is marked `covering` or `quick`, chosen by hand. A new seed draws some of the others, too."""
    others = [
        item
        for item in items
        if "/tests/rig/" in item.path.as_posix()
        and not any(item.get_closest_marker(name) for name in ("covering", "quick"))
    ]
    explored = profiles.seed() != profiles.STORED_SEED
    drawn = profiles.share("rig", others, ONE_IN) if explored else []
    shares.leave_out(config, items, {*others} - {*drawn})


def _move(items: list[pytest.Item], name: str, place: int) -> None:
    """To where a process's share begins: what comes last, the others wait for."""
    long = [item for item in items if item.path.name == name]
    others = [item for item in items if item.path.name != name]
    items[:] = [*others[:place], *long, *others[place:]]
