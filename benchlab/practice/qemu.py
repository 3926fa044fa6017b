# SPDX-License-Identifier: Apache-2.0
"""A real Linux host under QEMU's software emulation: what User Mode Linux lacks, and no KVM needed."""

from collections.abc import Iterator, Sequence

from benchlab.practice.disks import DiskSpec
from benchlab.practice.errors import run_command
from benchlab.practice.host import PracticeHost
from benchlab.practice.machine import QEMU, Progress
from benchlab.practice.network import TAP
from benchlab.practice.store import Image
from benchlab.practice.zfs_image import ZfsImage, ensure_zfs_image


class QemuHost(PracticeHost):
    """Debian's own kernel with OpenZFS; virtio disks /dev/vdb and on, with serials and IOPS caps.

    Power loss keeps what was synced, on the root too: a disk of its own holds what was written.
    """

    kind = "qemu"
    boot_s = 300.0
    one_cpu = False
    memory_mb = 2048

    def _check_disks(self, disks: Sequence[DiskSpec]) -> None:
        """Every disk will do."""

    def _ensure_image(self, progress: Progress) -> Image:
        return ensure_zfs_image(progress)

    def _make_root(self, image: Image) -> None:
        create = ("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(image.root))
        run_command((*create, str(self.directory / "root.qcow2")))

    def _kernel_argv(self) -> tuple[str, ...]:
        record = self.record
        image = ZfsImage(record.image, self._image().directory)
        kernel = (
            "root=/dev/vda rw console=ttyS0 quiet net.ifnames=0 mitigations=off nowatchdog "
            "random.trust_cpu=1 tsc=reliable systemd.show_status=no "
            f"systemd.hostname={self.name} systemd.machine_id={record.machine_id}"
        )
        return (
            *(
                "nsenter",
                f"--net={self.network.socket_path}",
                QEMU,
                "-nodefaults",
                "-no-user-config",
            ),
            *("-M", "q35", "-cpu", "max", "-accel", "tcg,thread=multi,tb-size=512", "-smp", "2"),
            *("-m", str(record.memory_mb), "-display", "none", "-serial", "stdio"),
            # A reboot in the guest powers it off, and `restart` powers it on: as the other kind.
            *("-no-reboot", "-kernel", str(image.vmlinux), "-initrd", str(image.initrd)),
            *("-append", kernel),
            *("-netdev", f"tap,id=net,ifname={TAP},script=no,downscript=no"),
            *("-device", "virtio-net-pci,netdev=net,romfile="),
            *self._root_arguments(),
            *(
                word
                for index, disk in enumerate(record.disks, 1)
                for word in self._disk(index, disk)
            ),
        )

    def _root_arguments(self) -> tuple[str, ...]:
        file = f"file={self.directory}/root.qcow2,format=qcow2"
        return (
            "-drive",
            f"{file},if=none,id=root,cache=unsafe",
            "-device",
            _drive_arguments("root"),
        )

    def _disk(self, index: int, disk: DiskSpec) -> Iterator[str]:
        # `unsafe` only spares this machine's own disk: what reached QEMU outlives QEMU.
        drive = f"file={self._disk_file(index)},format=raw,if=none,id=disk{index},cache=unsafe"
        cap = f",throttling.iops-total={disk.iops}" if disk.iops else ""
        yield from ("-drive", drive + ",discard=unmap" + cap)
        yield from ("-device", _drive_arguments(f"disk{index}", disk.serial))


def _drive_arguments(drive: str, serial: str | None = None) -> str:
    return f"virtio-blk-pci,drive={drive}" + (f",serial={serial}" if serial else "")
