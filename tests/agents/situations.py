"""States of a disk, as facts show them, and whether it may be destroyed: the fuzz's own idea, not the guard's.

A situation changes a made-up disk, adds what stands on it, and says what the rest of the host knows. A disk may be in
two of them at once. `harmless` is the truth that the guard has to find out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from agents.facts.model import BlockDevice, HostFacts, Mount, Opener, Signature
from tests.agents.made_up import LAYOUT, disk, host


@dataclass
class Seen:
    """One disk with all that is on it, and what the host's other lists say of it."""

    disk: BlockDevice
    on_it: list[BlockDevice] = field(default_factory=list)
    members: dict[str, str] = field(default_factory=dict)
    mounts: list[Mount] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)  # other lists of HostFacts
    harmless: bool = True

    def part(self, **given: Any) -> BlockDevice:
        made = disk(
            f"{self.disk.name}{len(self.on_it) + 1}",
            type="part",
            parents=[self.disk.name],
            serial="",
            majmin="",
            **given,
        )
        self.on_it.append(made)
        return made

    def stacked(self, path: str, kind: str = "lvm", on: str = "", **given: Any) -> BlockDevice:
        name = f"dm-{self.disk.name}{len(self.on_it) or ''}"
        parents = [on or self.disk.name]
        made = disk(name, type=kind, path=path, parents=parents, serial="", majmin="", **given)
        self.on_it.append(made)
        return made

    def signed(self, kind: str, label: str = "", uuid: str = "") -> None:
        # One place
        kept = [s for s in self.disk.signatures if (s.type, kind) != ("LVM2_member",) * 2]
        self.disk = replace(self.disk, signatures=(*kept, Signature(kind, 0, label, uuid)))

    def change(self, **given: Any) -> None:
        self.disk = replace(self.disk, **given)


Situation = Callable[[Seen], None]


def blank(seen: Seen) -> None:
    pass


def old_file_system(seen: Seen) -> None:
    seen.signed("ext4", "home")


def old_table(seen: Seen) -> None:
    seen.signed("gpt")
    seen.part(signatures=[{"type": "xfs"}])


def our_group(seen: Seen) -> None:
    seen.signed("LVM2_member")
    seen.members[seen.disk.name] = f"lvm {LAYOUT}"
    seen.extra["lvm_pvs"] = (seen.disk.path,)
    seen.stacked(f"/dev/mapper/{LAYOUT}-data", mounts=[f"/mnt/benchlab/{LAYOUT}"])


def our_array(seen: Seen) -> None:
    seen.signed("linux_raid_member", f"h:{LAYOUT}")
    seen.members[seen.disk.name] = f"md {LAYOUT}"
    seen.extra["md_members"] = (seen.disk.name,)


def our_pool(seen: Seen) -> None:
    seen.signed("zfs_member", LAYOUT)
    seen.members[seen.disk.name] = f"zpool {LAYOUT}"


HARMLESS: tuple[Situation, ...] = (
    blank,
    blank,
    blank,
    old_file_system,
    old_table,
    our_group,
    our_array,
    our_pool,
)


def mounted(seen: Seen) -> None:
    seen.signed("ext4")
    seen.change(mounts=("/data",))


def part_mounted(seen: Seen) -> None:
    seen.part(mounts=["/data"], signatures=[{"type": "ext4"}])


def almost_our_mount(seen: Seen) -> None:
    seen.signed("xfs", LAYOUT)
    seen.change(mounts=(f"/mnt/benchlab/{LAYOUT}0",))


def swap(seen: Seen) -> None:
    seen.signed("swap")
    seen.change(swap=True)


def swap_off(seen: Seen) -> None:
    seen.signed("swap")


def foreign_pv(seen: Seen) -> None:
    seen.signed("LVM2_member")
    seen.members[seen.disk.name] = "lvm vg0"


def orphan_pv(seen: Seen) -> None:
    seen.members.pop(seen.disk.name, None)
    seen.signed("LVM2_member", uuid="AAAAAA-BBBB-CCCC-DDDD-EEEE-FFFF-GGGGGG")


def nearly_our_pv(seen: Seen) -> None:
    seen.signed("LVM2_member")
    seen.members[seen.disk.name] = f"lvm {LAYOUT}0"


def pv_on_part(seen: Seen) -> None:
    part = seen.part(signatures=[{"type": "LVM2_member"}])
    seen.members[part.name] = "lvm vg0"
    seen.stacked("/dev/mapper/vg0-root", on=part.name, mounts=["/srv"])


def foreign_volume(seen: Seen) -> None:
    seen.stacked(f"/dev/mapper/foreign_{LAYOUT}")


def foreign_array(seen: Seen) -> None:
    seen.signed("linux_raid_member", "h:0")
    seen.members[seen.disk.name] = "md md0"


def stopped_array(seen: Seen) -> None:
    seen.signed("linux_raid_member", f"h:{LAYOUT}0")


def array_of_an_installer(seen: Seen) -> None:
    """/dev/md0: mdadm calls it 0, which is a word of most commands."""
    seen.signed("linux_raid_member", "h:0")
    seen.members[seen.disk.name] = "md 0"


def group_named_data(seen: Seen) -> None:
    """As our own volumes are."""
    seen.signed("LVM2_member")
    seen.members[seen.disk.name] = "lvm data"


def pool_named_cache(seen: Seen) -> None:
    seen.signed("zfs_member", "cache")
    seen.members[seen.disk.name] = "zpool cache"


def mapping_named_data(seen: Seen) -> None:
    seen.signed("crypto_LUKS")
    seen.stacked("/dev/mapper/data", "crypt")


def foreign_pool(seen: Seen) -> None:
    seen.signed("zfs_member", "tank")
    seen.members[seen.disk.name] = "zpool tank"


def exported_pool(seen: Seen) -> None:
    part = seen.part(signatures=[{"type": "zfs_member", "label": "tank"}])
    seen.change(signatures=(Signature("gpt"),))
    assert part.signatures


def bcache(seen: Seen) -> None:
    seen.signed("bcache")
    seen.members[seen.disk.name] = "bcache"


def bcache_left(seen: Seen) -> None:
    seen.signed("bcache", uuid="0a1b2c3d-0000-4000-8000-123456789abc")


def luks(seen: Seen) -> None:
    seen.signed("crypto_LUKS")


def opened_luks(seen: Seen) -> None:
    seen.signed("crypto_LUKS")
    seen.stacked("/dev/mapper/secret", "crypt")


def unknown_holder(seen: Seen) -> None:
    seen.change(holders=("ghost0",))


def unread(seen: Seen) -> None:
    seen.change(signatures_known=False)


def unread_part(seen: Seen) -> None:
    seen.part(signatures_known=False)


def read_only(seen: Seen) -> None:
    seen.change(read_only=True)


def resized(seen: Seen) -> None:
    seen.change(size=seen.disk.size + 512)


def other_model(seen: Seen) -> None:
    seen.change(model="Model Y")


def replaced(seen: Seen) -> None:
    """Another disk of the same size and model in the same place."""
    seen.change(serial=f"NEW-{seen.disk.name}")


def root_below(seen: Seen) -> None:
    seen.stacked("/dev/mapper/vg0-root", mounts=["/"])
    seen.members[seen.disk.name] = "lvm vg0"


def in_a_table(seen: Seen) -> None:
    seen.extra["dm_tables"] = (f"home: 0 2048 linear {seen.disk.majmin} 0",)


def raid_of_two(seen: Seen) -> None:
    """A member that only /proc/mdstat knows; what has an owner is another array's."""
    if seen.members:
        foreign_array(seen)
    seen.extra["md_members"] = (seen.disk.name,)


def a_program(seen: Seen) -> None:
    """A virtual machine on the disk; on a member of ours it is our own mdadm, and then somebody mounted it."""
    if seen.members:
        mounted(seen)
    else:
        seen.change(writers=("qemu-system-x86[4711]",))


def exported(seen: Seen) -> None:
    """By the kernel's SCSI target, which no holder shows; our own name does not excuse it."""
    seen.change(
        openers=(Opener("is exported by the kernel's SCSI target as fileio_0/l", "delete it"),)
    )


def never_heard_of(seen: Seen) -> None:
    seen.signed("never_heard_of")


HARMFUL: tuple[Situation, ...] = (
    mounted, part_mounted, almost_our_mount, swap, swap_off, foreign_pv, orphan_pv, nearly_our_pv, pv_on_part,
    foreign_volume, foreign_array, stopped_array, foreign_pool, exported_pool, bcache, bcache_left, luks, opened_luks,
    unknown_holder, unread, unread_part, read_only, resized, other_model, replaced, root_below, in_a_table,
    raid_of_two, a_program, exported, never_heard_of, array_of_an_installer, group_named_data, pool_named_cache,
    mapping_named_data,
)  # fmt: skip


def see(device: BlockDevice, *situations: Situation) -> Seen:
    """Disk as seen in these situations. Somebody's come last, for the kernel's lists name one owner of a disk."""
    seen = Seen(device)
    for situation in sorted(situations, key=lambda one: one not in HARMLESS):
        situation(seen)
    seen.harmless = all(situation in HARMLESS for situation in situations)
    return seen


def host_with(seen: list[Seen], **given: Any) -> HostFacts:
    """One host's facts from what is seen of each disk."""
    values: dict[str, Any] = {"members": {}, "dm_tables": (), "lvm_pvs": (), "md_members": ()}
    for one in seen:
        values["members"] |= one.members
        for key, more in one.extra.items():
            values[key] += more
    devices: dict[str, BlockDevice] = {}
    for found in (d for one in seen for d in (one.disk, *one.on_it)):
        other = devices.get(found.path)  # our volume is one, on all its disks
        devices[found.path] = (
            replace(other, parents=other.parents + found.parents) if other else found
        )
    return host(*devices.values(), **values, **given)


def draw(random: Random, device: BlockDevice, harmful_in: int) -> Seen:
    """A situation by chance, or two; one in `harmful_in` is harmful."""
    kinds = HARMFUL if random.randrange(harmful_in) == 0 else HARMLESS
    also = [random.choice(HARMLESS + HARMFUL if kinds is HARMFUL else HARMLESS)]
    return see(device, random.choice(kinds), *(also if random.randrange(4) == 0 else ()))
