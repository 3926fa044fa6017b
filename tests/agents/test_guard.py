"""The guard: every way a disk can be somebody's, one by one, and then whatever hypothesis thinks of."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.contracts import Claim, GuardError, Secret, Step, Target
from agents.facts.model import BlockDevice, HostFacts, Signature
from agents.guard import Spare, check, job_refusals, refusals
from tests.agents.made_up import GIB, claim, disk, host, spare

LAYOUT = "bl17"


def wiping(device: BlockDevice, *words: str) -> Step:
    return Step(words or ("wipefs", "--all", device.path), "wipe", destroys=(claim(device),))


def why(device: BlockDevice, *others: BlockDevice, layout: str = LAYOUT, **facts) -> str:
    """All reasons against wiping a disk that a person marked spare, on a host with others."""
    found = refusals(wiping(device), host(device, *others, **facts), spare(device), layout)
    return "; ".join(found)


def test_a_blank_spare_disk_may_be_wiped():
    assert why(disk("sdb")) == ""


def test_check_raises_with_the_command_and_the_cause():
    with pytest.raises(GuardError, match=r"wipefs --all /dev/sdb.*not marked spare"):
        check(wiping(disk("sdb")), host(disk("sdb")), {}, LAYOUT)


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
        ({"holders": ["dm-0"]}, "held by a device that the facts do not know"),
        ({"type": "part"}, "not a whole disk"),
        ({"type": "unknown"}, "not a whole disk"),
        ({"parents": ["sdz"]}, "standing on something else"),
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


def part(**changes) -> BlockDevice:
    values = {"type": "part", "majmin": "8:17", "serial": "", "parents": ["sdb"]}
    return disk("sdb1", **(values | changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mounts": ["/srv/db"]}, "sdb1 on it"),
        ({"swap": True}, "swap"),
        ({"signatures": [{"type": "LVM2_member"}]}, "LVM2_member"),
        ({"signatures_known": False}, "could not be read"),
        ({"holders": ["md0"]}, "held by a device"),
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


def test_half_of_a_btrfs_is_a_member_of_it():
    half = [{"type": "btrfs", "uuid": "u-1"}]
    mine, other = disk("sdb", signatures=half), disk("sdc", 2, signatures=half)
    assert "one disk of a btrfs, the other is /dev/sdc" in why(mine, other)
    assert why(mine, disk("sdc", 2, signatures=[{"type": "btrfs", "uuid": "u-2"}])) == ""


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


def test_a_volume_of_our_own_does_not():
    members: dict[str, Any] = {"members": {"sdb": "lvm bl17"}, "lvm_pvs": ["/dev/sdb"],
               "dm_tables": ["bl17-data: 0 2048 linear 8:16 2048"]}  # fmt: skip
    ours = disk("sdb", holders=["dm-0"], signatures=[{"type": "LVM2_member"}])
    assert why(ours, mapped("bl17-data"), **members) == ""


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
    assert "nobody can tell them apart" in why(disk("sdb"), disk("sdc", 2, **twin))


@pytest.mark.parametrize(
    "argv",
    [
        ("wipefs", "-a", "/dev/sdc"),
        ("dd", "of=/dev/sdc"),
        ("fio", "--filename=/dev/sdb:/dev/sdc"),
        ("fio", "--filename=/dev/disk/by-id/ata-C"),
        ("mkfs.xfs", "-l", "logdev=/dev/sdc,size=1g", "/dev/sdb"),
        ("dd", "of=/dev//sdc"),
        ("dd", "of=/dev/./sdc"),
        ("dd", "of=//dev/sdc"),
        ("dd", "of=../../dev/sdc"),
        ("dd", "of=/dev/sdb/../sdc"),
        ("dd", "of=/proc/self/root/dev/sdc"),
        ("dd", "of=/dev/sdz"),
        ("dd", "of=/dev/sdb9"),
        ("dd", "of=/sys/dev/sdc"),
        ("tee", "/sys/dev/block/8:32/queue/scheduler"),
        ("zpool", "create", "bl17", "sdc"),
        ("dmsetup", "remove", "cryptdata"),
        ("vgremove", "-y", "vg0"),
        ("lvremove", "-y", "vg0/data"),
        ("dmsetup", "create", "x", "--table", "0 8 linear 8:32 0"),
        ("mount", "UUID=1234", "/mnt"),
        ("sh", "-c", "echo 1 >/sys/block/sdc/device/delete"),
        ("sh", "-c", "cat x >/dev/$disk"),
        ("/tmp/lsblk", "/dev/sdc"),
        ("env", "lsblk", "/dev/sdc"),
        ("mkfs.xfs", Secret("/dev/sdc")),
    ],
)
@pytest.mark.parametrize("destroys", [True, False])
def test_no_word_may_name_a_disk_that_is_not_claimed(argv, destroys):
    mine, other = disk("sdb"), disk("sdc", 2, links=["/dev/disk/by-id/ata-C"])
    crypt = disk("dm-5", type="crypt", path="/dev/mapper/cryptdata", majmin="253:5", serial="",
                 parents=["sdd"])  # fmt: skip
    there = host(mine, other, crypt, disk("sdd", 3, holders=["dm-5"]), members={"sdd": "lvm vg0"})
    step = Step(argv, "", destroys=(claim(mine),) if destroys else ())
    assert refusals(step, there, spare(mine), LAYOUT)


@pytest.mark.parametrize(
    "argv",
    [
        ("wipefs", "--all", "/dev/sdb"),
        ("dd", "if=/dev/zero", "of=/dev/disk/by-path/pci-0000:00:1f.2-ata-1"),
        ("fio", "--filename=/dev/sdb:/dev/sdb1"),
        ("mkfs.ext4", "-L", "bl17", "/dev/sdb"),
    ],
)
def test_words_that_name_the_claimed_disk_pass(argv):
    mine = disk("sdb", links=["/dev/disk/by-path/pci-0000:00:1f.2-ata-1"])
    assert refusals(wiping(mine, *argv), host(mine, part()), spare(mine), LAYOUT) == []


def test_looking_is_free():
    for argv in (("lsblk", "/dev/sdc"), ("udevadm", "settle"), ("/usr/sbin/blkid", "/dev/sdc")):
        assert refusals(Step(argv, ""), host(disk("sdc")), {}, LAYOUT) == []


# Jobs.

RAW = Target(LAYOUT, {"data": (claim(disk("sdb")),)}, volume="/dev/sdb", size=GIB)
ON_MOUNT = replace(RAW, mount="/mnt/benchlab/bl17")


def job(argv, target, files=None, device=None):
    device = device or disk("sdb")
    return job_refusals(argv, files or {}, target, host(device, disk("sdc", 2)), spare(device), LAYOUT)  # fmt: skip


def test_a_tool_may_destroy_the_raw_disk_of_its_layout_and_no_other():
    assert job(["fio", "--filename=/dev/sdb"], RAW) == []
    assert job(["fio", "--filename=/dev/sdc"], RAW)
    assert job(["fio", "--filename=/dev/sdb"], RAW, device=disk("sdb", mounts=["/data"]))


@pytest.mark.parametrize(
    "text",
    [
        "[j]\nfilename=/dev/sdc\n",
        "[/dev/sdc]\nrw=write\n",
        "[j]\nfilename=/etc/passwd\n",
        "[j]\ndirectory = /home\n",
        "[j]\nfilename=${DISK}\n",
        "[j]\nexec_prerun=rm -rf /home\n",
        "[j]\ndirectory=/mnt/benchlab/bl17/../../../etc\n",
        "[j]\nreplay_redirect=/dev/sdb\n",
    ],
)
def test_a_job_file_cannot_leave_the_layouts_mount(text):
    assert job(["fio", "job.fio"], ON_MOUNT, {"job.fio": text.encode()})


def test_a_job_inside_the_mount_passes():
    text = b"[data]\ndirectory=/mnt/benchlab/bl17\nrw=randread\n"
    mine = disk("sdb", mounts=["/mnt/benchlab/bl17"])
    assert job(["fio", "job.fio"], ON_MOUNT, {"job.fio": text}, mine) == []
    assert job(["dd", "if=/dev/zero", "of=/mnt/benchlab/bl17/f"], ON_MOUNT, device=mine) == []
    assert job(["dd", "if=/dev/zero", "of=/mnt/benchlab/bl17/f", "seek=/dev/sdb"], ON_MOUNT, device=mine)  # fmt: skip
    assert job(["dd", "if=/dev/zero", 'of="/etc/passwd"'], ON_MOUNT, device=mine)
    assert job(["dd", "if=/dev/zero", "of='/mnt'/../etc/passwd"], ON_MOUNT, device=mine)


# Whatever the facts say.

NAMES = ("sdb", "sdc", "sdd", "sde")
VOLUMES = ("bl17-data", "bl17", "vg0-root", "bl1-data", "bl170-x", "home")
TRACES = ("ext4", "xfs", "gpt", "LVM2_member", "linux_raid_member", "swap", "never_heard_of")
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
            made.append(self.device(f"dm-{number}", number + 40, "lvm", parents))
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
            mounts=(pick(("/", "/data", "/mnt/benchlab/bl17")),) if rare(12) else (),
            swap=rare(20),
            read_only=rare(20),
            holders=("ghost",) if rare(20) else (),
            signatures=(Signature(pick(TRACES)),) if rare(5) else (),
            signatures_known=not rare(20),
        )


def provably_spare(node: str, facts: HostFacts, spares: dict[str, Spare]) -> bool:
    """The oracle: written the slow and simple way, from STORAGE.md, sharing nothing with the guard."""
    by_name = {d.name: d for d in facts.devices}
    device = next((d for d in facts.devices if d.path == node), None)
    if device is None or device.type != "disk" or device.parents or facts.unknown:
        return False
    mine = f"serial:{device.serial}" if device.serial else f"weak:{device.name}:{device.size}"
    if mine not in spares or spares[mine].size != device.size or spares[mine].model != device.model:
        return False
    if device.serial and [d.serial for d in facts.devices].count(device.serial) != 1:
        return False
    on_it = {device.name}
    for _ in facts.devices:
        on_it |= {d.name for d in facts.devices if on_it & set(d.parents)}
    for name in on_it:
        one = by_name[name]
        foreign = one.type == "lvm" and one.path not in (
            "/dev/mapper/bl17",
            "/dev/mapper/bl17-data",
        )
        if foreign or one.swap or (one.read_only and name == device.name) or one.holders:
            return False
        if set(one.mounts) - {"/mnt/benchlab/bl17"} or not one.signatures_known:
            return False
        if {s.type for s in one.signatures} - {"ext4", "xfs", "gpt"}:
            return False
        if name in facts.members or name in facts.md_members or one.path in facts.swaps:
            return False
    return True


SEEDS = st.integers(0, 2**64 - 1)


@settings(max_examples=4000, deadline=None)
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


@settings(max_examples=500, deadline=None)
@given(prefix=st.text(max_size=4), suffix=st.text(max_size=3))
def test_a_foreign_device_is_found_inside_any_word(prefix, suffix):
    there = host(disk("sdb"), disk("sdc", 2))
    word = f"{prefix}/dev/sdc{suffix}"
    assert refusals(wiping(disk("sdb"), "dd", word), there, spare(disk("sdb")), LAYOUT)


def test_a_claim_for_nothing_known_is_refused():
    ghost = Claim("serial:X", "/dev/nope", 1, "")
    assert refusals(Step(("true",), "", destroys=(ghost,)), host(), {}, LAYOUT)
