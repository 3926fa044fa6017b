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
NO_PARTITION = "udevadm settle; wipefs -qa /dev/ubdc; partprobe /dev/ubdc; udevadm settle"
ARRAY = (
    "modprobe raid1; mdadm --create /dev/md/m --run --level 1 --raid-devices 2 /dev/ubdc /dev/ubdd;"
)
NO_ARRAY = "mdadm --zero-superblock /dev/ubdc /dev/ubdd"
LUKS = (
    "printf secret | cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2"
    " --pbkdf-force-iterations 1000 /dev/ubdc -;"
)
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
        f"nohup unshare -m sh -c '{HIDDEN}' >/dev/null 2>&1 & echo $! >/tmp/holder;"
        "until grep -q ' /mnt/x ' /proc/$!/mountinfo; do sleep 0.1; done",
        'all="$(pgrep -P $(cat /tmp/holder)) $(cat /tmp/holder)"; kill $all || true;'
        "while kill -0 $all 2>/dev/null; do sleep 0.1; done",
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
        ARRAY + "udevadm settle; mdadm --stop /dev/md/m",  # or udev assembles it once more
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
        "modprobe bcache; make-bcache -B /dev/ubdc; udevadm settle",
        "echo 1 >/sys/block/ubdc/bcache/stop; while [ -e /sys/block/ubdc/bcache ]; do sleep 0.2; done; sleep 0.5",
    ),
    Use(
        "a read-only disk",
        "read-only",
        "blockdev --setro /dev/ubdc",
        "blockdev --setrw /dev/ubdc",
    ),
    Use("LUKS, closed", "crypto_LUKS", LUKS, "wipefs -qa /dev/ubdc"),
    Use(
        "LUKS, open",
        "carries /dev/mapper/dark",
        LUKS + "printf secret | cryptsetup open -d - /dev/ubdc dark",
        "cryptsetup close dark; wipefs -qa /dev/ubdc",
    ),
    Use(
        "a loop over it, mounted",  # the kernel lets wipefs open the disk for itself alone all the same
        "carries /dev/loop0",
        "mkfs.ext4 -qF /dev/ubdc; losetup /dev/loop0 /dev/ubdc; mkdir -p /mnt/x; mount /dev/loop0 /mnt/x",
        "umount /mnt/x; losetup -d /dev/loop0",
    ),
    Use(
        "the journal of a mounted ext4",  # no line of mountinfo names it
        "jbd",
        "mke2fs -qF -b 4096 -O journal_dev /dev/ubdc; mkfs.ext4 -qF -b 4096 -J device=/dev/ubdc /dev/ubdd;"
        "mkdir -p /mnt/x; mount /dev/ubdd /mnt/x",
        "umount /mnt/x",
    ),
    Use(
        "half of a btrfs that is not mounted",
        "one device of a btrfs",
        "mkfs.btrfs -qf /dev/ubdd /dev/ubdc; udevadm settle",
        "true",
    ),
    Use(
        "half of a btrfs whose other half is on LVM",
        "one device of a btrfs, the other is /dev/mapper/vg0-l",
        "vgcreate -qy vg0 /dev/ubdd; lvcreate -qy -L 200M -n l vg0; mkfs.btrfs -qf /dev/vg0/l /dev/ubdc;"
        "udevadm settle",
        "wipefs -qa /dev/vg0/l; vgremove -qy vg0; pvremove -qy /dev/ubdd",
    ),
    Use(
        "half of a btrfs whose other half is on a loop",
        "one device of a btrfs, the other is /dev/loop0",
        "truncate -s 200M /tmp/half; losetup /dev/loop0 /tmp/half; mkfs.btrfs -qf /dev/loop0 /dev/ubdc;"
        "udevadm settle",
        "losetup -d /dev/loop0; rm /tmp/half",
    ),
    Use(
        "half of a btrfs whose other half is not here",
        "a btrfs file system that needs 2 devices",
        "mkfs.btrfs -qf /dev/ubdd /dev/ubdc; udevadm settle; wipefs -qa /dev/ubdd;"
        "dd if=/dev/zero of=/dev/ubdd bs=4096 seek=16384 count=1 status=none; udevadm settle",
        "true",
    ),
    Use(
        "half of a btrfs whose first superblock is overwritten",
        "one device of a btrfs, the other is /dev/ubdd",
        "mkfs.btrfs -qf /dev/ubdd /dev/ubdc; dd if=/dev/zero of=/dev/ubdc bs=1M count=1 status=none; udevadm settle",
        "true",
    ),
    Use(
        "an xfs whose log is on another disk",
        "one device of a xfs file system that needs 2 devices",
        "mkfs.xfs -qf -l logdev=/dev/ubdd,size=64m /dev/ubdc; udevadm settle",
        "true",
    ),
    Use(
        "the log of an xfs on another disk",
        "xfs_external_log",
        "mkfs.xfs -qf -l logdev=/dev/ubdc,size=64m /dev/ubdd; udevadm settle",
        "true",
    ),
    Use(
        "a Windows dynamic disk",
        "ldm signature",
        "sgdisk -n 1:0:+1M -t 1:5808c8aa-7e8f-42e0-85d2-e1e90434cfb3"
        " -n 2:0:0 -t 2:af9b60a0-1431-4f62-bc68-3311714a69ad /dev/ubdc; udevadm settle",
        NO_PARTITION,
    ),
    Use(
        "the system's /srv under LVM",
        "the running system is on it",
        "vgcreate -y vg0 /dev/ubdc /dev/ubdd; lvcreate -y -l 100%FREE -n srv vg0;"
        "mkfs.ext4 -qF /dev/vg0/srv; mount /dev/vg0/srv /srv",
        "umount /srv; vgremove -y vg0; pvremove -y /dev/ubdc /dev/ubdd",
    ),
    Use(
        "an array on a partition, mounted",
        "not made by this layout",
        PARTITION
        + "modprobe raid1; mdadm --create /dev/md/m --run --force --level 1 --raid-devices 1"
        " /dev/ubdc1; mkfs.ext4 -qF /dev/md/m; mkdir -p /mnt/x; mount /dev/md/m /mnt/x",
        "umount /mnt/x; mdadm --stop /dev/md/m; mdadm --zero-superblock /dev/ubdc1;" + NO_PARTITION,
    ),
)
