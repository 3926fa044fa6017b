"""Leftovers of old lives on a disk ($d), in threes: so that a stripe over three disks meets all of them at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Left:
    """`said` is in the guard's reason, and so is each of `cures` until it has run; "": it may be wiped."""

    name: str
    make: str
    said: str = ""
    cures: tuple[str, ...] = ("wipefs -a {d}",)


ONLY_1024 = "dd if=/dev/zero of=$d bs=1k count=1; dd if=/dev/zero of=$d bs=1k seek=2 count=1022;"
TABLE = "udevadm settle; mkfs.ext4 -qF ${d}1; udevadm settle"
VFAT = (
    r"printf '\353\074\220mkfs.fat\000\002\020\001\000\002\000\002\000\000\370\200\000\040\000\002"
    r"\000\000\000\000\000\000\010\000\200\000\051\001\002\003\004OLD DISK   FAT16   '"
    r" | dd of=$d; printf '\125\252' | dd of=$d bs=1 seek=510;"
    r" printf '\370\377\377\377' | dd of=$d bs=512 seek=1"
)
# Sixteen uberblocks of a first label: enough for libblkid. Pools made by OpenZFS itself: test_guard_zfs.py.
ZFS = (
    r"for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do"
    r" printf '\014\261\272\000\000\000\000\000' | dd of=$d bs=1k seek=$((128 + i)); done"
)
STOP = (
    "udevadm settle; sleep 1; for s in /sys/fs/bcache/*-*/stop /sys/block/bcache*/bcache/stop; do"
    " [ ! -e $s ] || echo 1 >$s; done;"
    ' while [ -n "$(ls -d /sys/fs/bcache/*-* /sys/class/block/*/bcache 2>/dev/null)" ]; do sleep 0.2; done'
)


def md(version: str) -> Left:
    name = f"m{version.replace('.', '')}"
    make = (
        f"modprobe raid1; mdadm --create /dev/md/{name} --run -e {version} --level 1"
        f" --raid-devices 2 $d missing; udevadm settle; mdadm --stop /dev/md/{name}"
    )
    return Left(f"md {version}", make, "linux_raid_member")


HALF = "vgcreate -qy vg1 $d /dev/ubdb; dd if=/dev/zero of=/dev/ubdb bs=1M count=2 conv=fsync; udevadm settle"
LUKS1 = "printf x | cryptsetup luksFormat -q --type luks1 --pbkdf-force-iterations 1000 $d -"
# udev reads a disk that was written to, and while it does the table cannot be read again.
COPY_ALONE = (
    "sgdisk -n 1:0:0 $d; udevadm settle; dd if=/dev/zero of=$d bs=1M count=1; udevadm settle;"
    " blockdev --rereadpt $d"
)
MAY_GO = (
    (Left("ext2 at 1024 alone", "mkfs.ext2 -qF $d;" + ONLY_1024), Left("xfs", "mkfs.xfs -qf $d"),
     Left("btrfs", "mkfs.btrfs -qf $d")),
    (Left("vfat", VFAT), Left("gpt with ext4", "sgdisk -n 1:0:0 $d;" + TABLE),
     Left("dos with ext4", "parted -s $d mklabel msdos mkpart primary 1MiB 100%;" + TABLE)),
    (Left("ext3", "mkfs.ext3 -qF $d"), Left("minix", "mkfs.minix $d"),
     Left("a blank disk", ":")),
)  # fmt: skip
END = "131071"  # the last 4 KiB of a disk of 512 MiB
LAST = "dd of=$d bs=512 seek=1048575 conv=sync"
CLEAR = ("wipefs -a {d}; dd if=/dev/zero of={d} bs=4096 count=1 seek=" + END,)
MAY_NOT = (
    (Left("gpt's copy alone", COPY_ALONE, "lists 1 partition which the kernel does not show"),
     Left("a dynamic disk's last sector", "printf PRIVHEAD | " + LAST, "ldm", CLEAR),
     Left("gmirror", "printf GEOM::MIRROR | " + LAST, "geom", CLEAR)),
    (Left("swap", "mkswap -q $d", "swap"), Left("LUKS 1", LUKS1, "crypto_LUKS"),
     Left("PV without group", "pvcreate -qy $d", "belongs to lvm", ("pvremove {d}",))),
    (md("0.90"), md("1.0"), md("1.1")),
    (md("1.2"), Left("bcache backing", f"modprobe bcache; make-bcache -B $d; {STOP}", "bcache"),
     Left("bcache cache", f"modprobe bcache; make-bcache -C $d; {STOP}", "bcache")),
    (Left("half a group", HALF, "belongs to lvm vg1"),
     Left("zfs", ZFS, "zfs_member"),
     Left("a group of its own", "vgcreate -qy vg2 $d", "belongs to lvm vg2", ("vgremove vg2", "pvremove {d}"))),
)  # fmt: skip
