"""Ways the kernel itself can have a disk (/dev/ubdc) open with no holder, mount or descriptor that shows it."""

from __future__ import annotations

from tests.rig.in_use import NO_PARTITION, PARTITION, Use

CORE = "/sys/kernel/config/target/core"
TARGET = (
    "modprobe -a target_core_mod target_core_file target_core_iblock;"
    "mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config;"
)
# Its modules go too: where they are loaded, configfs has to be mounted.
NO_TARGET = (
    f"for lun in {CORE}/*_0/l; do [ ! -e $lun ] || rmdir $lun; done;"
    f"for hba in {CORE}/*_0; do [ ! -e $hba ] || rmdir $hba; done; umount /sys/kernel/config;"
    "modprobe -r target_core_file target_core_iblock target_core_pscsi target_core_user target_core_mod;"
)
SCRATCH = "mkdir -p /mnt/y; mount -t tmpfs none /mnt/y;"
NODE = SCRATCH + "mknod /mnt/y/vd b $(stat -c '0x%t 0x%T' /dev/ubdc);"
NO_SCRATCH = "umount -l /mnt/y;"


def fileio(path: str, size: str = "") -> str:
    """Shell that exports a file or device, as targetcli does."""
    size = size or "$(blockdev --getsize64 /dev/ubdc)"
    return (
        f"mkdir -p {CORE}/fileio_0/l; echo fd_dev_name={path},fd_dev_size={size} >{CORE}/fileio_0/l/control;"
        f"echo 1 >{CORE}/fileio_0/l/enable;"
    )


LUN = (
    "modprobe tcm_loop; f=/sys/kernel/config/target/loopback/naa.6001405000000001;"
    "mkdir -p $f/tpgt_1/lun/lun_0; echo naa.6001405000000002 >$f/tpgt_1/nexus;"
    f"ln -s {CORE}/fileio_0/l $f/tpgt_1/lun/lun_0/port; udevadm settle;"
    "lun=/dev/$(ls /sys/bus/scsi/drivers/sd/*:*/block | grep ^sd);"
)
NO_LUN = (
    "f=/sys/kernel/config/target/loopback/naa.6001405000000001; umount /mnt/x; rm $f/tpgt_1/lun/lun_0/port;"
    "rmdir $f/tpgt_1/lun/lun_0 $f/tpgt_1 $f; rmdir ${f%/*}; modprobe -r tcm_loop; udevadm settle;"
)
# A container whose /dev/ubdd is the disk ubdc; it ends with the script that /tmp/holder names.
CONTAINER = (
    "nohup unshare -m bash -c 'mount --make-rprivate /; mount -t tmpfs none /dev;"
    ' mknod /dev/ubdd b $(tr : " " </sys/class/block/ubdc/dev); {}'
    " touch /tmp/ready; exec /bin/sleep 300 <&- >&- 2>&-' >/tmp/container 2>&1 & echo $! >/tmp/holder;"
    "until [ -e /tmp/ready ]; do sleep 0.1; done; rm /tmp/ready;"
)
NO_CONTAINER = (
    "kill $(cat /tmp/holder); while kill -0 $(cat /tmp/holder) 2>/dev/null; do sleep 0.1; done;"
)

# Numbers of those that ci tries: an export, one by a container's path, and a loop over a node elsewhere.
COVERING = (0, 4, 5)
KERNEL_USES = (
    Use(
        "a mounted LUN of the SCSI target",
        "exported by the kernel's SCSI target as fileio_0/l: .*targetcli /backstores/fileio delete l",
        TARGET + fileio("/dev/ubdc") + LUN + "mkfs.ext4 -qF $lun; mkdir -p /mnt/x; mount $lun /mnt/x",
        NO_LUN + NO_TARGET,
    ),
    Use(
        "a partition that the SCSI target exports by number",
        r"by ubdc1 on it\): is exported by the kernel's SCSI target as iblock_0/l",
        PARTITION + TARGET + f"mkdir -p {CORE}/iblock_0/l; echo udev_path=/dev/ubdc1 >{CORE}/iblock_0/l/control;"
        f"echo 1 >{CORE}/iblock_0/l/enable",
        NO_TARGET + NO_PARTITION,
    ),
    Use(
        "an export while configfs is not mounted",
        "target_core_mod exports.*mount -t configfs",
        TARGET + fileio("/dev/ubdc") + "umount /sys/kernel/config",
        "mount -t configfs none /sys/kernel/config;" + NO_TARGET,
    ),
    Use(
        "an export by a node that is nowhere any more",
        "it was opened as '/mnt/y/vd', which leads nowhere here",
        TARGET + NODE + fileio("/mnt/y/vd") + NO_SCRATCH,
        NO_TARGET,
    ),
    Use(
        "an export that a container set up by another disk's name",
        "/dev/ubdc: is exported by the kernel's SCSI target as fileio_0/l",
        TARGET + CONTAINER.format(fileio("/dev/ubdd", str(512 << 20))),
        NO_TARGET + NO_CONTAINER,
    ),
    Use(
        "a loop over a node that is not below /dev",
        "carries /dev/loop0",
        NODE + "losetup /dev/loop0 /mnt/y/vd",
        "losetup -d /dev/loop0;" + NO_SCRATCH,
    ),
    Use(
        "a loop over a node on a file system that was unmounted lazily",
        "is as large as what /dev/loop0 stands on.*losetup -d /dev/loop0",
        NODE + "losetup /dev/loop0 /mnt/y/vd;" + NO_SCRATCH,
        "losetup -d /dev/loop0",
    ),
    Use(
        "a loop that a container made over another disk's name",
        "is as large as what /dev/loop0 stands on",
        CONTAINER.format("mknod /dev/loop0 b 7 0; losetup /dev/loop0 /dev/ubdd;"),
        "losetup -d /dev/loop0;" + NO_CONTAINER,
    ),
    Use(
        "the log of a mounted xfs, by a node that is not below /dev",
        "/dev/ubdc: is mounted at /mnt/x",
        NODE + "mkfs.xfs -qf -l logdev=/dev/ubdc,size=64m /dev/ubdd; mkdir -p /mnt/x;"
        "mount -o logdev=/mnt/y/vd /dev/ubdd /mnt/x",
        "umount /mnt/x; wipefs -qa /dev/ubdc /dev/ubdd;" + NO_SCRATCH,
    ),
    Use(
        "the journal of a mounted ext4, after its signature was lost",
        "is the journal of a mounted ext4",
        "mke2fs -qF -b 4096 -O journal_dev /dev/ubdc; mkfs.ext4 -qF -b 4096 -J device=/dev/ubdc /dev/ubdd;"
        "mkdir -p /mnt/x; mount /dev/ubdd /mnt/x; wipefs -qaf /dev/ubdc",
        "umount /mnt/x; wipefs -qa /dev/ubdd",
    ),
)  # fmt: skip
