"""The guard on made-up hosts whose kernel has disks open: what the kernel prints is parsed, and the truth is known.

Whoever set an export or a loop up may have done so in a container, by a name that is another disk's here, or by a node
that is gone since. Programs have devices open too (virtual machines, servers of nbd, ublk and vhost-user), containers
have mounted them, or VFIO took them away. The oracle knows which device it really was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.facts import reading
from agents.safety.guard import Spare, refusals
from benchlab.testing.profiles import examples
from tests.agents.linux_host import output, pairs, sysfs
from tests.agents.made_up import LAYOUT, disk, spare, wiping

NAMES = ("sdb", "sdc", "sdd", "sde")
SIZES = (2097152, 2097152, 4194304)  # sectors
CORE = "/sys/kernel/config/target/core"
BY_PATH = {
    "fileio": "{core}/fileio_{n}/l/info:        TCM FILEIO ID: 0        File: {path}  Size: 1  Mode: O_DSYNC Async: 0",
    "iblock": "{core}/iblock_{n}/l/info:        Major: 0 Minor: 0\n{core}/iblock_{n}/l/udev_path:{path}",
    "nvmet": "/sys/kernel/config/nvmet/subsystems/nqn:{n}/namespaces/1/device_path:{path}",
    "zram": "/sys/class/block/zram{n}/backing_dev:{path}",
    "usb": "/sys/kernel/config/usb_gadget/g/functions/m.{n}/lun.0/file:{path}",
    "scst": "/sys/kernel/scst_tgt/devices/d{n}/filename:{path}",
}
# Mounted file systems that name a further device in their options.
BY_OPTION = ("xfs rw,logdev", "xfs rw,rtdev", "jfs rw,jdev", "reiserfs rw,jdev", "erofs ro,device")
BY_NUMBER = {
    "iblock": "{core}/iblock_{n}/l/info:        Major: {major} Minor: {minor}  CLAIMED: IBLOCK",
    "bcachefs": "/sys/fs/bcachefs/u/dev-{n}/block/dev:{major}:{minor}",
    "rnbd": "/sys/class/rnbd-server/ctl/devices/{n}/block_dev/dev:{major}:{minor}",
    "xen": "/sys/bus/xen-backend/devices/vbd-{n}/physical_device:{major:x}:{minor:x}",
}
PSCSI = (
    "{core}/pscsi_{n}/l/info:        SCSI Device Bus Location: Channel ID: 0 Target ID: 1 LUN: 2 Host ID: {n}\n"
    "{core}/pscsi_{n}/l/udev_path:/dev/sg1"
)
PASSTHRU = "/sys/kernel/config/nvmet/subsystems/nqn:{n}/passthru/device_path:/dev/nvme{n}"
PROGRAMS = ("qemu-system-x86", "nbd-server", "ublk", "vhost", "qemu-nbd", "tcmu-runner")


@dataclass
class Made:
    """Sections of a reading, and what is true of the host."""

    files: list[str] = field(default_factory=list)
    lsblk: list[str] = field(default_factory=list)
    tree: list[str] = field(default_factory=list)
    served: list[str] = field(default_factory=list)
    backing: list[str] = field(default_factory=list)
    losetup: list[str] = field(default_factory=list)
    drbd: list[str] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)
    picked: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    programs: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    # A device -> the disk that it is on
    disk_of: dict[str, str] = field(default_factory=dict)
    minors: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    open_disks: set[str] = field(default_factory=set)
    # An export that nobody can place
    unknown: bool = False
    # What is not open must be allowed: nothing here may be taken for another disk
    free: bool = True


class Host:
    """From one seed: disks with partitions and volumes on them, and up to three openers."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.made = Made()
        for number, name in enumerate(self.random.sample(NAMES, self.random.randint(2, 4)), 1):
            size = self.random.choice(SIZES)
            self.device(name, 16 * number, size, name)
            if self.rare(2):
                self.device(f"{name}1", 16 * number + 1, size - 2048, name, partition="1")
                self.made.tree.append(f"/sys/block/{name}/{name}1/partition")
            if self.rare(4):
                below = self.random.choice([d for d, disk in self.made.disk_of.items() if disk == name])  # fmt: skip
                self.device(f"dm-{number}", 200 + number, self.random.choice(SIZES), name)
                self.made.tree.append(f"/sys/class/block/{below}/holders/dm-{number}")
        self.devices = tuple(self.made.disk_of)
        self.disks = [name for name in self.devices if name in NAMES]
        ways = (self.by_path, self.by_path, self.by_number, self.loop, *[self.other] * 3)
        for number in range(self.random.choice((0, 1, 1, 1, 2, 3))):
            self.random.choice(ways)(number)
        if self.rare(40):
            module = self.random.choice(("target_core_mod", "nvmet"))
            self.made.served.append(f"/sys/module/{module}")
            self.made.unknown = True

    def rare(self, one_in: int) -> bool:
        return self.random.randrange(one_in) == 0

    def device(self, name: str, minor: int, size: int, disk: str, **more: str) -> None:
        made = self.made
        made.disk_of[name], made.minors[name], made.sizes[name] = disk, minor, size
        kind = "part" if more else "lvm" if name.startswith("dm-") else "disk"
        made.files += sysfs(name, f"8:{minor}", size, **more)
        serial = {"SERIAL": f"SN-{name}", "MODEL": "M"} if kind == "disk" else {}
        made.lsblk.append(pairs(name, f"8:{minor}", kind, **serial))

    def opens(self, name: str) -> None:
        self.made.open_disks.add(self.made.disk_of[name])

    def node(self, name: str, place: str, inode: str = "5 {}") -> None:
        minor = self.made.minors[name]
        self.made.backing.append(f"{inode.format(minor)} 8 {minor:x} 61b0 {place}")

    def file(self, place: str, inode: str = "65025 77") -> None:
        self.made.backing.append(f"{inode} 0 0 81a4 {place}")

    def path(self, name: str, number: int, here: bool) -> str:
        """Name of the node by which it was opened: in a container, another disk's here perhaps."""
        other = name if here else self.random.choice(self.devices)
        return self.random.choice(
            (f"/dev/{name}", f"/x/vd{number}", f"/dev/x y{number}", f"/dev/{other}")
        )

    def by_path(self, number: int) -> None:
        kind = self.random.choice(list(BY_PATH))
        path = self.resolved(number, spaces=True)
        self.made.files.append(BY_PATH[kind].format(core=CORE, n=number, path=path))

    def resolved(self, number: int, spaces: bool) -> str:
        """Path of something that the kernel has open, and where it leads in which mounts."""
        name = self.random.choice(self.devices)
        where = self.random.choice(("here", "here", "container", "file", "gone"))
        path = self.path(name, number, where == "here").replace(" ", " " if spaces else "")
        match where:
            case "here":
                self.node(name, path)
                self.opens(name)
            case "container":
                self.node(name, f"/proc/77/root{path}")
                self.elsewhere(name, path)
                self.opens(name)
            case "file":
                path = f"/root/lun{number}"
                self.file(path)
            case _:
                path = f"/x/gone{number}"
                self.made.unknown = True
                if self.rare(2):
                    self.made.backing.append(f"26 2 0 0 41ed {path}")
        return path

    def elsewhere(self, name: str, path: str) -> None:
        """What a container's path is on the host itself."""
        other = self.random.choice(self.devices)
        if path == f"/dev/{other}" and other != name:
            self.node(other, path)
        elif self.rare(3):
            self.file(path)
        self.made.free = False

    def by_number(self, number: int) -> None:
        kind, name = self.random.choice(list(BY_NUMBER)), self.random.choice(self.devices)
        minor = self.made.minors[name]
        self.made.files.append(BY_NUMBER[kind].format(core=CORE, n=number, major=8, minor=minor))
        self.opens(name)

    def other(self, number: int) -> None:
        ways = (self.option, self.drbd, self.journal, self.raw, self.pscsi, self.passthru, self.mount,
                self.program, self.mapping)  # fmt: skip
        self.random.choice(ways)(number, self.random.choice(self.devices))

    def option(self, number: int, _: str) -> None:
        kind, _, more = self.random.choice(BY_OPTION).partition(" ")
        path = self.resolved(number, spaces=False)
        line = f"3{number} 27 8:99 / /x{number} rw - {kind} /dev/sdz {more}={path}"
        self.made.files.append(f"/proc/self/mountinfo:{line}")

    def drbd(self, number: int, _: str) -> None:
        path = self.resolved(number, spaces=False)
        self.made.drbd.append(f'resource r{number} {{\n disk\t\t"{path}";\n}}')

    def journal(self, _: int, name: str) -> None:
        self.made.served.append(f"/proc/fs/jbd2/{name}")
        self.opens(name)

    def raw(self, number: int, name: str) -> None:
        minor = self.made.minors[name]
        self.made.served.append(f"/sys/class/raw/raw{number + 1}")
        self.made.raw.append(f"/dev/raw/raw{number + 1}:\tbound to major 8, minor {minor}")
        self.opens(name)

    def pscsi(self, number: int, _: str) -> None:
        name = self.random.choice(self.disks)
        self.made.files.append(PSCSI.format(core=CORE, n=number))
        self.made.served.append(f"/sys/class/scsi_device/{number}:0:1:2/device/block/{name}")
        self.opens(name)

    def passthru(self, number: int, _: str) -> None:
        """A whole NVMe controller: its disks have no node of their own there."""
        name = self.random.choice(self.disks)
        self.made.files.append(PASSTHRU.format(n=number))
        self.made.backing.append(f"5 {90 + number} f1 {number:x} 2180 /dev/nvme{number}")
        self.made.served.append(f"/sys/class/nvme/nvme{number}/{name}")
        self.opens(name)

    def mount(self, number: int, name: str) -> None:
        """In a container, by a name that is another's here perhaps."""
        path = f"/dev/{self.random.choice(self.devices)}"
        self.made.picked.append(
            f"/proc/7{number}/mountinfo:9 1 8:{self.made.minors[name]} / /data rw - ext4 {path} rw"
        )
        self.opens(name)
        self.made.free = False

    def program(self, number: int, name: str) -> None:
        """Open for writing, by whatever node."""
        place = f"/proc/8{number}/fd/{number}"
        self.made.programs.append(f"{place} {self.random.choice(PROGRAMS)}")
        self.made.opened.append(
            f"brw-rw---- 1 0 6 8, {self.made.minors[name]:3} Nov 22 10:00 {place}"
        )
        self.opens(name)

    def mapping(self, number: int, _: str) -> None:
        """A target of device-mapper whose table has a path, and of which the kernel shows no device below."""
        name = self.random.choice([name for name in self.devices if not name.startswith("dm-")])
        path = f"/dev/{name}"
        if self.rare(4):
            path, self.made.unknown = f"/x/gone{number}", True
        else:
            self.opens(name)
        self.made.files += sysfs(f"dm-{90 + number}", f"253:{90 + number}")
        self.made.files.append(f"/sys/class/block/dm-{90 + number}/dm/name:home{number}")
        self.made.lsblk.append(pairs(f"dm-{90 + number}", f"253:{90 + number}", "dm"))
        self.made.tables.append(f"home{number}: 0 8 user {path} 0")

    def loop(self, number: int) -> None:
        """Over a device or a file; the kernel knows which inode it has open, unless losetup could not be run."""
        name, loop, knows = self.random.choice(self.devices), f"loop{number}", not self.rare(4)
        where = self.random.choice(("here", "container", "gone"))
        path = self.path(name, number, where == "here")
        offset = self.random.choice((0, 0, 32768))
        size = self.made.sizes[name] - offset // 512
        limit = self.random.choice((0, 0, size * 512))
        is_file = self.rare(4)
        inode = ("254:1", 70 + number) if is_file else ("0:5", self.made.minors[name])
        if where == "here" and is_file:
            path = f"/root/a{number}"
            self.file(path, f"65025 {70 + number}")
        elif where == "here":
            self.node(name, path)
        elif where == "container":
            inode = ("0:44", number)
            self.elsewhere(name, path)
        self.made.free &= where == "here" and knows
        values = {
            "loop/backing_file": path,
            "loop/offset": str(offset),
            "loop/sizelimit": str(limit),
        }
        self.made.files += sysfs(loop, f"7:{number}", size, **values)
        self.made.lsblk.append(pairs(loop, f"7:{number}", "loop"))
        if knows:
            self.made.losetup.append(f"/dev/{loop}  {inode[0]}  {inode[1]}")
        if not is_file:
            self.opens(name)

    def reading(self) -> bytes:
        made = self.made
        sections: dict[str, Any] = {
            "losetup": "\n".join(made.losetup),
            "backing": ("\n".join(made.backing), 1, ""),
            **({"drbd": "\n".join(made.drbd)} if made.drbd else {}),
            **({"raw": "\n".join(made.raw)} if made.raw else {}),
            "openers": "\n".join(made.programs),
            "opened": "\n".join(made.opened),
        }
        return output(
            files="+" + "\n".join(made.files),
            lsblk="+" + "\n".join(made.lsblk),
            tree="+" + "\n".join(made.tree),
            picked="+" + "\n".join(made.picked),
            served="\n".join(made.served),
            dmsetup="\n".join(made.tables) or "No devices found",
            **sections,
        )


def wrong_passes(seed: int) -> tuple[list[str], int, int]:
    """Disks that may be wiped though somebody has them open; pairs of a host and a disk; and those allowed."""
    host = Host(seed)
    made = host.made
    facts = reading.parse_linux_facts(host.reading())
    spares = {
        d.identity: Spare(d.identity, d.size, d.model, "ssd", facts.boot_id) for d in facts.devices
    }
    wrong, allowed = [], 0
    for name in host.disks:
        device = facts.find_device(name)
        assert device is not None
        foreign = any(disk == name and on.startswith("dm-") for on, disk in made.disk_of.items())
        must = made.unknown or foreign or name in made.open_disks
        reasons = refusals(wiping(device), facts, spares, LAYOUT)
        allowed += not reasons
        if must and not reasons:
            wrong.append(name)
        assert must or not made.free or reasons == [], (seed, name, reasons)
    # VFIO has taken these, or they were pulled out: their names are nobody's.
    for device in map(disk, set(NAMES) - set(host.disks)):
        if not refusals(wiping(device), facts, spare(device, boot=facts.boot_id), LAYOUT):
            wrong.append(device.name)
    return wrong, len(NAMES), allowed


@settings(max_examples=examples(4000), deadline=None)
@given(st.integers(0, 2**64 - 1))
def test_what_the_kernel_has_open_is_never_destroyed(seed):
    assert wrong_passes(seed)[0] == []


def test_what_it_has_not_is_allowed():
    """Else the guard could pass the test above by refusing everything."""
    totals = [wrong_passes(seed) for seed in range(300)]
    assert sum(allowed for _, _, allowed in totals) > sum(pairs for _, pairs, _ in totals) / 6
