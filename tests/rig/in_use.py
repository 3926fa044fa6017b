"""Ways a disk (/dev/ubdc) can be somebody's on a real kernel: how to get there, back, and what the guard says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Use:
    name: str
    said: str
    make: str
    unmake: str


PARTITION = "sgdisk -n 1:0:0 /dev/ubdc; udevadm settle;"
NO_PARTITION = "wipefs -qa /dev/ubdc; partprobe /dev/ubdc; udevadm settle"
ARRAY = (
    "modprobe raid1; mdadm --create /dev/md/m --run --level 1 --raid-devices 2 /dev/ubdc /dev/ubdd;"
)
NO_ARRAY = "mdadm --zero-superblock /dev/ubdc /dev/ubdd"
HIDDEN = "mount --make-rprivate /; mount /dev/ubdc /mnt/x; sleep 60"

USES = (
    Use(
        "a mounted disk",
        "mounted at /mnt/x",
        "mkfs.ext4 -qF /dev/ubdc; mkdir -p /mnt/x; mount /dev/ubdc /mnt/x",
        "umount /mnt/x",
    ),
    Use(
        "a mounted partition",
        "mounted at /mnt/x",
        PARTITION + "mkfs.ext4 -qF /dev/ubdc1; mkdir -p /mnt/x; mount /dev/ubdc1 /mnt/x",
        "umount /mnt/x; wipefs -qa /dev/ubdc1;" + NO_PARTITION,
    ),
    Use(
        "a mount in another namespace",
        "mounted at /mnt/x",
        "mkfs.ext4 -qF /dev/ubdc; mkdir -p /mnt/x;"
        f"nohup unshare -m sh -c '{HIDDEN}' >/dev/null 2>&1 & echo $! >/tmp/holder; sleep 1",
        "kill $(pgrep -P $(cat /tmp/holder)) $(cat /tmp/holder) || true; sleep 0.5",
    ),
    Use("swap", "swap in use", "mkswap /dev/ubdc; swapon /dev/ubdc", "swapoff /dev/ubdc"),
    Use(
        "a physical volume",
        "belongs to lvm vg0",
        "vgcreate -y vg0 /dev/ubdc",
        "vgremove -y vg0; pvremove -y /dev/ubdc",
    ),
    Use(
        "a volume on a partition",
        "not made by this layout",
        PARTITION + "vgcreate -y vg0 /dev/ubdc1; lvcreate -y -L 64M -n l vg0",
        "vgremove -y vg0; pvremove -y /dev/ubdc1;" + NO_PARTITION,
    ),
    Use("a member of an array", "belongs to md m", ARRAY, "mdadm --stop /dev/md/m;" + NO_ARRAY),
    Use(
        "a member of a stopped array",
        "linux_raid_member",
        ARRAY + "mdadm --stop /dev/md/m",
        NO_ARRAY,
    ),
    Use(
        "a device mapping",
        "not made by this layout",
        "echo 0 2048 linear /dev/ubdc 0 | dmsetup create bl170-x",
        "dmsetup remove bl170-x",
    ),
    Use(
        "the second disk of a btrfs",
        "mounted at /mnt/x",
        "mkfs.btrfs -qf /dev/ubdd /dev/ubdc; mkdir -p /mnt/x; mount /dev/ubdd /mnt/x",
        "umount /mnt/x",
    ),
    Use(
        "bcache",
        "belongs to bcache",
        "modprobe bcache; make-bcache -B /dev/ubdc; udevadm settle; sleep 1",
        "echo 1 >/sys/block/bcache0/bcache/stop; sleep 1",
    ),
    Use(
        "a read-only disk",
        "read-only",
        "blockdev --setro /dev/ubdc",
        "blockdev --setrw /dev/ubdc",
    ),
)
