"""Power loss, a cut network and a killed worker after every single command of apply and of teardown, of every layer.

Afterwards a teardown from fresh facts leads to blank disks. Nothing is left to luck: the commands are counted. One
round interrupts all lanes (tests/rig/lanes.py) after the same number of commands; the rounds are shared out among
the tests of this module, so that two processes can take half of them each.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agents.chain import LayerSpec, Wanted
from agents.contracts import RETRYABLE, AgentError
from agents.facts import linux
from benchlab.practice import DiskSpec, UmlHost
from tests.rig.bench import filesystem, shell_on
from tests.rig.blank import assert_blank, storage_state
from tests.rig.lanes import Lane, fresh, lanes_of


def layer(kind: str, options: dict[str, object] | None = None, **devices: int) -> LayerSpec:
    return LayerSpec(
        kind, options or {}, tuple(Wanted(use, use, count) for use, count in devices.items())
    )


STACKS = (
    (layer("lvm", {"type": "striped", "stripe_size": 4096}, data=2), layer("lvm_cache", cache=1), filesystem("xfs")),
    (layer("lvm", {"type": "mirror"}, data=2), layer("lvm_cache", {"kind": "writecache"}, cache=1)),
    (layer("md", {"level": 5}, data=3), filesystem("ext4")),
    (layer("bcache", backing=1, cache=1), filesystem("btrfs")),
    (layer("partition", data=2), layer("md", {"level": 1}), layer("lvm")),
    (layer("raw", data=1), filesystem("ext4"), layer("tuning", {"read_ahead_kb": 64})),
)  # fmt: skip
DISKS = tuple(f"ubd{letter}" for letter in "bcdefghijklmno")
MOST = 80  # more commands than any lane has
PARTS = 4


@pytest.fixture(scope="module")
def host(make_rig_host) -> UmlHost:
    return make_rig_host([DiskSpec(256, serial=f"LANE-{name}") for name in DISKS])


@pytest.fixture(scope="module")
def lanes(host) -> list[Lane]:
    return lanes_of(STACKS, linux.read(shell_on(host)), DISKS)


@pytest.fixture(scope="module")
def blank(host) -> str:
    return storage_state(host)


def rounds(part: int) -> Iterator[int]:
    """The numbers of commands after which this part of the rounds interrupts."""
    yield from range(part, MOST + 1, PARTS)


def over(lanes: list[Lane], totals: list[int], count: int) -> bool:
    """Whether every lane had come to its end before this round."""
    return all(total < count for total in totals)


@pytest.mark.parametrize("part", range(1, PARTS + 1))
def test_power_loss(host, lanes, blank, part):
    for count in rounds(part):
        going, shell = fresh(lanes), shell_on(host)
        totals = [lane.go(shell, count) for lane in going]
        host.kill()
        host.restart()
        prove(host, going, blank, count)
        if over(going, totals, count):
            return
    raise AssertionError(f"a layout of more than {MOST} commands")


@pytest.mark.parametrize("part", range(1, PARTS + 1))
def test_a_killed_worker_and_a_cut_network(host, lanes, blank, part):
    """To the host both are the same: the commands end after one of them. The next thing is a new connection."""
    for count in rounds(part):
        going, shell = fresh(lanes), shell_on(host)
        totals = [lane.go(shell, count) for lane in going]
        if count % 8 == part:  # a cut costs seconds; what the host sees is the same without
            cut(host, shell)
        prove(host, going, blank, count)
        if over(going, totals, count):
            return
    raise AssertionError(f"a layout of more than {MOST} commands")


def cut(host: UmlHost, shell) -> None:
    host.cut()
    try:
        with pytest.raises(AgentError) as raised:
            shell.run(("true",), timeout_s=2)
        assert raised.value.reason in RETRYABLE
    finally:
        host.heal()


def prove(host: UmlHost, lanes: list[Lane], blank: str, count: int) -> None:
    shell = shell_on(host)
    for lane in lanes:
        try:
            lane.take_down(shell)
        except Exception as error:
            error.add_note(f"{lane.name}, interrupted after {count} commands")
            raise
    assert_blank(host, *DISKS)
    assert storage_state(host) == blank
