"""Power loss, a cut network and a killed worker after every command that changes something, of apply, of growth and of
teardown, of every layer.

Afterwards a teardown from fresh facts leads to blank disks. Nothing is left to luck: the commands are counted. One
round interrupts all lanes (tests/rig/lanes.py) after the same number of commands. In `full` the rounds are shared out
among the tests of this module: several processes take some each, and a night that is interrupted loses little. In `ci`
two stacks are drawn, and rounds so that each kind of layer in them is interrupted while it is built, grown and taken
down. Power is lost at moments of one life (tests/rig/moments.py); for a killed worker the host lives on, so each round
lives anew up to its command. Which of the two meets a kind while it is built, and which while it is taken down, is
dealt by day.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from agents.contracts import RETRYABLE, AgentError, Shell
from agents.plans.chain import DiskRequest, LayerSpec, StageSpec
from benchlab.practice import DiskSpec, PracticeHost, UmlHost
from benchlab.testing import profiles
from tests.rig.bench import filesystem, shell_on
from tests.rig.blank import storage_state
from tests.rig.lanes import Grows, Lanes
from tests.rig.moments import Moments


def layer(kind: str, options: dict[str, object] | None = None, **devices: int) -> LayerSpec:
    return LayerSpec(
        kind, options or {}, tuple(DiskRequest(use, use, count) for use, count in devices.items())
    )


def more(layer: int) -> StageSpec:
    """It grows by a disk."""
    return StageSpec(layer, {}, (DiskRequest("data", "data", 1),))


Proof = tuple[str, str]  # kind of a layer, phase of its life

STACKS = (
    Grows((layer("lvm", {"type": "striped", "stripe_size": 4096}, data=2), layer("lvm_cache", cache=1),
           filesystem("xfs", nodiscard=True))),
    Grows((layer("lvm", {"type": "mirror"}, data=2), layer("lvm_cache", {"kind": "writecache"}, cache=1),
           layer("dm_crypt", {"type": "plain"}))),
    Grows((layer("md", {"level": 5}, data=3), filesystem("ext4", nodiscard=True)), (more(1),)),
    Grows((layer("bcache", {"bucket_size": 131072}, backing=1, cache=1), layer("dm_crypt"),
           filesystem("btrfs", nodiscard=True))),
    Grows((layer("partition", data=1), layer("lvm"), filesystem("xfs", nodiscard=True)), (more(2),)),
    Grows((layer("raw", data=1), filesystem("ext4", nodiscard=True), layer("tuning", {"read_ahead_kb": 64}))),
)  # fmt: skip
DISKS = tuple(f"ubd{letter}" for letter in "bcdefghijklmnop")
WAYS = POWER_LOSS, KILLED_WORKER = "power loss", "killed worker"
PARTS = 6 if profiles.profile() == profiles.FULL else 1


def chosen() -> list[Grows]:
    """By night all of them; in `ci` and `quick` two: one life of all takes a minute before the first round."""
    numbers = range(len(STACKS))
    return [STACKS[n] for n in profiles.drawn("stacks", numbers, quick=2, more=2)]


@pytest.fixture(scope="module")
def host(make_rig_host) -> UmlHost:
    return make_rig_host([DiskSpec(512, serial=f"LANE-{name}") for name in DISKS])


@pytest.fixture(scope="module")
def lanes(host) -> Lanes:
    return Lanes(chosen(), shell_on(host), DISKS)


@pytest.fixture(scope="module")
def blank(host) -> str:
    return storage_state(host)


@pytest.fixture(scope="module")
def moments(host, lanes, blank) -> Moments:
    return lived(host, lanes)


@pytest.mark.covering
@pytest.mark.quick
@pytest.mark.parametrize("part", range(PARTS))
def test_power_loss(host, lanes, blank, moments, part):
    lose_power(host, lanes, blank, moments, rounds(POWER_LOSS, lanes, part))


@pytest.mark.covering
@pytest.mark.quick
@pytest.mark.parametrize("part", range(PARTS))
def test_a_killed_worker_and_a_cut_network(host, lanes, blank, moments, part):
    kill_worker(host, lanes, blank, moments, rounds(KILLED_WORKER, lanes, part))


def rounds(way: str, lanes: Lanes, part: int) -> list[int]:
    """After how many commands to interrupt; by day each kind of layer while it is built, grown and taken down."""
    return drawn(way, lanes, 1, lanes.proves.__getitem__)[part::PARTS]


def drawn(way: str, lanes: Lanes, more: int, proves: Callable[[int], set[Proof]]) -> list[int]:
    """Those of this way. `proves`: kind and phase of each layer that a command changes."""
    counts = sorted(lanes.proves)
    assert counts == list(range(1, len(counts) + 1)), "not every command was seen"
    every = {proof for count in counts for proof in proves(count)}
    own = profiles.dealt("ways to interrupt", every, WAYS)[way]
    return profiles.drawn(way, counts, quick=1, more=more, proves=lambda count: proves(count) & own)


def lived(host: PracticeHost, lanes: Lanes) -> Moments:
    """The disks after every command of one life of all lanes."""
    moments = Moments(host)
    lanes.forget()
    for count in lanes.live(shell_on(host)):
        moments.keep(count)
    return moments


def lose_power(
    host: PracticeHost, lanes: Lanes, blank: str, moments: Moments, counts: Sequence[int]
) -> None:
    print("power is lost after", counts, "commands")
    if profiles.profile() != profiles.FULL:  # there the other part wants the others
        moments.drop(keep=counts)
    for count in counts:
        moments.power_loss(count)
        lanes.go_back(count)
        prove(host, lanes, blank, count)


def kill_worker(
    host: PracticeHost, lanes: Lanes, blank: str, moments: Moments, counts: Sequence[int]
) -> None:
    """No command comes after this one, and the network is cut. The next thing is a new connection."""
    print("the worker is killed after", counts, "commands")
    for count in counts:
        shell = shell_on(host)
        lanes.go(shell, count)
        cut(host, shell)
        prove(host, lanes, blank, count)


def cut(host: PracticeHost, shell: Shell) -> None:
    host.cut()
    try:
        with pytest.raises(AgentError) as raised:
            shell.run(("true",), timeout_s=2)
        assert raised.value.reason in RETRYABLE
    finally:
        host.heal()


def prove(host: PracticeHost, lanes: Lanes, blank: str, count: int) -> None:
    """Blank by our facts, and by the test's own look."""
    try:
        lanes.take_down(shell_on(host))
        assert storage_state(host) == blank
    except BaseException as error:
        error.add_note(f"interrupted after {count} commands")
        raise
