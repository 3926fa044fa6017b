"""Whole plans of every layer against hosts that changed since: no command ever harms a disk not provably spare.

A plan is made from one reading and its commands (and those of its teardown) are shown to the guard with another, in
which any disk may have become somebody's, been replaced, renamed or hidden, some have no serial number, the host may
have been booted, and another disk's partition may have a link of ours. The oracle knows the truth because it made
it (tests/agents/situations.py), and finds by itself which disks a command names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.contracts import AgentError, Step
from agents.drivers import registry
from agents.facts.model import BlockDevice
from agents.plans import stack
from agents.plans.chain import DiskRequest, LayerSpec
from agents.safety.guard import Spare, refusals
from benchlab.testing.profiles import examples
from tests.agents import situations, stacks_of_layers
from tests.agents.made_up import GIB, LAYOUT, disk, spare
from tests.agents.situations import Seen

EXAMPLES = examples(2_200)  # times 10 stacks: 22,000 fact sets and more
DISKS = ("sdb", "sdc", "sdd", "sde", "sdf", "sdg")
LINKS = ("/dev/disk/", "/dev/bcache/", "/dev/zvol/", "/dev/md/", f"/dev/{LAYOUT}/")
LOOKS = ("udevadm", "lvs", "vgs", "pvs", "lsblk", "findmnt", "cat", "test")


def layer(kind: str, options: dict[str, object] | None = None, **devices: int) -> LayerSpec:
    wanted = tuple(DiskRequest(use, "ssd", count) for use, count in devices.items())
    return LayerSpec(kind, options or {}, wanted)


RAW, XFS = layer("raw", data=1), layer("filesystem", {"type": "xfs"})
STRIPE = layer("lvm", {"type": "striped", "stripe_size": 4096}, data=3)
MD5 = layer("md", {"level": 5}, data=3)
STACKS = {
    "raw": (RAW,),
    "raw, xfs, tuning": (RAW, XFS, layer("tuning", {"read_ahead_kb": 128})),
    "partition, lvm": (layer("partition", data=2), layer("lvm")),
    "stripe, cache, xfs": (STRIPE, layer("lvm_cache", cache=1), XFS),
    "md, lvm": (MD5, layer("lvm")),
    "bcache on md5": (MD5, layer("bcache", cache=1), XFS),
    "zpool, zfs": (layer("zpool", data=2, log=1), layer("zfs")),
    "zpool, zvol, xfs": (layer("zpool", {"layout": "mirror"}, data=2), layer("zvol"), XFS),
    "flashcache": (layer("flashcache", backing=1, cache=1),),
    "manual, raw": (layer("manual", {"instructions": "Set the host cache"}), RAW),
}


# The host has every program and module.
ABLE: dict[str, Any] = {
    "tools": {n.program: "1" for kind in registry.all_layers().values() for n in kind.NEEDS},
    "zfs_module": True,
}


def able_disk(name: str, number: int) -> BlockDevice:
    return disk(name, number, size=4 * GIB, queue={"read_ahead_kb": "4096"})


def of_the_others() -> Iterator[tuple[str, tuple[LayerSpec, ...]]]:
    """A stack of each layer that is in none of those, by its own cases."""
    used = {spec.kind for specs in STACKS.values() for spec in specs}
    for kind in registry.all_layers():
        if kind not in used and stacks_of_layers.takes_disks(kind):
            yield kind, next(stacks_of_layers.of(kind))


STACKS |= dict(of_the_others())


class Case:
    """A plan from one reading, and another reading with the truth about each disk; all from one seed."""

    def __init__(self, specs: tuple[LayerSpec, ...], seed: int) -> None:
        self.random = random = Random(seed)
        names = DISKS[: random.randint(5, len(DISKS))]
        disks = [able_disk(name, number) for number, name in enumerate(names, 1)]
        disks = [d if random.randrange(8) else replace(d, serial="") for d in disks]
        marked = [d for d in disks if random.randrange(20)]
        self.spares = spare(*marked, role="ssd")
        before = [situations.draw(random, d, 12) for d in disks]
        facts = situations.host_with(before, **ABLE)
        self.plan = stack.plan_stack(specs, LAYOUT, facts, self.spares.values())
        moved = self._moved(disks)
        self.booted = moved is not disks or random.randrange(8) == 0
        self.after = [situations.draw(random, d, 3) for d in moved]
        self._link()
        unknown = ("pvs failed",) if random.randrange(12) == 0 else ()
        boot = {"boot_id": "another"} if self.booted else {}
        self.facts = situations.host_with(self.after, unknown=unknown, **ABLE, **boot)

    def _moved(self, disks: list[BlockDevice]) -> list[BlockDevice]:
        """Sometimes two disks have swapped their names since."""
        if self.random.randrange(6) or len(disks) < 2:
            return disks
        one, two = self.random.sample(range(len(disks)), 2)
        disks = list(disks)
        disks[one], disks[two] = (
            replace(disks[one], serial=disks[two].serial),
            replace(disks[two], serial=disks[one].serial),
        )
        return disks

    def _link(self) -> None:
        """Sometimes udev notes a link that the plan uses for partitions of two disks."""
        words = [str(word) for step in self.plan.steps for word in step.argv]
        links = sorted({word for word in words if word.startswith(LINKS)})
        if not links or self.random.randrange(3):
            return
        link = self.random.choice(links)
        for seen in self.random.sample(self.after, 2):
            seen.part(links=[link])

    def steps(self) -> list[Step]:
        """All on the way up and down, those that are the same to the guard once."""
        built = [s for step in self.plan.steps for s in (step, *step.undo)]
        every = built + stack.teardown_stack(self.plan, self.facts)
        return list({(s.argv, s.stdin, s.destroys): s for s in every}.values())

    def may_go(self, seen: Seen) -> bool:
        """The truth: marked spare, as confirmed, itself at this node in the plan, and nobody's."""
        device = seen.disk
        known: Spare | None = self.spares.get(device.identity)
        claimed = any(
            (c.identity, c.node) == (device.identity, device.path) for c in self.plan.claims
        )
        return bool(
            known
            and (known.size, known.model) == (device.size, device.model)
            and seen.harmless
            and not (device.weak and self.booted)
            and claimed
            and not self.facts.unknown
        )


class Names:
    """Words that a command would need to name a disk, itself or by what is on it or what it belongs to."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        devices = (seen.disk, *seen.on_it)
        self.nodes = {path for device in devices for path in (device.path, *device.links)}
        self.nodes |= {f"/sys/block/{device.name}/" for device in devices}
        self.groups = {owner.partition(" ")[2] for owner in seen.members.values()} - {""}

        self.groups |= {device.path.removeprefix("/dev/mapper/") for device in seen.on_it}

    def are_in(self, words: list[str], operands: list[str]) -> bool:
        # "bl17/data" is the group's, "bl17-x" a name
        if self.groups & {word.partition("/")[0] for word in operands}:
            return True
        text = "\n".join(words)
        return any(_in(node, text) for node in self.nodes)


def harmed(step: Step, names: list[Names]) -> list[Seen]:
    """The disks that a command's words name."""
    if step.argv[0] in LOOKS:
        return []
    words = [*map(str, step.argv), step.stdin]
    return [name.seen for name in names if name.are_in(words, operands(words))]


# Programs that know a group, array, pool or mapping by its name, and their flags of which the next word is none.
NAMING = {
    "zpool": {"-o", "-O"},
    "zfs": {"-o", "-V"},
    "mdadm": set[str](),
    "flashcache_create": {"-p", "-b"},
    "dmsetup": set[str](),
    "cryptsetup": {
        "--type",
        "--cipher",
        "--key-size",
        "--sector-size",
        "--key-file",
        "--keyfile-size",
    },
}
KEYWORDS = {"create", "destroy", "open", "close", "log", "cache", "special", "spare", "mirror", "raidz1"}  # fmt: skip


def operands(words: list[str]) -> list[str]:
    """The words at which those programs look for a name, found the slow and simple way."""
    program, rest = words[0], words[1:]
    if program == "sh":
        return rest[3:] if "dmsetup remove" in rest[1] else []
    if program.startswith(("vg", "lv", "pv")):
        pairs = {
            at + 1 for at, word in enumerate(rest) if word.startswith("--") and word != "--yes"
        }
        pairs = {at for at in pairs if rest[at - 1] != "--norestorefile"}
        return [word for at, word in enumerate(rest) if at not in pairs]
    taking = NAMING.get(program, {""})
    if "" in taking:
        return []
    found = [w for w, before in zip(rest, ["", *rest], strict=False) if before not in taking]
    return [word for word in found if word not in KEYWORDS]


def _in(word: str, text: str) -> bool:
    # Most words are not there at all, which is quickly seen.
    return word in text and bool(re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w.])", text))


@pytest.mark.parametrize("name", STACKS)
@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=st.integers(0, 2**64 - 1))
def test_no_command_harms_a_disk_that_is_not_provably_spare(name, seed):
    try:
        case = Case(STACKS[name], seed)
    except AgentError:
        return  # too few spare disks: nothing was planned
    harms_none(case)


def harms_none(case: Case) -> None:
    names = [Names(seen) for seen in case.after]
    for step in case.steps():
        victims = harmed(step, names)
        if not step.destroys and not victims:
            continue
        if refusals(step, case.facts, case.spares, LAYOUT):
            continue
        for seen in victims:
            assert case.may_go(seen), (step.argv, seen)
        for claim in step.destroys:  # also when it is named in no word
            [seen] = [s for s in case.after if s.disk.path == claim.node]
            assert case.may_go(seen), (step.argv, seen)


@pytest.mark.parametrize("name", STACKS)
def test_most_made_up_hosts_give_a_plan(name):
    """Else nothing is shown to the guard, and it passes."""
    planned = 0
    for seed in range(50):
        with suppress(AgentError):
            planned += bool(Case(STACKS[name], seed).steps())
    assert planned >= 30


@pytest.mark.parametrize("name", STACKS)
def test_a_plan_on_disks_that_are_nobodys_is_allowed(name):
    """Else the guard could pass by refusing everything."""
    disks = [able_disk(n, i) for i, n in enumerate(DISKS, 1)]
    spares = spare(*disks, role="ssd")
    facts = situations.host_with([situations.see(d, situations.blank) for d in disks], **ABLE)
    plan = stack.plan_stack(STACKS[name], LAYOUT, facts, spares.values())
    assert [refusals(step, facts, spares, LAYOUT) for step in plan.steps if step.destroys] == [
        [] for step in plan.steps if step.destroys
    ]
