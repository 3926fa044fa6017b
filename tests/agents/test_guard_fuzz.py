"""The guard on whatever hypothesis thinks of, against an oracle written the slow and simple way."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.contracts import Step
from agents.facts.model import BlockDevice, HostFacts, Opener, Signature
from agents.safety.guard import Spare, refusals
from benchlab.testing.profiles import examples
from tests.agents.made_up import LAYOUT, claim, disk, host, spare, wiping

NAMES = ("sdb", "sdc", "sdd", "sde")
VOLUMES = ("bl17-data", "bl17", "vg0-root", "bl1-data", "bl170-x", "home")
TRACES = ("ext4", "xfs", "gpt", "LVM2_member", "linux_raid_member", "swap", "ldm", "never_heard_of")
KINDS = ("lvm", "lvm", "crypt", "loop", "zvol", "mpath")
NAMES_OF_HARDWARE = ("5000c500a1b2c3d4", "0025385b71b00001", "cid7")
WORDS = ("/dev/sdb", "/dev/sdc", "of=/dev/sdd", "/dev/sdb1", "sde", "8:32", "/dev/mapper/home")


class Fuzz:
    """A host, its spare marks and a Step from one seed: many times faster than drawing each value."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        pick, rare = self.random.choice, self.rare
        made: list[BlockDevice] = []
        for number, name in enumerate(self.random.sample(NAMES, self.random.randint(1, 4)), 1):
            made.append(self.device(name, number, "disk", ()))
            if rare(2):
                made.append(self.device(f"{name}1", number + 20, "part", (name,)))
        for number in range(self.random.randint(0, 2)):
            below = self.random.sample(made, self.random.randint(1, min(2, len(made))))
            parents = tuple(device.name for device in below)
            made.append(self.device(f"dm-{number}", number + 40, pick(KINDS), parents))
        if rare(4):  # stands on no disk of this host, as a volume of a storage server does
            made.append(self.device("loop7", 60, "loop", ()))
        self.facts = host(
            *made,
            members={pick(NAMES): pick(("lvm vg0", "lvm bl1", "md 0", "bcache"))}
            if rare(8)
            else {},
            swaps=["/dev/sdb1"] if rare(12) else [],
            unknown=["pvs failed"] if rare(12) else [],
        )
        self.by_name = {device.name: device for device in made}
        marked = [device for device in made if device.type == "disk" and not rare(5)]
        self.spares = spare(*marked)
        self.target = pick(NAMES)
        self.word = pick(WORDS) if rare(3) else f"/dev/{self.target}"
        planned = self.by_name.get(self.target, disk(self.target))
        self.step = Step(("mkfs.xfs", self.word), "", destroys=(claim(planned),))

    def rare(self, one_in: int) -> bool:
        return self.random.randrange(one_in) == 0

    def device(self, name: str, number: int, kind: str, parents: tuple[str, ...]) -> BlockDevice:
        pick, rare = self.random.choice, self.rare
        serial = pick(("", "DUP", f"SN-{name}", f"SN-{name}"))
        return replace(
            disk(name),
            majmin=f"8:{16 * number}",
            type=kind,
            path=f"/dev/mapper/{pick(VOLUMES)}" if kind == "lvm" else f"/dev/{name}",
            parents=parents,
            serial=serial if kind == "disk" else "",
            identifiers=self.identifiers(serial) if kind == "disk" else (),
            mounts=(pick(("/", "/data", "/mnt/benchlab/bl17")),) if rare(12) else (),
            swap=rare(20),
            read_only=rare(20),
            holders=("ghost",) if rare(20) else (),
            openers=(Opener("is exported by the kernel", "end that"),) if rare(20) else (),
            signatures=self.signatures(),
            signatures_known=not rare(20),
        )

    def identifiers(self, serial: str) -> tuple[str, ...]:
        """Those that its bus shows: none, the serial number, or another name as well."""
        shown = (serial.lower(), self.random.choice(NAMES_OF_HARDWARE) if self.rare(3) else "")
        return tuple(sorted({*shown} - {""})) if self.rare(2) else ()

    def signatures(self) -> tuple[Signature, ...]:
        pick = self.random.choice
        if self.rare(6):
            return (
                Signature("btrfs", uuid=pick(("u-1", "u-2", "")), devices=pick((0, 1, 1, 1, 2))),
            )
        if self.rare(20):
            return (Signature(pick(("xfs", "ext4")), devices=pick((0, 1, 2, 3))),)
        return (Signature(pick(TRACES)),) if self.rare(5) else ()


def provably_spare(node: str, facts: HostFacts, spares: dict[str, Spare]) -> bool:
    """The oracle: written the slow and simple way, from docs/design.md, sharing nothing with the guard."""
    by_name = {d.name: d for d in facts.devices}
    device = next((d for d in facts.devices if d.path == node), None)
    if device is None or device.type != "disk" or device.parents or facts.unknown:
        return False
    mine = f"serial:{device.serial}" if device.serial else f"weak:{device.name}:{device.size}"
    if mine not in spares or spares[mine].size != device.size or spares[mine].model != device.model:
        return False
    if any(same_disk(device, other) for other in facts.devices if other is not device):
        return False
    on_it = {device.name}
    for _ in facts.devices:
        on_it |= {d.name for d in facts.devices if on_it & set(d.parents)}
    for name in on_it:
        one = by_name[name]
        ours = one.path in ("/dev/mapper/bl17", "/dev/mapper/bl17-data")
        foreign = one.type not in ("disk", "part") and not ours
        if (
            foreign
            or one.swap
            or one.openers
            or (one.read_only and name == device.name)
            or one.holders
        ):
            return False
        if set(one.mounts) - {"/mnt/benchlab/bl17"} or not one.signatures_known:
            return False
        if {s.type for s in one.signatures} - {"ext4", "xfs", "gpt", "btrfs"}:
            return False
        if any(s.devices > 1 or (s.type == "btrfs" and s.devices == 0) for s in one.signatures):
            return False
        if any(half_of_a_btrfs(one, other, facts) for other in facts.devices if other is not one):
            return False
        if name in facts.members or name in facts.md_members or one.path in facts.swaps:
            return False
    return True


def same_disk(device: BlockDevice, other: BlockDevice) -> bool:
    """By any name of its hardware. Without a list of them, by the serial number."""
    mine = set(device.identifiers) or {device.serial.lower()}
    theirs = set(other.identifiers) or {other.serial.lower()}
    alike = bool(device.serial) and device.serial == other.serial
    return alike or bool((mine & theirs) - {""})


def half_of_a_btrfs(one: BlockDevice, other: BlockDevice, facts: HostFacts) -> bool:
    """Both show one btrfs, and not because one is above the other, or a third above both."""
    uuids = [{s.uuid for s in d.signatures if s.type == "btrfs"} for d in (one, other)]
    if not uuids[0] & uuids[1]:
        return False
    over = [above(one, facts), above(other, facts)]
    return not over[0] & over[1]


def above(device: BlockDevice, facts: HostFacts) -> set[str]:
    """The device and all that stands on it, by the parents of each."""
    names = {device.name}
    for _ in facts.devices:
        names |= {d.name for d in facts.devices if names & set(d.parents)}
    return names


SEEDS = st.integers(0, 2**64 - 1)


@settings(max_examples=examples(4000), deadline=None)
@given(SEEDS)
def test_nothing_that_is_not_provably_spare_is_ever_destroyed(seed):
    made = Fuzz(seed)
    if refusals(made.step, made.facts, made.spares, LAYOUT):
        return
    target = made.by_name[made.target]
    assert provably_spare(target.path, made.facts, made.spares)
    # And every word that names a device names this disk, or something that lies on it alone.
    named = made.word.rpartition("=")[2]
    for device in made.facts.devices:
        if named in (device.path, device.name, device.majmin):
            assert bottom(device, made.by_name) == {made.target}
            break
    else:
        assert not named.startswith("/dev/")


def bottom(device: BlockDevice, by_name: dict[str, BlockDevice]) -> set[str]:
    if not device.parents:
        return {device.name}
    return set().union(*(bottom(by_name[name], by_name) for name in device.parents))


def test_a_disk_that_is_provably_spare_is_allowed():
    """Else the guard could pass every other test by refusing everything."""
    allowed = 0
    for seed in range(600):
        made = Fuzz(seed)
        device = made.by_name.get(made.target)
        if device is not None and provably_spare(device.path, made.facts, made.spares):
            assert refusals(wiping(device), made.facts, made.spares, LAYOUT) == []
            allowed += 1
    assert allowed > 60
