"""The guard: every way a disk can be somebody's, one by one."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from agents.contracts import Claim, GuardError, Step
from agents.facts.model import BlockDevice
from agents.safety.guard import check_step, refusals
from tests.agents.made_up import GIB, LAYOUT, claim, disk, host, part, spare, wiping


def why(device: BlockDevice, *others: BlockDevice, layout: str = LAYOUT, **facts) -> str:
    """All reasons against wiping a disk that a person marked spare, on a host with others."""
    found = refusals(wiping(device), host(device, *others, **facts), spare(device), layout)
    return "; ".join(found)


def test_a_blank_spare_disk_may_be_wiped():
    assert why(disk("sdb")) == ""


def test_check_raises_with_the_command_and_the_cause():
    with pytest.raises(GuardError, match=r"wipefs --all /dev/sdb.*not marked spare"):
        check_step(wiping(disk("sdb")), host(disk("sdb")), {}, LAYOUT)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mounts": ["/data"]}, "mounted at /data"),
        ({"mounts": ["/mnt/benchlab/bl1"]}, "mounted at"),
        ({"mounts": ["/mnt/benchlab/bl170"]}, "mounted at"),
        ({"mounts": ["/mnt/benchlab/bl17/inner"]}, "mounted at"),
        ({"mounts": ["/"]}, "running system"),
        ({"mounts": ["/boot/efi"]}, "running system"),
        ({"mounts": ["/var/lib/mysql"]}, "running system"),
        ({"swap": True}, "swap in use"),
        ({"read_only": True}, "read-only"),
        ({"signatures_known": False}, "could not be read"),
        ({"holders": ["dm-0"]}, "in use by a device that is not in the facts"),
        ({"type": "part"}, "not a whole disk"),
        ({"type": "unknown"}, "not a whole disk"),
        ({"parents": ["sdz"]}, "on top of another device"),
        ({"signatures": [{"type": "LVM2_member"}]}, "LVM2_member"),
        ({"signatures": [{"type": "linux_raid_member", "label": "h:0"}]}, "linux_raid_member"),
        ({"signatures": [{"type": "linux_raid_member", "label": "h:bl170"}]}, "linux_raid_member"),
        ({"signatures": [{"type": "zfs_member", "label": "tank"}]}, "zfs_member"),
        ({"signatures": [{"type": "bcache"}]}, "bcache"),
        ({"signatures": [{"type": "crypto_LUKS"}]}, "crypto_LUKS"),
        ({"signatures": [{"type": "swap"}]}, "swap"),
        ({"signatures": [{"type": "ceph_bluestore"}]}, "ceph_bluestore"),
        ({"signatures": [{"type": "never_heard_of"}]}, "never_heard_of"),
        ({"signatures": [{"type": "ext4"}, {"type": "drbd"}]}, "drbd"),
        ({"signatures": [{"type": "jbd"}]}, "jbd"),
    ],
)
def test_what_is_in_use_or_a_part_of_something_is_refused(changes, said):
    assert said in why(disk("sdb", **changes))


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"unknown": ["pvs ended with exit code 5"]}, "could be read"),
        ({"lvm_pvs": ["/dev/sdb"]}, "member of a volume group"),
        ({"md_members": ["sdb"]}, "member of a volume group"),
        ({"zpool_members": ["sdb"]}, "member of a volume group"),
        ({"members": {"sdb": "lvm vg0"}}, "belongs to lvm vg0"),
        ({"members": {"sdb": "lvm bl1"}}, "belongs to lvm bl1"),
        ({"members": {"sdb": "lvm"}}, "belongs to lvm"),
        ({"members": {"sdb": "bcache"}}, "belongs to bcache"),
        ({"swaps": ["/dev/sdb"]}, "swap in use"),
        ({"dm_tables": ["secret: 0 2048 crypt aes 0000 0 8:16 4096"]}, "device-mapper secret"),
        ({"mounts": []}, "do not say what / is"),
        (
            {"mounts": [{"source": "/dev/root", "target": "/", "fstype": "ext4"}]},
            "/ is on /dev/root",
        ),
    ],
)
def test_what_the_host_says_about_it_elsewhere_counts(facts, said):
    assert said in why(disk("sdb"), **facts)


@pytest.mark.parametrize(
    "changes",
    [
        {"signatures": [{"type": "ext4", "label": "old"}]},
        {"signatures": [{"type": "gpt"}, {"type": "PMBR"}]},
        {"mounts": ["/mnt/benchlab/bl17"]},
        {"type": "loop"},
        {"signatures": [{"type": "linux_raid_member", "label": "host:bl17"}]},
        {"signatures": [{"type": "zfs_member", "label": "bl17"}]},
    ],
)
def test_unused_file_systems_and_what_is_ours_may_go(changes):
    assert why(disk("sdb", **changes)) == ""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mounts": ["/srv/db"]}, "sdb1 on it"),
        ({"swap": True}, "swap"),
        ({"signatures": [{"type": "LVM2_member"}]}, "LVM2_member"),
        ({"signatures_known": False}, "could not be read"),
        ({"holders": ["md0"]}, "in use by a device"),
    ],
)
def test_a_partition_speaks_for_its_disk(changes, said):
    assert said in why(disk("sdb"), part(**changes))


def test_an_unused_partition_goes_with_its_disk():
    assert why(disk("sdb"), part(signatures=[{"type": "xfs"}])) == ""


def mapped(name: str, **changes) -> BlockDevice:
    values = {"type": "lvm", "path": f"/dev/mapper/{name}", "majmin": "253:0", "serial": "",
              "parents": ["sdb"]}  # fmt: skip
    return disk("dm-0", **(values | changes))


def test_a_machine_with_its_root_on_lvm_keeps_that_disk_even_if_marked_spare():
    """As Debian's installer makes it: a group on a partition, / and swap in it, beside it /boot."""
    disks = (
        disk("sdb", holders=[], signatures=[{"type": "gpt"}, {"type": "PMBR"}]),
        disk("sdb2", type="part", majmin="8:18", serial="", parents=["sdb"], mounts=["/boot"],
             signatures=[{"type": "ext2"}]),
        disk("sdb3", type="part", majmin="8:19", serial="", parents=["sdb"], holders=["dm-0"],
             signatures=[{"type": "LVM2_member", "uuid": "u"}]),
        mapped("h--vg-root", parents=["sdb3"], mounts=["/"], signatures=[{"type": "ext4"}]),
    )  # fmt: skip
    root = {"source": "/dev/mapper/h--vg-root", "target": "/", "fstype": "ext4", "majmin": "253:0"}
    boot = {"source": "/dev/sdb2", "target": "/boot", "fstype": "ext2", "majmin": "8:18"}
    found = refusals(
        wiping(disks[0]),
        host(*disks, mounts=[root, boot], members={"sdb3": "lvm h-vg"}, lvm_pvs=["/dev/sdb3"]),
        spare(disks[0]),
        LAYOUT,
    )
    said = "; ".join(found)
    for where in ("/dev/sdb: ", "/dev/sdb (by sdb2 on it): ", "/dev/sdb (by sdb3 on it): "):
        assert f"{where}the running system is on it" in said
    assert "belongs to lvm h-vg" in said


def btrfs(uuid: str = "u-1", devices: int = 1) -> list[dict[str, Any]]:
    return [{"type": "btrfs", "uuid": uuid, "devices": devices}]


@pytest.mark.parametrize(
    "kind", ["disk", "part", "lvm", "crypt", "raid1", "mpath", "dm", "zvol", "loop"]
)
def test_half_of_a_btrfs_is_a_member_of_it_whatever_the_other_half_is_on(kind):
    other = disk("other", 2, type=kind, signatures=btrfs())
    assert "one device of a btrfs, the other is /dev/other" in why(
        disk("sdb", signatures=btrfs()), other
    )
    assert why(disk("sdb", signatures=btrfs("u-2")), other) == ""
    half = part(signatures=btrfs())
    said = "/dev/sdb (by sdb1 on it): is one device of a btrfs, the other is /dev/other"
    assert said in why(disk("sdb"), half, other)


def test_a_btrfs_of_several_devices_is_refused_wherever_the_others_are():
    assert "a btrfs file system that needs 2 devices" in why(
        disk("sdb", signatures=btrfs(devices=2))
    )
    assert "needs 3 devices" in why(disk("sdb"), part(signatures=btrfs(devices=3)))


def test_the_cure_of_a_btrfs_clears_the_copies_of_its_superblock():
    zero = "dd if=/dev/zero of=/dev/sdb bs=4096 count=1 seek="
    small, large = (disk("sdb", signatures=btrfs(devices=2), size=size) for size in (GIB, 1 << 40))
    assert f"(wipefs -a /dev/sdb; {zero}16384)" in why(small)
    assert f"(wipefs -a /dev/sdb; {zero}16384; {zero}67108864)" in why(large)


def test_a_btrfs_whose_devices_nobody_counted_is_refused():
    assert "could not be read" in why(disk("sdb", signatures=btrfs(devices=0)))


def test_the_same_btrfs_seen_through_what_stands_on_the_disk_is_no_other_half():
    ours: dict[str, Any] = {"members": {"sdb": "md bl17", "sdc": "md bl17"}}
    legs = [disk(name, number, signatures=btrfs(), holders=["md127"])
            for number, name in enumerate(("sdb", "sdc"), 1)]  # fmt: skip
    array = disk("md127", 3, type="raid1", serial="", parents=["sdb", "sdc"], signatures=btrfs(),
                 links=["/dev/md/bl17"])  # fmt: skip
    assert why(*legs, array, **ours) == ""
    stray = disk("sdd", 4, signatures=btrfs())
    assert "the other is /dev/sdd" in why(*legs, array, stray, **ours)


def test_a_loop_keeps_its_disk():
    loop = disk("loop0", 2, type="loop", serial="", parents=["sdb"], mounts=["/mnt/x"])
    assert "carries /dev/loop0" in why(disk("sdb", holders=["loop0"]), loop)


@pytest.mark.parametrize(
    ("facts", "cure"),
    [
        ({"members": {"sdb": "lvm vg0"}}, "vgremove vg0, or vgreduce vg0 /dev/sdb; pvremove /dev/sdb"),
        ({"members": {"sdb": "lvm"}}, "pvremove /dev/sdb"),
        ({"members": {"sdb": "md m"}}, "mdadm --stop"),
        ({"members": {"sdb": "zpool tank"}}, "zpool destroy tank, or zpool remove tank; zpool labelclear /dev/sdb"),
        ({"members": {"sdb": "bcache"}}, "echo 1 >/sys/block/sdb/bcache/stop"),
    ],
)  # fmt: skip
def test_a_member_is_refused_with_the_commands_that_free_it(facts, cure):
    assert cure in why(disk("sdb"), **facts)


@pytest.mark.parametrize("name", ["vg0-data", "bl1-data", "bl170-data", "xbl17-data", "bl17x"])
def test_a_volume_of_somebody_else_keeps_its_disk(name):
    assert "not made by this layout" in why(disk("sdb", holders=["dm-0"]), mapped(name))


@pytest.mark.parametrize("device", [
    disk("sdb", mounts=["/mnt/benchlab/blabc56"]),
    disk("sdb", signatures=[{"type": "zfs_member", "label": "blabc56"}]),
    disk("sdb", signatures=[{"type": "linux_raid_member", "label": "lab1:blabc56"}]),
    disk("sdb", holders=["dm-0"]),
])  # fmt: skip
@pytest.mark.parametrize(
    "owner", ["", "lvm blabc56", "md blabc56", "zpool blabc56", "bcache blabc56"]
)
def test_nobody_is_advised_to_destroy_another_layout(device, owner):
    """It may be running: its own campaign takes it down, and nothing else."""
    members: dict[str, Any] = {"members": {"sdb": owner}} if owner else {}
    said = why(
        device, mapped("blabc56-data"), dm_tables=["blabc56-data: 0 8 linear 8:16 0"], **members
    )
    assert "of layout blabc56 of BenchLab: take it down in its campaign" in said
    assert not re.search("unmount|wipefs|remove|stop|destroy|clear", said)


@pytest.mark.parametrize("target", ["/", "/boot/efi", "/home"])
def test_nobody_is_advised_to_unmount_the_system(target):
    said = why(disk("sdb", mounts=[target]))
    assert f"is mounted at {target}" in said and "unmount" not in said
    assert "is mounted at /data: unmount it" in why(disk("sdb", mounts=["/data"]))


def test_a_volume_of_our_own_does_not():
    members: dict[str, Any] = {"members": {"sdb": "lvm bl17"}, "lvm_pvs": ["/dev/sdb"],
               "dm_tables": ["bl17-data: 0 2048 linear 8:16 2048"]}  # fmt: skip
    ours = disk("sdb", holders=["dm-0"], signatures=[{"type": "LVM2_member"}])
    assert why(ours, mapped("bl17-data"), **members) == ""


@pytest.mark.parametrize(
    ("owner", "mine", "strange"),
    [
        ("lvm bl17", "LVM2_member", ("crypto_LUKS", "linux_raid_member", "zfs_member", "swap")),
        ("md bl17", "linux_raid_member", ("crypto_LUKS", "LVM2_member", "zfs_member", "bcache")),
        ("zpool bl17", "zfs_member", ("crypto_LUKS", "LVM2_member", "linux_raid_member", "swap")),
        ("bcache bl17", "bcache", ("crypto_LUKS", "LVM2_member", "linux_raid_member")),
    ],
)
def test_a_member_of_ours_is_excused_its_owners_signature_and_no_other(owner, mine, strange):
    signed = [{"type": mine}]
    assert why(disk("sdb", signatures=signed), members={"sdb": owner}) == ""
    for kind in strange:
        both = disk("sdb", signatures=[*signed, {"type": kind}])
        assert f"has a {kind} signature" in why(both, members={"sdb": owner})


VM: dict[str, Any] = {"writers": ["qemu-system-x86[4711]"]}
OPEN = "a program that has it open for writing: qemu-system-x86[4711]"


def test_what_a_program_has_open_for_writing_is_refused():
    assert OPEN in why(disk("sdb", **VM))
    assert OPEN in why(disk("sdb"), part(**VM))
    assert OPEN in why(disk("sdb"), part(links=["/dev/disk/by-partlabel/bl17-data-1"], **VM))


def test_what_the_kernel_has_open_is_refused_with_its_cure():
    """A volume of ours, too: no layout exports one."""
    lio: dict[str, Any] = {"openers": [{"use": "is exported as fileio_0/l", "cure": "delete it"}]}
    assert why(disk("sdb", **lio)) == "/dev/sdb: is exported as fileio_0/l: delete it"
    assert "is exported as" in why(disk("sdb"), part(**lio))
    assert "is exported as" in why(disk("sdb", holders=["dm-0"]), mapped("bl17-data", **lio))


def test_a_mapping_that_names_a_disk_by_a_path_uses_it():
    link = disk("sdb", links=["/dev/disk/by-id/x"])
    assert "device-mapper home" in why(link, dm_tables=["home: 0 8 vdo V4 /dev/disk/by-id/x 4096"])


def test_what_the_kernel_holds_for_us_is_excused():
    """mdadm has an array's members open while they are reshaped, and our own tool has our volume open."""
    members: dict[str, Any] = {"members": {"sdb": "lvm bl17"}, "lvm_pvs": ["/dev/sdb"]}
    assert why(disk("sdb", holders=["dm-0"], **VM), mapped("bl17-data", **VM), **members) == ""
    assert OPEN in why(disk("sdb", **VM), members={"sdb": "lvm vg0"})


def test_a_label_in_dev_disk_makes_nothing_ours():
    link = mapped("vg0-data", links=["/dev/disk/by-label/bl17"])
    assert "not made by this layout" in why(disk("sdb", holders=["dm-0"]), link)


def test_the_disk_under_the_system_is_refused_through_every_layer():
    vg = mapped("bl17-root", parents=["md0"], mounts=["/"])
    md = disk("md0", type="raid1", path="/dev/md0", majmin="9:0", serial="", parents=["sdb"],
              links=["/dev/md/bl17"], holders=["dm-0"])  # fmt: skip
    root = [{"source": "/dev/mapper/bl17-root", "target": "/", "fstype": "xfs", "majmin": "253:0"}]
    said = why(disk("sdb", holders=["md0"]), md, vg, mounts=root)
    assert "the running system is on it" in said


def test_another_disk_at_the_node_is_refused():
    planned, now = disk("sdb", serial="A"), disk("sdb", serial="B")
    moved = disk("sdc", 2, serial="A")
    found = refusals(wiping(planned), host(now, moved), spare(planned, now), LAYOUT)
    assert any("serial:A" in f and "/dev/sdc" in f and "plan again" in f for f in found)


def test_a_disk_that_has_gone_is_refused():
    found = refusals(wiping(disk("sdb")), host(), spare(disk("sdb")), LAYOUT)
    assert any("not on this host any more" in f for f in found)


@pytest.mark.parametrize("change", [{"size": 2 * GIB}, {"model": "Model Y"}])
def test_a_disk_that_is_not_as_confirmed_is_refused(change):
    device = disk("sdb")
    other = replace(spare(device)[device.identity], **change)
    for plan, spares in (
        (claim(device), {device.identity: other}),
        (replace(claim(device), **change), spare(device)),
    ):
        step = Step(("wipefs", "--all", "/dev/sdb"), "", destroys=(plan,))
        assert refusals(step, host(device), spares, LAYOUT)


@pytest.mark.parametrize("twin", [{"serial": "SN-sdb"}, {"serial": "SN-sdb", "wwn": ""}])
def test_two_disks_of_one_identity_are_refused(twin):
    assert "they cannot be told apart" in why(disk("sdb"), disk("sdc", 2, **twin))


def test_a_claim_for_nothing_known_is_refused():
    ghost = Claim("serial:X", "/dev/nope", 1, "")
    assert refusals(Step(("true",), "", destroys=(ghost,)), host(), {}, LAYOUT)


def test_a_disk_known_by_its_name_only_is_spare_in_the_boot_in_which_it_was_marked():
    """After the next one another disk of that size may have its name."""
    weak = disk("sdb", serial="")
    assert why(weak) == ""
    assert "was booted since it was marked spare" in why(weak, boot_id="another")
    never = {weak.identity: replace(spare(weak)[weak.identity], boot="")}
    assert "mark it spare again" in "; ".join(refusals(wiping(weak), host(weak), never, LAYOUT))
    assert refusals(wiping(weak), host(weak, boot_id=""), never, LAYOUT)
    assert why(disk("sdb"), boot_id="another") == ""


def test_a_second_superblock_with_another_name_is_anothers():
    signed = [{"type": "linux_raid_member", "label": name} for name in ("any:bl17", "any:bl170")]
    said = why(disk("sdb", signatures=signed), members={"sdb": "md bl17"}, md_members=["sdb"])
    assert "linux_raid_member signature (any:bl170)" in said


@pytest.mark.parametrize("elsewhere", [{"md_members": ["sdb"]}, {"zpool_members": ["sdb"]}])
def test_a_member_of_ours_in_another_list_too_is_refused(elsewhere):
    ours: dict[str, Any] = {"members": {"sdb": "lvm bl17"}, "lvm_pvs": ["/dev/sdb"]}
    assert why(disk("sdb"), **ours) == ""
    assert "is a member of" in why(disk("sdb"), **ours, **elsewhere)
